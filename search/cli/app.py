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


app.command("run")(run)
app.command("plan")(plan)
app.command("whatif")(whatif)
app.command("try", cls=RawCommand)(try_)
app.command("ab")(ab)
app.command("doctor")(doctor)
app.command("links")(links)
app.command("init")(init)
app.command("report")(report)
app.command("dashboard")(dashboard)
app.command("record")(record)
app.command("compare")(compare)
app.command("import")(import_)
app.command("clean")(clean)
app.command("dialect")(dialect)

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
