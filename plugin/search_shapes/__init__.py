"""An SGLang plugin: one running server switches (topk, num_steps, num_draft_tokens) while it is idle.

SGLang finds it through the entry point `sglang.srt.plugins` when the folder above this package stands on
`PYTHONPATH`. Without a launch token in the environment, and on a release or a tree that lacks one of the
internals in `internals.json`, it does nothing. Python 3.10, standard library; SGLang and torch are imported
inside functions, after SGLang itself has done so.
"""

from __future__ import annotations

import logging
import os

from search_shapes import hooks, internals, wire

log = logging.getLogger("search_shapes")


def register() -> None:
    """Called by SGLang in every process of a server; registers two hooks, or says why not."""
    token = os.environ.get(wire.TOKEN_VARIABLE, "")
    if not token:
        return
    if not wire.is_token(token):
        log.error("SEARCH_SHAPES inactive: `%s` holds 32 hex digits, but got another text.", wire.TOKEN_VARIABLE)
        return
    release = internals.installed_release()
    profile = internals.profile(release)
    if profile is None:
        log.error(
            "SEARCH_SHAPES inactive: SGLang %s has no row in the table of internals; known: %s.",
            release,
            ", ".join(internals.releases()),
        )
        return
    if absent := internals.missing(release, loaded_only=True):
        log.error("SEARCH_SHAPES inactive: this SGLang %s lacks %s.", release, "; ".join(absent))
        return
    hooks.install(token=token, release=release, profile=profile)
    log.info("SEARCH_SHAPES active on SGLang %s.", release)
