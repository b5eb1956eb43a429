"""What a measured study's fingerprint takes from the machine."""

from __future__ import annotations

import os

from search.server.environment import probe_environment
from search.study.fingerprint import PROBED
from search.study.spec import StudySpec


def measured_facts(spec: StudySpec, *, prompts_sha256: str, release: str | None, on_cluster: bool) -> dict[str, str]:
    """Facts that the study file cannot tell, by the names they have in the fingerprint.

    Args:
        spec: The study.
        prompts_sha256: Of the prompts as they are sent.
        release: Of SGLang in the engine's interpreter.
        on_cluster: The engine runs elsewhere, so this machine has nothing to say about it.

    Raises:
        HostUnfit: The engine's interpreter gave no answer.
    """
    facts = {"measure.prompts.sha256": prompts_sha256, "engine.installed": release or ""}
    if on_cluster:
        return facts
    probed = probe_environment(
        spec.engine.python,
        {**os.environ, **spec.engine.env},
        spec.model.target,
        spec.model.draft,
    )
    return facts | {f"{PROBED}{name}": value for name, value in probed.items()}
