"""SGLang's own record of the settings, read and changed in the one way its release has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class Settings:
    """The settings of one process.

    Args:
        kind: `server_args` where they are one mutable object (0.5.16), `context` where the arguments stay as they
            were and a runtime context holds what counts (from 0.5.18).
        holders: Objects that keep a reference to the arguments; a copy is changed too.
    """

    TREE: ClassVar = ("speculative_eagle_topk", "speculative_num_steps", "speculative_num_draft_tokens")
    _SOURCE = "search_shapes"
    _CACHED = "max_speculative_num_draft_tokens"

    def __init__(self, kind: str, holders: tuple[Any, ...]) -> None:
        self._by_context = kind == "context"
        self._holders = holders

    def get(self, name: str) -> Any:
        """A setting's value now; None for one the release does not know."""
        if self._by_context:
            from sglang.srt.runtime_context import get_context

            return get_context().resolved_server_args_dict().get(name)
        from sglang.srt.runtime_context import get_server_args

        return getattr(get_server_args(), name, None)

    def tree(self) -> dict[str, Any]:
        """The three numbers now."""
        return {name: self.get(name) for name in self.TREE}

    def set_tree(self, values: Mapping[str, Any]) -> None:
        """Change some of the three numbers."""
        if self._by_context:
            from sglang.srt.runtime_context import get_context

            get_context().override(self._SOURCE, **values)
            return
        for arguments in self._arguments():
            arguments.override(self._SOURCE, **values)
            if self.TREE[2] in values and self._CACHED in vars(arguments):
                # Cached at the start. Left alone, a 3-token chain in a 16-token start would reserve cache for 16.
                vars(arguments)[self._CACHED] = values[self.TREE[2]]

    def _arguments(self) -> list[Any]:
        from sglang.srt.runtime_context import get_server_args

        found = [get_server_args(), *(getattr(holder, "server_args", None) for holder in self._holders)]
        return list({id(arguments): arguments for arguments in found if arguments is not None}.values())
