"""What shows a study to people may fail in any way, and the study goes on."""

import logging

import pytest

from search.app.run import Fanout
from search.errors import Interrupted, StorageFault
from search.study.events import Ending


class Hears:
    """A listener that remembers what it heard, or fails with an error."""

    def __init__(self, error=None):
        self.heard, self.error = [], error

    def __getattr__(self, event):
        def hear(*_):
            self.heard.append(event)
            if self.error is not None:
                raise self.error

        return hear


def tell(fanout):
    fanout.started(None)
    fanout.launching(None)
    fanout.launched(None, None)
    fanout.ended(Ending.LAUNCHES, None)


@pytest.mark.parametrize(
    "error",
    [
        OverflowError("cannot convert float infinity to integer"),
        UnicodeEncodeError("ascii", "\udcff", 0, 1, "surrogates not allowed"),
        OSError(5, "Input/output error"),
        RecursionError(),
    ],
)
def test_listener_that_fails_is_told_every_event_and_so_are_those_after_it(error, caplog):
    broken, whole = Hears(error), Hears()
    with caplog.at_level(logging.ERROR):
        tell(Fanout(broken, whole))

    assert broken.heard == whole.heard == ["started", "launching", "launched", "ended"]
    assert len(caplog.records) == 4 and "the study goes on" in caplog.text and type(error).__name__ in caplog.text


@pytest.mark.parametrize("error", [StorageFault("the disk is full"), Interrupted("Ctrl-C")])
def test_database_that_fails_and_a_user_who_wants_an_end_go_through(error):
    with pytest.raises(type(error)):
        Fanout(Hears(error), Hears()).started(None)
