"""The frame: pages, docks, shortcuts, closing, and what every control owes to keyboard and screen reader."""

import logging
import signal
from pathlib import Path

import pytest
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QMessageBox
from wina_app.__main__ import parser
from wina_app.application import Application
from wina_app.services.threads import EngineThread

from tests.wina_app.conftest import close
from tests.wina_app.fakes import ENVIRONMENT, FakeClient
from tests.wina_app.stored_runs import SOURCE, summary
from wina_core.jobs import EvaluateJob, InspectJob, PendingRun
from wina_core.specs import Configuration, EvaluationSpec, RunSpec, TextSpec
from wina_core.specs.studies import StudySpec
from wina_core.store import Store


@pytest.fixture
def window(application):
    return application.window


@pytest.mark.all_pages
def test_breadcrumbs_and_main_buttons_lead_to_the_page_they_name(application, window):
    window.show_page("rotation")
    window.pages["rotation"].empty_triggered.emit()
    assert window.current_page.key == "model"
    window.pages["evaluate"].crumb_clicked.emit("sparsity")
    assert window.current_page.key == "sparsity"
    application.workbench.workspace.set_model(SOURCE, summary())
    assert not window.pages["evaluate"].choice().with_plan
    window.pages["sparsity"].primary.click()
    assert window.current_page.key == "evaluate"
    assert window.pages["evaluate"].choice().with_plan
    for key, page in window.pages.items():
        window.show_page(key)
        assert ("(Ctrl+Return)" in page.primary.toolTip()) == page.primary.isEnabled(), key
        assert page.primary.toolTip(), key


@pytest.mark.all_pages
def test_the_keyboard_comes_back_to_where_it_was_and_tab_goes_through_the_page_to_the_docks(application, window, qtbot):
    model, evaluate = window.pages["model"], window.pages["evaluate"]
    qtbot.waitUntil(lambda: window.focusWidget() is model.location)
    model.quantization.setFocus()
    application.workbench.workspace.set_model(SOURCE, summary())
    window.show_page("evaluate")
    assert window.focusWidget() is evaluate.tasks.list
    window.show_page("results")
    assert window.pages["results"].isAncestorOf(window.focusWidget())
    window.show_page("model")
    assert window.focusWidget() is model.quantization
    window.show_page("evaluate")
    evaluate.set_primary("Evaluate")
    evaluate.primary.setFocus()
    evaluate.set_primary("Evaluate", enabled=False, reason="nothing to do")
    assert window.focusWidget() is evaluate.tasks.list, "a control that is disabled hands it to the next one"
    window.dock_area.toggle()  # or their lines would be the stops
    page = window.pages["evaluate"]
    passed = [window.focusWidget()]
    while window.focusNextPrevChild(True) and window.focusWidget() not in passed:
        passed.append(window.focusWidget())
    stops = [
        page.tasks.list,
        page.tasks.limit,
        *page.configurations.methods,
        *(box for box in page.configurations.rotations if box.isEnabled()),
        page.configurations.selection,
        page.name,
        page.table,
        window.log.level,
        page.save,
    ]
    places = [passed.index(stop) for stop in stops]
    assert places == sorted(places)
    assert window.focusNextPrevChild(False)
    assert window.focusWidget() is passed[-1]


def test_closing_with_a_job_running_asks_and_then_cancels_it(application, window, qtbot):
    job_id = application.workbench.submit(InspectJob(model=SOURCE), "Load demo")
    qtbot.waitUntil(lambda: application.workbench.jobs[job_id].phase == "running")
    seen = []

    def look():
        box = window.findChild(QMessageBox)
        seen.extend([box.text(), {button.text() for button in box.buttons()}, box.defaultButton().text()])
        box.defaultButton().click()

    QTimer.singleShot(200, look)
    window.close()
    offered = {"Keep running in the background", "Cancel jobs and quit", "Keep working"}
    assert seen == ["Not finished yet: 1 job.", offered, "Keep working"]
    assert window.isVisible()
    assert application.workbench.jobs[job_id].phase == "running"
    window.confirm_quit = lambda: "cancel"
    with qtbot.waitSignal(window.closed):
        window.close()
    assert application.workbench.jobs[job_id].phase == "cancelled"
    assert application.workbench.engine_pid is None
    assert not window.isVisible()


@pytest.mark.parametrize(
    ("end", "state"),
    [
        (lambda application: application.end_session(None), "interrupted"),
        (lambda application: application.on_signal(signal.SIGINT), "cancelled"),
    ],
)
def test_the_end_of_the_session_asks_nothing_and_interrupts_the_runs(application, window, qtbot, end, state):
    spec = RunSpec(model=SOURCE, evaluation=EvaluationSpec(fidelity=TextSpec()))
    saved = []
    workbench = application.workbench
    study = StudySpec(name="s", models=(SOURCE,), configurations=(Configuration(),))
    workbench.store.ask(lambda store: store.save_study(study, (spec,)), saved.append)
    qtbot.waitUntil(lambda: bool(saved))
    job = EvaluateJob(runs=(PendingRun(spec=spec, units=spec.evaluation.units),))
    job_id = workbench.submit(job, "A run")
    qtbot.waitUntil(lambda: workbench.jobs[job_id].phase == "running")
    window.confirm_quit = lambda: "cancel" if state == "cancelled" else pytest.fail("nobody is there to answer")
    with qtbot.waitSignal(window.closed):
        end(application)
    with Store() as store:
        assert store.run_status(spec.content_hash()) == state


def test_a_database_that_cannot_be_opened_is_said_in_the_window(qtbot, qapp, tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("no database at all, but long enough to be looked at as if it were one")
    application = Application(qapp, database=str(other), engine=EngineThread(FakeClient))
    application.start()
    qtbot.waitUntil(application.window.message.isVisible)
    assert "notes.txt" in application.window.message.label.text()
    close(qtbot, application)
    assert other.read_text().startswith("no database at all")


def test_the_status_line_tells_engine_device_database_and_missing_kernels_and_the_log_the_rest(window, qtbot):
    qtbot.waitUntil(lambda: "results.sqlite" in window.status._database.whole())
    qtbot.waitUntil(lambda: "a test" in window.status._device.text())
    assert window.status._engine.text() == "Engine ready"
    assert window.status._memory.text().endswith("free")
    assert window.status._notice.isHidden()
    window.status.show_environment(ENVIRONMENT, "The C++ kernels are missing; build them.")
    assert not window.status._notice.isHidden()
    assert "build them" in window.status._notice.toolTip()
    logging.getLogger("wina_core.engine").warning("the tokenizer is slow")
    qtbot.waitUntil(lambda: "Warning" in window.log.text.toPlainText())
    assert "engine: the tokenizer is slow" in window.log.text.toPlainText()


@pytest.mark.parametrize("wrong", [["--model", "a", "--demo"], ["--engines", "-1"]])
def test_the_command_line_takes_one_model_a_page_and_engines(wrong):
    options = parser().parse_args(
        ["--model", "/models/a", "--page", "results", "--database", "x.sqlite", "a.wina.json"]
    )
    assert (options.model, options.page, options.database) == ("/models/a", "results", "x.sqlite")
    assert options.files == [Path("a.wina.json")]
    assert (options.engines, parser().parse_args(["--engines", "2"]).engines) == (None, 2)
    with pytest.raises(SystemExit):
        parser().parse_args(wrong)
