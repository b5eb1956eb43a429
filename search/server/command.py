"""The command line and environment of one launch, and the script that repeats it."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from search.config import SpecConfig
from search.deployment import Deployment
from search.dialects import Dialect, LaunchArgs
from search.masking import is_harmless, script_words
from search.server.ports import LOOPBACK, PortBlock

LAUNCH_TAG = "SPEC_SEARCH_LAUNCH"
"""Variable that every process of a launch inherits; only such processes are ever cleaned up."""

GUARDIAN_TAG = "SPEC_SEARCH_GUARDIAN"
"""Variable that a guardian alone has: the tag of the launch it answers for, and the pid of its supervisor."""

_KEEP_ENVIRON = "SPT_NOENV"
"""SGLang renames its processes with `setproctitle`, which by default writes the name over the
environment that `/proc/PID/environ` shows, and the tag would be gone."""

_ADDRESS = "the server listens on a fresh port of loopback, and every launch gets ports of its own"
_ONE_NODE = "a server stays within the GPUs of one slot on one host"
_PLAIN_HTTP = "our client speaks plain HTTP with a server on loopback"
_OTHER_ROUTES = "the client measures `/generate` of SGLang's own HTTP server"

OWNED_ARGUMENTS: Mapping[str, str] = {
    **dict.fromkeys(("host", "port", "nccl-port", "grpc-port"), _ADDRESS),
    **dict.fromkeys(("dist-init-addr", "nnodes", "node-rank"), _ONE_NODE),
    **dict.fromkeys(("base-gpu-id", "gpu-id-step"), "a slot's GPUs are given by UUID in CUDA_VISIBLE_DEVICES"),
    "use-ray": "the GPUs of a slot are held by our own actor, and the guardian has to find every process of a server",
    "device": "a slot is made of CUDA devices",
    **dict.fromkeys(
        ("api-key", "admin-api-key"), "a server on loopback needs none, and every request without it would be refused"
    ),
    **dict.fromkeys(
        ("ssl-keyfile", "ssl-certfile", "ssl-ca-certs", "ssl-keyfile-password", "enable-ssl-refresh", "enable-http2"),
        _PLAIN_HTTP,
    ),
    **dict.fromkeys(("grpc-mode", "smg-grpc-mode", "fastapi-root-path"), _OTHER_ROUTES),
    "skip-tokenizer-init": "prompts are sent as text",
    **dict.fromkeys(
        ("is-embedding", "encoder-only", "language-only", "disaggregation-mode"),
        "a server under measurement takes a prompt and generates its tokens by itself",
    ),
    "config": "a file of further arguments would hide them from the study, and from what makes launches comparable",
    "log-level": "readiness, causes of failures and batch sizes are read from the log as it is by default",
    "delete-ckpt-after-loading": "the next launch needs the weights that this one would delete",
    "checkpoint-engine-wait-weights-before-ready": "nobody would send the weights, and the server would wait for ever",
}
"""Server arguments that a study file may not set, without their dashes, and why each is ours: "`port`: <reason>"."""

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """What starts one server.

    Attributes:
        argv: Arguments, one word each.
        env: Variables set beyond what is inherited; None unsets an inherited one.
        files: Files the arguments name, by path, with their text; to be there before the start.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str | None] = field(default_factory=dict)
    files: Mapping[Path, str] = field(default_factory=dict)

    def write_files(self) -> None:
        """Put the files where the arguments name them."""
        for path, text in self.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The full environment of the server."""
        merged = {**inherited, **self.env}
        return {name: value for name, value in merged.items() if value is not None}

    def script(self) -> str:
        """A runnable shell script: only variables set on purpose; it writes its files first.

        Secrets are not in it: it reads them from variables when it runs, and says which are missing. The
        launch tag is left out, or cleaning up after a crash would stop a server that a person started with
        this script.
        """
        unset = [f"-u {name}" for name, value in self.env.items() if value is None]
        own = self._own_env()
        given = [f"{name}={shlex.quote(value)}" for name, value in own.items() if is_harmless(name, value)]
        inherited = [name for name, value in own.items() if not is_harmless(name, value)]
        words, read = script_words(self.argv)
        asked = "".join(
            f': "${{{name}:?is not saved here: set it first}}"\nexport {name}\n'
            for name in dict.fromkeys((*inherited, *read))
        )
        lines = ["exec env", *unset, *given, *_by_flag(list(words))]
        files = "".join(
            f"printf %s {shlex.quote(text)} > {shlex.quote(str(path))}\n" for path, text in self.files.items()
        )
        return "#!/bin/sh\n" + asked + files + " \\\n  ".join(lines) + "\n"

    def words(self) -> tuple[str, ...]:
        """The words of one line for a shell, quoted: it writes its files, then starts the server.

        As in `script`, a secret is read from the variable of its name.
        """
        own = self._own_env()
        files = [
            word
            for path, text in self.files.items()
            for word in ("printf", "%s", shlex.quote(text.rstrip("\n")), ">", shlex.quote(str(path)), "&&")
        ]
        unset = [word for name, value in self.env.items() if value is None for word in ("-u", name)]
        given = [
            f"{name}={shlex.quote(value)}" if is_harmless(name, value) else f'{name}="${name}"'
            for name, value in own.items()
        ]
        return (*files, "env", *unset, *given, *script_words(self.argv)[0])

    def _own_env(self) -> dict[str, str]:
        """Variables set on purpose, without what marks a launch of ours."""
        return {
            name: value
            for name, value in self.env.items()
            if value is not None and name not in (LAUNCH_TAG, _KEEP_ENVIRON)
        }


def server_command(
    config: SpecConfig,
    deployment: Deployment,
    dialect: Dialect,
    *,
    ports: PortBlock,
    tag: str,
    gpu_uuids: tuple[str, ...] = (),
    raw: tuple[str, ...] | None = None,
    folder: Path = Path(),
) -> ServerCommand:
    """Spell a launch: prefix, interpreter, what the study shares, the config's words, the address.

    Args:
        config: The config to run.
        deployment: What every launch of the study shares.
        dialect: The release's spellings.
        ports: The server's own ports.
        tag: Name of the launch, unique on the host.
        gpu_uuids: GPUs the server may see; empty leaves visibility as inherited.
        raw: Words to send in place of the config's, exactly: `NAME=VALUE` words for the
            environment first, then arguments.
        folder: Where files that a config needs are to lie; they are listed in `ServerCommand.files`.

    Raises:
        UnsupportedKnob: The release has no spelling for a knob.
    """
    shared = dialect.server_args(deployment)
    spec = dialect.launch_args(config, deployment) if raw is None else _raw_args(raw)
    env: dict[str, str | None] = {"HF_HUB_OFFLINE": "1"}
    env |= deployment.env
    env |= shared.env
    env |= spec.env
    if gpu_uuids:
        env["CUDA_VISIBLE_DEVICES"] = ",".join(gpu_uuids)
    env |= {LAUNCH_TAG: tag, _KEEP_ENVIRON: "1"}
    argv = (
        *deployment.prefix,
        deployment.python or sys.executable,
        "-m",
        "sglang.launch_server",
        *shared.flags,
        *spec.flags,
        *(word for flag, (name, _) in spec.files.items() for word in (flag, str(folder / name))),
        *("--host", LOOPBACK, "--port", str(ports.http), "--nccl-port", str(ports.nccl)),
    )
    files = {folder / name: text for name, text in spec.files.values()}
    return ServerCommand(argv, env, files)


def _raw_args(words: tuple[str, ...]) -> LaunchArgs:
    env: dict[str, str | None] = {}
    for place, word in enumerate(words):
        if not _ASSIGNMENT.match(word):
            return LaunchArgs(flags=words[place:], env=env)
        name, _, value = word.partition("=")
        env[name] = value
    return LaunchArgs(env=env)


def _by_flag(words: list[str]) -> list[str]:
    """Group words so that each line of the script begins with the program or a flag."""
    lines: list[str] = []
    for word in words:
        if word.startswith("--") or not lines:
            lines.append(word)
        else:
            lines[-1] += f" {word}"
    return lines
