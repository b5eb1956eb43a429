"""The client benchmark runs on the product's present defaults; how fast is for the benchmark to say."""

import json
from pathlib import Path

import pytest

from benchmarks import client


def _rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *words: str) -> dict[str, client.Row]:
    out = tmp_path / "rows.json"
    monkeypatch.setattr("sys.argv", ["client", "--load", "2", "400", "--seconds", "0.5", "--json", str(out), *words])
    client.main()
    return {row["client"]: client.Row(**row) for row in json.loads(out.read_text())}


def test_our_client_on_the_null_server_reports_every_figure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ours = _rows(monkeypatch, tmp_path)["ours"]
    assert ours.missing == ""
    assert ours.emitted_tps and ours.reported_tps and ours.cpu_us_per_token
    assert ours.error_percent == pytest.approx(100 * (ours.reported_tps / ours.emitted_tps - 1))


def test_rivals_that_are_not_at_hand_are_named_with_what_to_give(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = _rows(monkeypatch, tmp_path, "--bench-serving", str(tmp_path / "none.py"))
    assert "none.py" in rows["bench_serving"].missing
    assert "--guidellm" in rows["guidellm"].missing
