"""The window with a real engine process on the demo model."""

import psutil
import pytest

from wina_core.engine.protocol import EvaluateJob, PendingRun
from wina_core.specs import Configuration, EvaluationSpec, MethodSpec, RunSpec
from wina_core.specs.plans import UniformSparsity
from wina_core.specs.studies import StudySpec

LOAD_MS, RUN_MS = 120_000, 240_000


def test_the_window_works_on_through_a_killed_engine_and_retries_what_is_missing(application_with_engine, qtbot):
    workbench, window = application_with_engine.workbench, application_with_engine.window
    model = window.pages["model"]
    model.open_requested.emit("demo", "float32", "none")
    qtbot.waitUntil(lambda: workbench.workspace.summary is not None, timeout=LOAD_MS)

    runs = [
        RunSpec(
            model=workbench.workspace.source,
            method=MethodSpec(name="wina"),
            plan=UniformSparsity(sparsity=sparsity),
            evaluation=EvaluationSpec(tasks=("demo_choice",), limit=limit),
        )
        for sparsity, limit in ((0.5, 2), (0.6, 16))
    ]
    study = StudySpec(name="test", models=(runs[0].model,), configurations=(Configuration(),))
    workbench.store.write(lambda store: store.save_study(study, runs), pytest.fail)
    pending = tuple(PendingRun(spec=run, units=("demo_choice",)) for run in runs)
    job_id = workbench.submit(EvaluateJob(runs=pending), "Evaluate")
    qtbot.waitUntil(lambda: workbench.jobs[job_id].units_stored == 1, timeout=LOAD_MS)
    psutil.Process(workbench.engine_pid).kill()  # in the middle of the second run
    qtbot.waitUntil(lambda: workbench.jobs[job_id].state == "failed", timeout=LOAD_MS)
    assert "killed from outside" in workbench.jobs[job_id].error
    application_with_engine.log.show_job(job_id)
    assert "killed from outside" in application_with_engine.log.text.toPlainText()

    window.jobs.list.choose(job_id)
    window.jobs.list.retry.trigger()
    qtbot.waitUntil(lambda: workbench.jobs[job_id].active, timeout=RUN_MS)
    assert workbench.jobs[job_id].job.runs == pending[1:], "the first run is stored and not computed again"
    assert workbench.workspace.summary is not None
