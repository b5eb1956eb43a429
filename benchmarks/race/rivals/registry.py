"""The one list of who can race, and with which options: `finite-gp:feasibility=no` is an entry of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from optuna.samplers import BaseSampler, RandomSampler

from benchmarks.race.contest import Entrant
from benchmarks.race.rivals import botorch_side, frontier
from benchmarks.race.rivals.finite_gp import FiniteGp
from benchmarks.race.rivals.listed import Cookbook, CoordinateDescent, FixedList, Oracle
from benchmarks.race.rivals.optuna_side import stock_entrant
from benchmarks.race.rivals.told import ToldEntrant
from benchmarks.race.rivals.tuning import building_list
from benchmarks.race.tables import Table
from search.errors import SearchError, UsageError
from search.spec.samplers import STOCK

Option = bool | int | float | str
Options = Mapping[str, Option]
Maker = Callable[[Table, int, Options], Entrant]


class Missing(SearchError):
    """An entrant that cannot race on this machine; the text says what it needs."""


@dataclass(frozen=True, slots=True)
class Rival:
    """How an entrant is made.

    Attributes:
        make: From a table, a seed and options.
        text: One line for people.
        knows_known: Begins with the known configs; else with the baseline alone.
        seeded: Whether the seed matters; one seed is enough where it does not.
        open_options: Takes any option, which its maker checks; else `options` are all.
        missing: Why it cannot race here; empty when it can.
    """

    make: Maker
    text: str
    knows_known: bool = True
    seeded: bool = True
    options: frozenset[str] = frozenset()
    open_options: bool = False
    missing: Callable[[], str] = lambda: ""


def _stock(stock: Callable[[int], BaseSampler]) -> Maker:
    def make(table: Table, seed: int, options: Options) -> Entrant:
        return (ToldEntrant if options.get("told") else stock_entrant)(table, stock, seed=seed)

    return make


def _gp(seed: int) -> BaseSampler:
    from optuna.samplers import GPSampler

    return GPSampler(seed=seed, deterministic_objective=False)


def _finite_gp(table: Table, seed: int, options: Options) -> Entrant:
    return FiniteGp(table, seed=seed, **{name: bool(value) for name, value in options.items()})


def _named(name: str) -> Callable[[int], BaseSampler]:
    stock = STOCK[name]
    assert stock is not None
    return stock


TOLD = frozenset({"told"})
"""`told=yes`: invalid proposals are reported as infeasible, and not resampled as the product does."""

RIVALS: Mapping[str, Rival] = {
    "oracle": Rival(lambda table, seed, options: Oracle(table), "greedy, knows the truth: the floor", seeded=False),  # noqa: ARG005
    "frontier": Rival(
        lambda table, seed, options: frontier.FrontierEntrant(table, seed=seed, options=options),
        "the product's own sampler; options turn off parts of it: `gating=no`",
        open_options=True,
    ),
    "finite-gp": Rival(
        _finite_gp,
        "finite list, a Gaussian process per objective, exact expected improvement, no physics",
        options=frozenset({"feasibility", "gating"}),
    ),
    "botorch": Rival(
        lambda table, seed, options: botorch_side.BotorchEntrant(table, seed=seed),  # noqa: ARG005
        "finite list, BoTorch's qLogNEHVI",
        missing=botorch_side.missing,
    ),
    "tpe": Rival(_stock(_named("tpe")), "Optuna TPE, multivariate and grouped", options=TOLD),
    "gp": Rival(
        _stock(_gp),
        "Optuna GPSampler",
        options=TOLD,
        missing=lambda: "" if find_spec("torch") else 'needs torch: `pip install ".[rivals]"`',
    ),
    "nsga2": Rival(_stock(_named("nsga2")), "Optuna NSGA-II", options=TOLD),
    "random": Rival(lambda table, seed, options: FixedList(table, (), seed=seed), "uniform over the finite list"),  # noqa: ARG005
    "raw-random": Rival(
        _stock(RandomSampler),
        "Optuna's RandomSampler over the raw knobs, as `--sampler random`",
        options=TOLD,
    ),
    "fixed-list": Rival(
        lambda table, seed, options: FixedList(table, building_list(), seed=seed),  # noqa: ARG005
        "a list tuned on the building half",
    ),
    "descent": Rival(
        lambda table, seed, options: CoordinateDescent(table, seed=seed),  # noqa: ARG005
        "one knob at a time, from the known configs",
    ),
    "cookbook": Rival(
        lambda table, seed, options: Cookbook(table),  # noqa: ARG005
        "SGLang's defaults and no search",
        knows_known=False,
        seeded=False,
    ),
}


def parse_entry(entry: str) -> tuple[Rival, dict[str, Option]]:
    """Read `name` or `name:option=value,option=value`; yes, no, numbers and words are understood.

    Raises:
        UsageError: There is no such rival, or it has no such option.
    """
    name, _, text = entry.partition(":")
    if name not in RIVALS:
        raise UsageError(f"`--samplers` takes {', '.join(RIVALS)}, but got {name!r}.")
    rival = RIVALS[name]
    options: dict[str, Option] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise UsageError(f"An option of an entry is written `name=value`, but got {part!r} in {entry!r}.")
        if not rival.open_options and key not in rival.options:
            known = ", ".join(sorted(rival.options)) or "no options"
            raise UsageError(f"`{name}` takes {known}, but got {key!r}.")
        options[key] = _value(value)
    return rival, options


def make_entrant(entry: str, table: Table, *, seed: int) -> Entrant:
    """A fresh entrant.

    Raises:
        UsageError: See `parse_entry`.
        Missing: It cannot race on this machine.
    """
    rival, options = parse_entry(entry)
    if reason := rival.missing():
        raise Missing(f"`{entry}` cannot race: {reason}.")
    return rival.make(table, seed, options)


def _value(text: str) -> Option:
    if text in ("yes", "true", "no", "false"):
        return text in ("yes", "true")
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text
