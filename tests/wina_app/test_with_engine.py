"""The window with a real engine process on the demo model."""

import psutil
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QListWidgetItem

from tests.wina_app.conftest import close
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

    qtbot.mouseClick(model.demo, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: workbench.workspace.summary is not None, timeout=LOAD_MS)
    assert workbench.workspace.summary.family == "llama"
    assert not model.message.isVisible()

    stall_watchdog.start()
    page = window.pages["evaluate"]
    window.show_page("evaluate")
    tick(page.tasks.list.item(1), on=False)
    page.tasks.deviation.setChecked(False)
    page.tasks.limit.setValue(60)
    page.arms.sparsities.setText("50")
    for box in (*page.arms.methods, *page.arms.rotations):
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
    assert accuracy["dense"].n == accuracy["wina"].n == 60
    assert accuracy["wina"].counted_sparsity == pytest.approx(0.5, abs=0.02)


def _children() -> set[psutil.Process]:
    return set(psutil.Process().children(recursive=True))


def tick(item: QListWidgetItem, *, on: bool) -> None:
    """Tick or untick an entry of a list."""
    item.setCheckState(Qt.CheckState.Checked if on else Qt.CheckState.Unchecked)


def test_killing_the_engine_fails_its_job_with_a_reason_and_the_window_works_on(application_with_engine, qtbot):
    workbench, window = application_with_engine.workbench, application_with_engine.window
    qtbot.waitUntil(lambda: workbench.environment is not None, timeout=LOAD_MS)
    model = window.pages["model"]
    model.open_requested.emit("demo", "float32", "none")
    qtbot.waitUntil(lambda: any(entry.state == "running" for entry in workbench.jobs), timeout=LOAD_MS)
    psutil.Process(workbench.engine_pid).kill()
    qtbot.waitUntil(model.message.isVisible, timeout=LOAD_MS)
    assert "killed from outside" in model.message.label.text()
    qtbot.mouseClick(model.demo, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: workbench.workspace.summary is not None, timeout=LOAD_MS)
