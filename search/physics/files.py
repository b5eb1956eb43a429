"""Parameter files: JSON, one entry per parameter, with unit, kind and reason beside each value."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import Any

from search.config import SpecConfig
from search.errors import InvalidConfig, UsageError
from search.physics.model import LIMITS, UNITS, CostModel, FitPoint, FittedFor, Kind, Origin, Physics

PACKAGED: Mapping[str, str] = {"kimi-k25-story": "kimi_k25_story.json", "generic": "generic.json"}
"""Name -> file beside this module, for the parameter sets that ship with the package."""


def load_physics(name_or_path: str | Path) -> Physics:
    """Read a packaged parameter set by its name, or a file by its path.

    Raises:
        UsageError: No such set or file, or the file does not say what it must.
    """
    packaged = PACKAGED.get(str(name_or_path))
    if packaged is not None:
        source = resources.files("search.physics") / "data" / packaged
        return parse_physics(source.read_text(encoding="utf-8"), origin=str(name_or_path))
    path = Path(name_or_path)
    if not path.is_file():
        known = ", ".join(sorted(PACKAGED))
        raise UsageError(
            f"A parameter set is one of {known}, or the path of a JSON file, but got {str(name_or_path)!r}. Correct the name or the path."
        )
    return parse_physics(path.read_text(encoding="utf-8"), origin=str(path))


def parse_physics(text: str, *, origin: str) -> Physics:
    """Read the text of a parameter file; `origin` names it in errors.

    Raises:
        UsageError: Not JSON, a part missing, or a value of the wrong type.
    """
    try:
        body = json.loads(text)
        entries: dict[str, dict[str, Any]] = body["parameters"]
        unknown = sorted(set(entries) ^ set(UNITS))
        if unknown:
            raise UsageError(
                f"{origin}: `parameters` has these missing or unknown: {', '.join(unknown)}. Add what is missing, and remove the rest."
            )
        values: dict[str, Any] = {name: _number(name, entry["value"]) for name, entry in entries.items()}
        members = (
            {name: _number(name, value) for name, value in changed.items()} for changed in body.get("members", ())
        )
        return Physics(
            name=str(body["name"]),
            about=str(body["about"]),
            model=CostModel(**values),
            origins={name: _origin(entry) for name, entry in entries.items()},
            points=tuple(
                FitPoint(
                    SpecConfig.from_id(str(point["config_id"])),
                    int(point["concurrency"]),
                    float(point["output_tps"]),
                    float(point["model_tps"]),
                )
                for point in body.get("fitted_to", ())
            ),
            caveats=tuple(str(line) for line in body.get("caveats", ())),
            members=tuple(CostModel(**(values | member)) for member in members),
            fitted_for=_fitted_for(body.get("fitted_for")),
        )
    except json.JSONDecodeError as error:
        raise UsageError(f"{origin}:{error.lineno}: a parameter file is JSON, but {error.msg.lower()}.") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(
            f"{origin}: a parameter file has `name`, `about` and `parameters` with `value`, `kind` and `why` each, "
            f"but reading it gave {type(error).__name__}: {error}."
        ) from error
    except InvalidConfig as error:
        raise UsageError(f"{origin}: {error}") from error


def dump_physics(physics: Physics) -> str:
    """The text of a parameter file; `parse_physics` reads the same value back."""
    return (
        json.dumps(
            {
                "name": physics.name,
                "about": physics.about,
                **({"fitted_for": asdict(physics.fitted_for)} if physics.fitted_for else {}),
                "caveats": list(physics.caveats),
                "parameters": {
                    name: {
                        "value": getattr(physics.model, name),
                        "unit": unit,
                        "kind": physics.origins[name].kind.value,
                        "sd": physics.origins[name].sd,
                        "prior": physics.origins[name].prior,
                        "why": physics.origins[name].why,
                    }
                    for name, unit in UNITS.items()
                },
                "fitted_to": [
                    {
                        "config_id": point.config.config_id,
                        "concurrency": point.concurrency,
                        "output_tps": point.output_tps,
                        "model_tps": point.model_tps,
                    }
                    for point in physics.points
                ],
                "members": [_changed(physics.model, member) for member in physics.members],
            },
            indent=1,
        )
        + "\n"
    )


def _changed(model: CostModel, member: CostModel) -> dict[str, float | int | None]:
    """The parameters in which a member differs from the model."""
    return {name: value for name in UNITS if (value := getattr(member, name)) != getattr(model, name)}


def _number(name: str, value: object) -> float | int | None:
    if name in LIMITS and value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"`{name}` must be a number, not {value!r}")
    return value if name in LIMITS else float(value)


def _fitted_for(entry: Mapping[str, Any] | None) -> FittedFor | None:
    return None if entry is None else FittedFor(model=str(entry["model"]), gpus=str(entry["gpus"]))


def _origin(entry: Mapping[str, Any]) -> Origin:
    prior = entry.get("prior")
    sd = entry.get("sd")
    return Origin(
        kind=Kind(entry["kind"]),
        why=str(entry["why"]),
        sd=None if sd is None else float(sd),
        prior=None if prior is None else (float(prior[0]), float(prior[1])),
    )
