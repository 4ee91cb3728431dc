"""The window with a real engine process on the demo model."""

import psutil
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QListWidgetItem

from tests.wina_app.conftest import close
from wina_core.engine.protocol import EvaluateJob, PendingRun
from wina_core.specs import Configuration, EvaluationSpec, MethodSpec, RunSpec
from wina_core.specs.plans import UniformSparsity
from wina_core.specs.studies import StudySpec
from wina_core.store import Store

LOAD_MS, RUN_MS = 120_000, 240_000


@pytest.fixture
def children_before() -> set[psutil.Process]:
    """Processes that earlier tests have left running, such as a fork server."""
    return _children()


def test_a_model_is_evaluated_without_ever_blocking_the_window(
    children_before, application_with_engine, qtbot, stall_watchdog, tmp_path
):
    application = application_with_engine
    workbench, window = application.workbench, application.window
    empty = tmp_path / "a folder without a model"
    empty.mkdir()

    model = window.pages["model"]
    model.location.setText(str(empty))
    qtbot.keyClick(model.location, Qt.Key.Key_Return)
    qtbot.waitUntil(model.message.isVisible, timeout=LOAD_MS)
    assert "config.json" in model.message.label.text()
    assert str(empty) in model.message.label.text()

    model.dtype.setCurrentText("float32")
    qtbot.mouseClick(model.demo, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: workbench.workspace.summary is not None, timeout=LOAD_MS)
    assert workbench.workspace.summary.family == "llama"
    assert not model.message.isVisible()

    stall_watchdog.start()
    page = window.pages["evaluate"]
    window.show_page("evaluate")
    tick(page.tasks.list.item(1), on=False)
    page.tasks.fidelity.setChecked(False)
    page.tasks.limit.setValue(8)
    page.configurations.sparsities.setText("50")
    for box in (*page.configurations.methods, *page.configurations.rotations):
        box.setChecked(box.text() in ("dense", "wina", "none"))
    qtbot.waitUntil(lambda: page.primary.text() == "Evaluate 2 runs", timeout=LOAD_MS)
    qtbot.mouseClick(page.primary, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: page.primary.text() == "Evaluate 0 runs", timeout=LOAD_MS)
    entry = list(workbench.jobs)[-1]
    qtbot.waitUntil(lambda: entry.total == 2, timeout=LOAD_MS)
    for key in ("results", "latency", "sparsity", "rotation", "model", "evaluate"):
        window.show_page(key)
        qtbot.wait(50)
    qtbot.waitUntil(lambda: not entry.active, timeout=RUN_MS)
    assert (entry.state, entry.error, entry.units_stored) == ("done", "", 2)
    qtbot.waitUntil(lambda: page.table.grid.stored == 2, timeout=LOAD_MS)

    engine = workbench.engine_pid
    close(qtbot, application)
    assert not psutil.pid_exists(engine)
    assert not _children() - children_before
    with Store(f"sqlite:///{tmp_path / 'results.sqlite'}") as store:
        rows = store.metric_rows()
        assert [run.status for run in store.runs()] == ["done", "done"]
    accuracy = {row.method: row for row in rows if (row.task, row.metric) == ("demo_choice", "acc")}
    assert accuracy["dense"].n == accuracy["wina"].n == 8
    assert accuracy["wina"].gated_sparsity == pytest.approx(0.5, abs=0.02)


def _children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def tick(item: QListWidgetItem, *, on: bool) -> None:
    """Tick or untick an entry of a list."""
    item.setCheckState(Qt.CheckState.Checked if on else Qt.CheckState.Unchecked)


def test_the_window_works_on_through_an_engine_killed_idle_and_busy_and_retries_what_is_missing(
    application_with_engine, qtbot
):
    workbench, window = application_with_engine.workbench, application_with_engine.window
    qtbot.waitUntil(lambda: workbench.engine_pid is not None, timeout=LOAD_MS)
    psutil.Process(workbench.engine_pid).kill()  # with nothing to do, before it is even ready
    qtbot.waitUntil(lambda: workbench.engine_pid is None, timeout=LOAD_MS)
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
    qtbot.waitUntil(lambda: workbench.jobs[job_id].state == "done", timeout=RUN_MS)
    assert workbench.jobs[job_id].job.runs == pending[1:], "the first run is stored and not computed again"
    assert workbench.jobs[job_id].units_stored == 1
    assert workbench.workspace.summary is not None
