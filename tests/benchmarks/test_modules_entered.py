"""What one simulated trial enters is listed by room."""

from benchmarks.modules_entered import main


def test_modules_of_a_launch_are_listed_by_room_with_what_must_be_among_them(capsys):
    main(["--launches", "3"])
    first, median, *rooms = capsys.readouterr().out.splitlines()
    counts = [int(word) for word in first.split(":")[1].split()]
    listed = {line.split()[0]: line.split()[1:] for line in rooms}
    assert len(counts) == 2 and int(median.split()[-1].rstrip(":")) in counts
    assert {"study", "samplers", "storage", "engines"} <= listed.keys()
    assert all(int(count) == len(names) for count, *names in listed.values())
    assert {"loop", "launch", "measure"} <= set(listed["study"]) and "page" not in listed.get("cli", [])
