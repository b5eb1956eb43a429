"""A study whose starts measure several configs, on the fake server: rows, files, recording, replay, nothing left."""

import csv
import json
from functools import partial
from pathlib import Path

import pytest
from fake_servers import servers_of
from typer.testing import CliRunner

from search.app.sharing import sharing_of
from search.cli.app import app
from search.cluster import InlineExecutor
from search.contracts import RealClock
from search.dialects import for_release
from search.engines import SglangEngine
from search.load.prompts import load_prompts
from search.outcomes import Outcome
from search.server.shapes import token_forms
from search.spec.file import parse_study
from search.spec.fingerprint import fingerprint
from search.storage.optuna_side import optuna_storage
from search.storage.store import Store
from search.study.context import StudyContext, Watch
from search.study.runner import run_study
from search.testing import install_fake_sglang

pytestmark = pytest.mark.slow

TOKEN = "0123456789abcdef" * 2
STUDY = """
study: lab
model: {target: models/target, draft: models/draft, algorithm: STANDALONE, architecture: LlamaForCausalLM}
hardware: {gpus: 1, kind: NVIDIA H200, sm: 90, memory_gib: 139, links: nvlink}
engine:
  release: 0.5.16
  env: {PYTHONPATH: "@fake@", FAKE_SGLANG: "@bad@", FAKE_SGLANG_SPEED: "5"}
  server_args: {attention-backend: triton, mem-fraction-static: 0.6}
  max_running_requests: 64
  boot_ceiling_minutes: 2
space: {spec_version: [v2], topk: [1, 2], num_steps: [1, 2], num_draft_tokens: [tree]}
objectives: {latency: 1, throughput: 8}
known: ["off", v2-k2-s2-d7]
measure: {output_tokens: 32, requests_at_latency: 4, requests_per_worker: 3, repeats: 2}
budget: {launches: 12, confirm: 0, ladder: 0, closing: false}
sampler: grid
"""


class Unheard:
    """Listens to nothing."""

    def started(self, start):
        """See `Listener`."""

    launching = started

    def launched(self, launch, judgements):
        """See `Listener`."""

    ended = launched


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr("search.engines._sglang.reap_orphans", lambda: ((), ()))
    monkeypatch.setattr("search.engines._shape_start.new_token", lambda: TOKEN)

    def run(bad=""):
        fake = install_fake_sglang(tmp_path / "fake", release="0.5.16")
        spec = parse_study(STUDY.replace("@fake@", str(fake)).replace("@bad@", bad), name="lab.yaml")
        dialect, prompts = for_release("0.5.16"), load_prompts()
        space = spec.space_of(dialect)
        factory = partial(SglangEngine, spec.deployment, dialect, prompts=prompts.search, held_out=prompts.held_out)
        storage = tmp_path / "trials.db"
        with InlineExecutor(factory()) as executor, Store(storage) as store:
            run_study(
                StudyContext(
                    spec=spec,
                    name="lab",
                    kind="measured",
                    space=space,
                    fingerprint=fingerprint(spec, kind="measured"),
                    clock=RealClock(),
                    reports=tmp_path / "reports" / "lab",
                    sharing=sharing_of(spec, space, dialect),
                ),
                executor=executor,
                store=store,
                storage=optuna_storage(storage),
                watch=Watch(Unheard()),
            )
            return store.launches("lab")

    yield run
    assert servers_of(tmp_path) == []


def measured(launches):
    return [launch for launch in launches if launch.outcome is Outcome.MEASURED]


def test_configs_that_share_a_start_are_measured_in_it_and_their_recording_replays(run, tmp_path, monkeypatch):
    launches = run()
    off, *shared = launches
    assert (off.config.config_id, off.start, off.place) == ("off", None, 0)
    assert [(launch.start, launch.place) for launch in shared] == [(2, 0), (2, 1), (2, 2), (2, 3), (2, 4)]
    # The first config once more at the end shows what the places did.
    assert (shared[4].config, shared[4].trial) == (shared[0].config, None)
    assert measured(launches) == list(launches)
    assert [launch.boot_s is None for launch in shared] == [False, True, True, True, True]
    assert all(launch.switch_s > 0 for launch in shared[1:])
    for launch in shared:
        folder = tmp_path / "reports" / "lab" / launch.folder
        names = {"command.sh", "requests.jsonl", "server_info.json", *(["server.log"] if not launch.place else [])}
        assert {path.name for path in folder.iterdir()} == names
        assert all(1 < phase.accept_length <= launch.config.num_steps + 1 for phase in launch.phases)
    for path in (*(tmp_path / "reports").rglob("*"), tmp_path / "trials.db"):
        text = path.read_bytes() if path.is_file() else b""
        assert [form for form in token_forms(TOKEN) if form.encode() in text] == [], path

    monkeypatch.chdir(tmp_path)
    record = CliRunner().invoke(app, ["record", "--study", "lab", "--to", "recordings/lab"])
    assert record.exit_code == 0, record.output
    with Path("recordings/lab/measurements.csv").open() as table:
        rows = {row["config_id"]: row for row in csv.DictReader(table)}
    assert {name: (row["start"], row["place"]) for name, row in rows.items()} == {
        launch.config.config_id: ("", "") if launch.start is None else (str(launch.start), str(launch.place))
        for launch in launches
    }
    replay = CliRunner().invoke(app, ["run", "--replay", "recordings/lab", "-q"])
    assert replay.exit_code == 0, replay.output
    assert json.loads(Path("reports/lab.replay/front.json").read_text())["front"]


@pytest.mark.parametrize("bad", ["shapes-die", "shapes-fail-build", "shapes-not-there", "shapes-lie"])
def test_study_whose_server_cannot_switch_measures_every_config_all_the_same(run, bad):
    launches = run(bad)
    assert len({launch.config.config_id for launch in measured(launches)}) == 5
