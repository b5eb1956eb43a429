"""Where the words of each rule stand in a release: `python places.py --trees FOLDER`.

FOLDER holds one unpacked wheel per release, as `<release>/sglang/`. A release without rows in
`search/dialects/sources.tsv` takes the rules of its neighbours, as far as the line that holds their words is in its
own source; one whose words are not found is told, and has to be looked at.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import spelling

TABLE: Final = Path(__file__).parent.parent / "search" / "dialects" / "sources.tsv"
EVERYWHERE: Final = (
    ("model-class", "srt/models/registry.py", "are not supported for now."),
    (
        "mla-backend",
        "srt/layers/attention/attention_registry.py",
        "trtllm_mla backend can only be used with MLA models.",
    ),
    ("weight-cache", "srt/server_args.py", 'weight_cache_mode != "off" and self.speculative_algorithm is not None'),
    ("weight-cache", "srt/arg_groups/model_path_hook.py", 'weight_cache_mode != "off" and cfg.speculative_algorithm'),
    ("ngram-depth", "srt/speculative/cpp_ngram/ngram.cpp", "branch_length must be greater than 1"),
    ("ngram-depth", "jit_kernel/csrc/ngram_corpus/ngram.cpp", "max_trie_depth must be greater than 1"),
    ("ngram-depth", "kernels/jit/csrc/ngram_corpus/ngram.cpp", "max_trie_depth must be greater than 1"),
    ("ngram-window", "srt/speculative/cpp_ngram/ngram.cpp", "max_match_window_size must be less than branch_length"),
    (
        "ngram-breadth",
        "srt/speculative/cpp_ngram/ngram.cpp",
        "min_bfs_breadth must be less than or equal to max_bfs_breadth",
    ),
    (
        "ngram-breadth",
        "jit_kernel/csrc/ngram_corpus/ngram.cpp",
        "min_bfs_breadth must be less than or equal to max_bfs_breadth",
    ),
    (
        "ngram-breadth",
        "kernels/jit/csrc/ngram_corpus/ngram.cpp",
        "min_bfs_breadth must be less than or equal to max_bfs_breadth",
    ),
    ("ngram-corpus", "srt/server_args.py", "speculative_ngram_external_sam_budget must be less than or equal to "),
    (
        "ngram-corpus",
        "srt/arg_groups/speculative_hook.py",
        "speculative_ngram_external_sam_budget must be less than or equal to ",
    ),
    ("fused-projections", "srt/server_args.py", "expected_attn_tp_size}-interleaved; got"),
    ("fused-projections", "srt/arg_groups/model_hook.py", "expected_attn_tp_size}-interleaved; got"),
    ("hybrid-page", "srt/server_args.py", "no_buffer only supports page_size=1."),
    ("hybrid-page", "srt/arg_groups/mamba_hook.py", "no_buffer only supports page_size=1."),
)
"""Rules of checkpoints, whose words are searched for in every release: file, and a part of the words."""


def main() -> None:
    """Write the table with the rows that it lacks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", type=Path, required=True)
    asked = parser.parse_args()
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    head = [line for line in lines if line.startswith("#")]
    rows = {tuple(line.split("\t")[:2]): line.split("\t")[2] for line in lines if not line.startswith("#")}
    read = [release for release in spelling.RELEASES if any(told == release for _, told in rows)]
    for release in spelling.RELEASES:
        if release not in read:
            for near in _neighbours(release, read):
                rows |= {(rule, release): place for rule, place in _carried(rows, near, release, asked.trees)}
        for rule, file, words in EVERYWHERE:
            lines = _lines(asked.trees / release / "sglang" / file)
            if number := next((at for at, line in enumerate(lines, 1) if words in line), 0):
                rows[rule, release] = f"{file}:{number}"
    order = {release: place for place, release in enumerate(spelling.RELEASES)}
    told = sorted(rows.items(), key=lambda row: (row[0][0], order[row[0][1]]))
    TABLE.write_text("\n".join([*head, *("\t".join((*key, place)) for key, place in told)]) + "\n", encoding="utf-8")


def _neighbours(release: str, read: Sequence[str]) -> Iterator[str]:
    """The nearest releases with rows, the newer one first."""
    at = spelling.RELEASES.index(release)
    yield from [other for other in read if spelling.RELEASES.index(other) > at][:1]
    yield from [other for other in read if spelling.RELEASES.index(other) < at][-1:]


def _carried(rows: Mapping[tuple[str, ...], str], near: str, release: str, trees: Path) -> Iterator[tuple[str, str]]:
    for (rule, told), place in rows.items():
        if told != near:
            continue
        file, _, number = place.rpartition(":")
        words = _lines(trees / near / "sglang" / file)[int(number) - 1].strip()
        if (rule, release) in rows:
            continue
        if found := _found(words, int(number), trees / release, file):
            yield rule, found
        else:
            sys.stderr.write(f"{release}: {rule} as in {near}: {file} has no line {words!r}\n")


def _found(words: str, near: int, tree: Path, file: str) -> str:
    """The line with the same words nearest to where they stood, in the same file, else in any of the arguments' files."""
    here = [at for at, line in enumerate(_lines(tree / "sglang" / file), 1) if line.strip() == words]
    if here:
        return f"{file}:{min(here, key=lambda at: abs(at - near))}"
    for path in sorted((tree / "sglang/srt/arg_groups").rglob("*.py")):
        for at, line in enumerate(_lines(path), 1):
            if line.strip() == words:
                return f"{path.relative_to(tree / 'sglang')}:{at}"
    return ""


@cache
def _lines(path: Path) -> tuple[str, ...]:
    return tuple(path.read_text(encoding="utf-8-sig").splitlines()) if path.is_file() else ()


if __name__ == "__main__":
    main()
