"""Prompts cut to their last characters, so that decode rather than prefill fills the time: short_prompts.py IN OUT [300]."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path


def main(argv: Sequence[str]) -> int:
    """Cut the first turn of each ShareGPT conversation."""
    source, out = Path(argv[0]), Path(argv[1])
    characters = int(argv[2]) if len(argv) > 2 else 300
    rows = json.loads(source.read_text(encoding="utf8"))
    cut = [
        {"conversations": [{"from": "human", "value": row["conversations"][0]["value"][-characters:]}]} for row in rows
    ]
    out.write_text(json.dumps(cut), encoding="utf8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
