"""What a command says that was not given its study: which there are."""

from __future__ import annotations

from pathlib import Path

from search.errors import UsageError


def study_missing(verb: str) -> UsageError:
    """For a command that reads study files.

    Args:
        verb: What the command does with one, such as `plan`.
    """
    from search.app.studies import study_files

    listed = "\n".join(study_files(Path.cwd()))
    return UsageError(
        f"`--study` names the study to {verb}, but it is missing. Give it, such as `--study kimi-k25`. Known studies:\n{listed}"
    )


def stored_study_missing(verb: str, storage: str) -> UsageError:
    """For a command that reads studies of a storage.

    Args:
        verb: What the command does with one, such as `report`.
        storage: Where they are.
    """
    from search.app.studies import stored_studies

    listed = "\n".join(stored_studies(storage)) or "  none"
    return UsageError(
        f"`--study` names the study to {verb}, but it is missing. Give it, such as `--study kimi-k25`. Studies in "
        f"{storage_words(storage)}:\n{listed}"
    )


def storage_words(storage: str) -> str:
    """A storage without its password."""
    from search.storage.urls import shown, storage_url

    return shown(storage_url(storage))
