"""`wina worth`: the table of this machine's timings, and the measurement of what it misses."""

import csv
import json

import pytest

from tests.wina_core.analysis.comparison.test_worth import BENCH, ELSEWHERE, HERE, INT4, points, timed
from wina_core.jobs import DecodeJob
from wina_core.jobs.job_state import JobState
from wina_core.records import SweepReport
from wina_core.specs.latency import BUDGET_SECONDS
from wina_core.store import Store


@pytest.fixture
def here(monkeypatch):
    """This machine is HERE; its engine measures every point at once."""
    monkeypatch.setattr("wina_core.compute.latency.device.timing_environments", lambda: (HERE,))
    jobs = []

    def run_recorded(job: DecodeJob, store: Store, *_: object, **__: object):
        jobs.append(job)
        missing = [point for point in job.spec.points() if point.content_hash() not in job.stored.get(HERE.key, ())]
        for point in missing:
            store.record_decoding(timed(point, 100.0 + 100.0 * point.sparsity / point.batch))
        report = SweepReport(environment=HERE, measured=len(missing), stored=0)
        return JobState(result=report)

    monkeypatch.setattr("wina_core.api.studies.run_recorded", run_recorded)
    return jobs


@pytest.fixture
def stored(here):
    with Store() as store:
        store.record_import(BENCH, INT4)
        store.record_decoding(timed(*points(INT4), 400.0))
        store.record_decoding(timed(*points(), 160.0, ELSEWHERE))
    return here


@pytest.mark.usefixtures("stored")
def test_this_machines_configurations_are_printed(wina, tmp_path):
    (row,) = json.loads(wina.succeeds("worth", "--json"))
    assert (row["bits"], row["imported peer"]) == (
        "int4",
        "demo-Q4_0.gguf (llama-bench, imported from bench.json, 2026-11-20)",
    )
    assert row["verdict"].startswith("does not pay: 0.31 times")
    code, _, err = wina("worth", "--output-path", tmp_path / "worth.csv")
    assert code == 0
    assert "peer: demo-Q4_0.gguf (llama-bench, imported from bench.json, 2026-11-20)" in err
    assert "1 configuration timed on other machines left out" in err
    assert len(list(csv.DictReader((tmp_path / "worth.csv").open()))) == 1


def test_what_is_missing_is_measured_on_this_machine_alone(stored, wina):
    (row,) = json.loads(wina.succeeds("worth", "--measure", "--json"))
    (job,) = stored
    assert (job.spec.model, job.spec.sparsities, job.spec.batches) == (INT4, (0.0, 0.5), (1, 2, 4, 8))
    assert row["missing"] == ""
    wina.succeeds("worth", "--measure")
    assert len(stored) == 1


def test_a_model_is_measured_with_zero_and_all_batches(here, wina):
    rows = json.loads(wina.succeeds("worth", "demo", "--method", "teal", "--sparsity", "0.65", "--json"))
    (job,) = here
    assert (job.spec.method.name, job.spec.sparsities, job.spec.batches) == ("teal", (0.0, 0.65), (1, 2, 4, 8))
    assert job.spec.budget_seconds == BUDGET_SECONDS
    assert [row["pays up to batch"] for row in rows] == ["at least 8"]
