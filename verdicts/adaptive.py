"""Where each release's adaptive steps start, by its own class: `python adaptive.py --trees FOLDER`.

FOLDER holds one unpacked wheel per release, as `<release>/sglang/`. Arguments do not show the start, so
`srt/speculative/adaptive_spec_params.py` is run by itself, with empty stand-ins for what it imports. Writes `adaptive.json`:
for each release its own candidates, and where one file serves all batch sizes, `candidates@asked start` to the start and the
candidates after it.
"""

from __future__ import annotations

import argparse
import importlib.machinery
import json
import sys
import types
from itertools import product
from pathlib import Path
from typing import Any, Final

import spelling

OUT: Final = Path(__file__).with_name("adaptive.json")
FILE: Final = Path("sglang/srt/speculative/adaptive_spec_params.py")
CANDIDATES: Final = ((1, 3, 7), (1, 2), (2, 4, 8))
STARTS: Final = (1, 2, 3, 4, 5, 6, 8)


def main() -> None:
    """Run the class of every release that has one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", type=Path, required=True)
    asked = parser.parse_args()
    found = {
        release: starts_of(path) for release in spelling.RELEASES if (path := asked.trees / release / FILE).exists()
    }
    OUT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def starts_of(path: Path) -> dict[str, Any]:
    """The built-in candidates of one release, and the starts within given ones where its file is flat."""
    module = types.ModuleType(f"adaptive_{path.parts[-5].replace('.', '_')}")
    sys.meta_path.insert(0, _StandIns())
    try:
        sys.modules[module.__name__] = module
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), module.__dict__)  # noqa: S102 - a wheel's own file
    finally:
        sys.meta_path.pop(0)
        for name in [name for name in sys.modules if name.partition(".")[0] == "sglang"]:
            del sys.modules[name]
    table = getattr(module, "DEFAULT_ADAPTIVE_CONFIG", None)
    if table is not None:
        return {"table": sorted({step for slot in table.values() for step in slot["candidate_steps"]})}
    starts = {}
    for steps, start in product(CANDIDATES, STARTS):
        made = module.AdaptiveSpeculativeParams(start, {"candidate_steps": list(steps)})
        starts[f"{'-'.join(map(str, steps))}@{start}"] = [made.current_steps, list(made.candidate_steps)]
    return {"table": module.AdaptiveSpeculativeParams(1, {}).candidate_steps, "starts": starts}


class _StandIns:
    """Empty modules for whatever of SGLang is imported; every name in them does nothing."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:  # noqa: ARG002 - the protocol's signature
        """A spec for modules of SGLang only."""
        return (
            importlib.machinery.ModuleSpec(name, self, is_package=True) if name.partition(".")[0] == "sglang" else None
        )

    def create_module(self, spec: Any) -> types.ModuleType:
        """A module that has any name."""
        made = types.ModuleType(spec.name)
        made.__getattr__ = lambda _name: lambda *_, **__: None  # type: ignore[method-assign]
        return made

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run."""


if __name__ == "__main__":
    main()
