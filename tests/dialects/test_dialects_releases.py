"""Which dialect a release gets."""

import pytest

from search.dialects import NewerRelease, for_release, known_releases
from search.errors import UnknownRelease


@pytest.mark.parametrize("release", ["0.5.9", "v0.5.9", "0.5.9+sm120", "0.5.9.dev", "0.5.9.dev12+g1a2b3c", " 0.5.9 "])
def test_patched_tree_speaks_like_its_public_base(release):
    assert for_release(release).releases == ("0.5.9",)


def test_known_releases_are_oldest_first_and_each_has_its_dialect():
    assert known_releases() == (
        "0.5.9",
        "0.5.10",
        "0.5.10.post1",
        "0.5.11",
        "0.5.12",
        "0.5.12.post1",
        "0.5.13",
        "0.5.13.post1",
        "0.5.14",
        "0.5.15",
        "0.5.15.post1",
        "0.5.16",
        "0.5.17",
        "0.5.18",
        "0.5.19",
        "0.5.20",
        "0.5.21",
        "0.5.22",
        "0.5.23",
    )
    assert all(release in for_release(release).releases for release in known_releases())


@pytest.mark.parametrize(
    ("release", "place"),
    [
        ("0.4.6", "older than the oldest known one, 0.5.9"),
        ("0.5.9rc1", "older than the oldest known one, 0.5.9"),
        ("0.5.10.post2", "between known ones"),
        ("0.5.17.post1", "between known ones"),
    ],
)
def test_unknown_release_is_refused_and_placed_among_the_known(release, place):
    with pytest.raises(UnknownRelease) as error:
        for_release(release)
    assert place in str(error.value)
    assert "0.5.9, 0.5.10, 0.5.10.post1, 0.5.11" in str(error.value)


@pytest.mark.parametrize("release", ["0.6.0", "0.5.23.post1", "1.0+patched"])
def test_newer_release_gets_the_newest_dialect_with_a_plain_warning(release):
    with pytest.warns(NewerRelease, match=r"newer than the newest release that was read, 0\.5\.23"):
        dialect = for_release(release)
    assert dialect.releases == ("0.5.23",)


@pytest.mark.parametrize("release", ["", "latest", "0.5.9 or so", "0.5.9+", "main"])
def test_text_that_is_no_release_is_refused(release):
    with pytest.raises(UnknownRelease, match="A SGLang release reads like"):
        for_release(release)
