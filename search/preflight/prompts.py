"""The prompts of a study as its servers get them, with what its fingerprint says of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from search.errors import UsageError
from search.host.environment import model_folder
from search.load.chat_template import ChatTemplate, read_chat_template
from search.load.prompts import PromptSet, load_prompts
from search.load.target import Prompt
from search.load.workload import Workload
from search.spec.fingerprint import WORKLOADS
from search.spec.study import StudySpec
from search.spec.workloads import CHAT, PromptsSpec


@dataclass(frozen=True, slots=True)
class StudyPrompts:
    """All that a study sends.

    Attributes:
        own: What it searches with.
        workloads: Its further workloads, by name.
        facts: Hashes of prompts and chat templates, by their names in the fingerprint.
    """

    own: PromptSet
    workloads: Mapping[str, Workload]
    facts: Mapping[str, str]

    @property
    def all(self) -> tuple[Prompt, ...]:
        """Of all workloads."""
        further = (prompt for one in self.workloads.values() for prompt in (*one.search, *one.held_out))
        return (*self.own.search, *self.own.held_out, *further)


def study_prompts(spec: StudySpec, env: Mapping[str, str]) -> StudyPrompts:
    """Read, render and split the prompts of a study.

    Args:
        spec: The study.
        env: Of its servers; says where the hub's cache is, in which the target's tokenizer may lie.

    Raises:
        UsageError: A file, its prompts or a template cannot be used.
    """
    facts: dict[str, str] = {}
    workloads = {}
    own = _prompts(spec, "", "measure.prompts", env, facts)
    for name in spec.workloads:
        found = _prompts(spec, name, f"{WORKLOADS}{name}.prompts", env, facts)
        sampling = spec.measure_of(name).sampling.load_sampling
        workloads[name] = Workload(found.search, found.held_out, sampling)
    return StudyPrompts(own, workloads, facts)


def _prompts(spec: StudySpec, workload: str, place: str, env: Mapping[str, str], facts: dict[str, str]) -> PromptSet:
    measure = spec.measure_of(workload)
    prompts = measure.prompts
    chat = _chat_template(prompts, spec.model.target, env) if prompts.template == CHAT else None
    found = load_prompts(
        Path(prompts.file) if prompts.file else None,
        template=None if chat else prompts.template,
        kinds=prompts.kinds or None,
        chat=chat,
        thinking=measure.sampling.thinking,
    )
    facts[f"{place}.sha256"] = found.sha256
    if chat is not None:
        facts[f"{place}.chat_template"] = chat.sha256
    return found


def _chat_template(prompts: PromptsSpec, target: str, env: Mapping[str, str]) -> ChatTemplate:
    folder = Path(prompts.tokenizer).expanduser() if prompts.tokenizer else model_folder(target, env)
    if folder is None or not folder.is_dir():
        where = f"{folder} is no folder" if folder else f"{target} is neither a folder nor in the hub's cache here"
        raise UsageError(
            f"`template: chat` needs the target's tokenizer on the machine that this runs on, but {where}. Name a folder "
            "with its tokenizer_config.json as `tokenizer:`, or write the text around `{prompt}` as `template:`."
        )
    return read_chat_template(folder)
