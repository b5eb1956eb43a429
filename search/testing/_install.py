"""Makes a folder that, put on `PYTHONPATH`, turns any Python into one with a fake SGLang installed."""

from __future__ import annotations

from pathlib import Path

import search

_LAUNCH_SERVER = """\
import sys

sys.path.insert(0, {root!r})

if __name__ == "__main__":
    from search.testing.fake_server import main

    sys.exit(main(release={release!r}))
"""

_METADATA = """\
Metadata-Version: 2.1
Name: sglang
Version: {release}
Summary: A stand-in that speaks SGLang's command line and HTTP interface.
"""


def install_fake_sglang(folder: Path, *, release: str = "0.5.11") -> Path:
    """Write the package `sglang` and its metadata into `folder`.

    With `PYTHONPATH` set to it, `python -m sglang.launch_server …` runs `search.testing.fake_server`
    with that release's rules, and `importlib.metadata` knows the release. Start the real thing's
    misbehaviours with `FAKE_SGLANG`, see there.

    Returns:
        `folder`, for `Deployment(env={"PYTHONPATH": str(...)})`.
    """
    package = folder / "sglang"
    package.mkdir(parents=True, exist_ok=True)
    root = str(Path(search.__file__).parent.parent)
    (package / "__init__.py").write_text(f'"""Fake."""\n\n__version__ = {release!r}\n')
    (package / "launch_server.py").write_text(_LAUNCH_SERVER.format(root=root, release=release))
    metadata = folder / f"sglang-{release}.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text(_METADATA.format(release=release))
    return folder
