"""All commands in one typer app. Their modules import nothing heavy before they are called."""

from __future__ import annotations

from typing import NoReturn

import typer

from search.cli.ab import ab
from search.cli.clean import clean
from search.cli.compare import compare
from search.cli.dashboard import dashboard
from search.cli.dialect import dialect
from search.cli.doctor import doctor
from search.cli.import_ import import_
from search.cli.init import init
from search.cli.links import links
from search.cli.options import VersionOption
from search.cli.plan import plan
from search.cli.record import record
from search.cli.report import report
from search.cli.run import run
from search.cli.try_ import RawCommand, try_
from search.cli.whatif import whatif
from search.study.signals import Interrupts, interruptible

app = typer.Typer(
    name="search",
    help="Does speculation pay here, and with which settings?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def main_options(version: VersionOption = False) -> None:
    """Does speculation pay here, and with which settings?"""


app.command("run", short_help="Search a study and write its report; the same again resumes.")(run)
app.command("plan", short_help="Show what a study would launch within its hours.")(plan)
app.command("whatif", short_help="Say of one config: legal, what to expect, worth a launch?")(whatif)
app.command("try", cls=RawCommand, short_help="Launch and measure one config now, outside the search.")(try_)
app.command("ab", short_help="Measure two shapes in turn inside one server.")(ab)
app.command("doctor", short_help="Check the machine before the first GPU minute.")(doctor)
app.command("links", short_help="Time the all-reduce between the GPUs of one server.")(links)
app.command("init", short_help="Write a study file for a model and its draft.")(init)
app.command("report", short_help="Write the report of a study again, from the database.")(report)
app.command("dashboard", short_help="Show studies in a browser, while they run too.")(dashboard)
app.command("record", short_help="Export a study as a recording that `run --replay` takes.")(record)
app.command("compare", short_help="Say what changed from one study or recording to the next.")(compare)
app.command("import", short_help="Make a recording of somebody's table.")(import_)
app.command("clean", short_help="Stop servers of ours that a crash left on this host.")(clean)
app.command("dialect", short_help="Record what an installed SGLang release takes.")(dialect)

run_app = typer.Typer(name="run", pretty_exceptions_enable=False, add_completion=False, rich_markup_mode=None)
run_app.command()(run)


def command(interrupts: Interrupts) -> None:
    """`python -m search`, in the thread that `interruptible` gives it."""
    app(prog_name="python -m search", obj=interrupts)


def run_command(interrupts: Interrupts) -> None:
    """`python -m search.run`, likewise."""
    run_app(prog_name="python -m search.run", obj=interrupts)


def main() -> NoReturn:
    """`python -m search`, from a program that has imported this module already."""
    interruptible(command)


def run_main() -> NoReturn:
    """`python -m search.run`, likewise."""
    interruptible(run_command)
