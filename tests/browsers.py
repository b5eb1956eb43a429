"""A headless Chromium that reaches this host alone, for tests of what is seen."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from pathlib import Path

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
WITHOUT = "no chromium is installed"


def seen(url: str, profile: Path, *, width: int = 1600, dark: bool = False) -> tuple[str, list[str]]:
    """The document at an address once its scripts have run, and what its console said.

    Args:
        url: Of this host; no other name resolves.
        profile: Chromium's own folder.
        width: Of the window, in pixels.
        dark: Whether dark colours are preferred.
    """
    assert CHROMIUM is not None, WITHOUT
    command = [
        CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", f"--user-data-dir={profile}",
        f"--window-size={width},1200", "--virtual-time-budget=15000",
        *(["--blink-settings=preferredColorScheme=0"] if dark else []), "--dump-dom", url,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def words_of(document: str) -> str:
    """What a person reads of a document, a bar where an element begins or ends."""
    body = re.sub(r"<(script|style)\b.*?</\1>", "", document, flags=re.DOTALL)
    return re.sub(r"(\s*\|\s*)+", "|", html.unescape(re.sub(r"<[^>]+>", "|", body)))
