"""`search report`: every file of a report, from the database alone."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from search.app.options import DEFAULT_REPORTS, DEFAULT_STORAGE
from search.cli.guard import command, say
from search.cli.missing import stored_study_missing
from search.cli.options import DebugOption, JsonOption, ReportsOption, StorageOption, StudyOption


@command
def report(
    study: StudyOption = None,
    storage: StorageOption = DEFAULT_STORAGE,
    reports: ReportsOption = DEFAULT_REPORTS,
    traffic: Annotated[
        str | None,
        typer.Option(
            "--traffic", metavar="1:20%,100:80%", help="Share of the day at each concurrency, in place of the study's."
        ),
    ] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,  # noqa: ARG001
) -> None:
    """Rebuild a study's report from the database alone."""
    if study is None:
        raise stored_study_missing("report", storage)
    from search.analysis.analyse import judge
    from search.app.report_content import ContentBuilder
    from search.app.stored import require_database, spec_of, stored_study
    from search.app.traffic import with_traffic
    from search.cli.console import console_for
    from search.cli.ending import end_of, result_json
    from search.report.files import write_report
    from search.storage.store import Store

    require_database(storage)
    with Store(storage, read_only=True) as store:
        record = stored_study(store, study)
        launches = store.launches(record.name)
        spec = spec_of(record)
        if traffic is not None:
            spec = with_traffic(spec, traffic)
        content = ContentBuilder(spec, record, store).content(launches, judge(spec, launches))
    folder = reports / record.name
    write_report(folder, content)
    if as_json:
        say(result_json(content, folder))
    else:
        console = console_for(sys.stdout)
        for part in end_of(content, folder):
            console.print(part)
