"""The live board where the terminal is narrow: what is left and what is spent is never cut."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from search.app.plan import Estimates
from search.cli.board import Board
from search.config import SpecConfig
from search.study.events import Launching, RunStart


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_board_tells_time_left_and_spend_when_terminal_has_few_columns(width):
    board = Board(lambda: 0.0)
    board.expecting(Estimates(launch_s=lambda _: 5400.0, rate=lambda *_: 100.0, hours=6.5), Path())
    board.started(RunStart("a-study-with-quite-a-long-name.replay", "replay", 10, 0, 0, 0, 40, None))
    board.launching(
        Launching(
            number=1, of=40, stage="baseline", config=SpecConfig.from_id("v2-k1-s4-d5+arf=auto"), why="", slot=None
        )
    )
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(board.draw(width))
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    launches = " launches" if width >= 90 else ""
    assert f"0/40{launches}  6h30m left  0s of 6.5h spent" in lines[0]
    assert "v2-k1-s4-d5" in lines[1]
    assert "starting  0s  1h30m left" in lines[1]
