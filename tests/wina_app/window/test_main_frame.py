"""What the frame adds to its pages: menus, settings, help, toasts, opening files, and the last session."""

import json
from collections import Counter
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QCheckBox, QComboBox, QLineEdit, QSpinBox
from wina_app.services.settings import Preferences, Settings
from wina_app.services.store_thread import StoreThread
from wina_app.services.workbench import Workbench
from wina_app.services.workspace import START_ROTATION, WindowSession, Workspace
from wina_app.style.theme import magnitude_map, text_scale, tokens
from wina_app.window.files import FileOpener, kind_of
from wina_app.window.messages import LONG_SECONDS, JobNotices
from wina_app.window.settings_dialog import SettingsDialog

from tests.wina_app.fakes import FakeEngine, Recorded, done, make_workbench
from tests.wina_app.stored_runs import SOURCE, layout, summary
from wina_core.errors import WinaError
from wina_core.jobs import Done, Failed, InspectJob, RotateJob, Started
from wina_core.specs import BitsPlan, Configuration, MethodSpec, QuantizationSpec, RotationSpec
from wina_core.specs.plans import SparsityPlan
from wina_core.specs.quantization import PlanPair
from wina_core.specs.studies import StudySpec
from wina_core.store import Store
from wina_core.studies.expand import save_study_file


def test_every_action_has_a_shortcut_of_its_own_that_its_tooltip_names(application):
    window = application.window
    for key in window.pages:
        window.show_page(key)
        keys = Counter(
            action.shortcut().toString() for action in window.menus.every() if not action.shortcut().isEmpty()
        )
        assert not {name: n for name, n in keys.items() if n > 1}, key
        recent = window.menus.recent.actions()
        for action in window.menus.every():
            if action not in recent:
                shown = action.shortcut().toString(action.shortcut().SequenceFormat.NativeText)
                assert shown, f"{action.text()} on {key} has no shortcut"
                assert shown in action.toolTip() or not action.isEnabled(), action.text()


def test_every_control_sets_its_setting(qtbot):
    dialog = SettingsDialog(None, Preferences())
    qtbot.addWidget(dialog)
    heard = []
    dialog.changed.connect(heard.append)
    assert set(dialog.controls) == set(Preferences.model_fields)
    for name, control in dialog.controls.items():
        match control:
            case QComboBox():
                control.setCurrentIndex((control.currentIndex() + 1) % control.count())
            case QCheckBox():
                control.toggle()
            case QSpinBox():
                control.stepUp()
            case QLineEdit():
                control.setText("8GB" if name == "memory" else "other")
                control.editingFinished.emit()
        assert getattr(heard[-1], name) != getattr(Preferences(), name)
    dialog.show_preferences(Preferences())
    assert heard[-1] == Preferences()


@pytest.mark.all_pages
def test_settings_take_effect_at_once_and_are_kept(application):
    window = application.window
    body = tokens().body
    chosen = Preferences(theme="dark", text_size=150, colour_map="cividis")
    try:
        window.apply_preferences(chosen)
        assert (tokens().dark, text_scale(), magnitude_map()) == (True, 1.5, "cividis")
        assert tokens().body == pytest.approx(1.5 * body, abs=1)
        assert application.workbench.settings.preferences == chosen
        window.apply_preferences(Preferences(sparsity_count="net"))
        assert application.results.plots.count == "net", "the plots follow"
    finally:
        window.apply_preferences(Preferences())


# ---- opening -----------------------------------------------------------------------------------------------------


def test_what_a_path_is_is_told_by_its_content(tmp_path: Path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "study.toml").touch()
    (tmp_path / "plan.json").write_text("{}")
    save_study_file(StudySpec(name="s", models=(SOURCE,), configurations=(Configuration(),)), tmp_path / "study.json")
    assert kind_of(tmp_path / "study.json") == "study"
    pair = PlanPair(plan=SparsityPlan.uniform(layout(), 0.5), quantization="int8")
    (tmp_path / "plan.json").write_text(PlanPair(plan=pair.plan).text())
    (tmp_path / "pair.json").write_text(pair.text())
    Store(f"sqlite:///{tmp_path / 'named.anyhow'}").close()
    assert kind_of(tmp_path / "model") == kind_of(tmp_path / "model" / "config.json") == "model"
    assert kind_of(tmp_path / "study.toml") == "study"
    assert kind_of(tmp_path / "plan.json") == kind_of(tmp_path / "pair.json") == "plan"
    assert kind_of(tmp_path / "named.anyhow") == "database"
    for bad in (tmp_path, tmp_path / "missing", tmp_path / "picture.png"):
        (tmp_path / "picture.png").touch()
        with pytest.raises(WinaError, match=bad.name):
            kind_of(bad)


def test_a_file_that_is_dropped_or_named_opens_once_no_model_is_being_opened(application, tmp_path: Path):
    window, workspace = application.window, application.workbench.workspace
    study = tmp_path / "mine.toml"
    study.write_text("")
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(study))])
    event = QDropEvent(QPointF(5, 5), Qt.DropAction.CopyAction, mime, Qt.MouseButton.LeftButton, Qt.KeyboardModifier(0))
    window.dropEvent(event)
    assert window.current_page.key == "studies"
    assert application.workbench.settings.studies == [str(study)]
    window.show_page("model")
    workspace.set_loading("a model")
    application.open_files([study])
    assert window.current_page.key == "model"
    workspace.set_loading("")
    assert window.current_page.key == "studies"


def test_a_database_that_can_only_be_read_is_announced_until_it_can_be_written(application):
    window = application.window
    unwritable = window._workbench.store.unwritable
    unwritable.emit("The disk is full.")
    assert window.message.label.text() == "Nothing can be stored now, but stored results can be read. The disk is full."
    unwritable.emit("")
    assert window.message.isHidden()


@pytest.mark.all_pages
def test_another_database_is_opened_and_listed_and_stays_where_the_next_one_is_damaged(
    application, tmp_path: Path, qtbot
):
    window, settings = application.window, application.workbench.settings
    other = tmp_path / "other.sqlite"
    window.show_failure("The database is damaged.")
    window.pages["model"].show_error("The database is damaged.")
    window.pages["results"].show_error("Something else.")
    application.opening.new_database(other)
    qtbot.waitUntil(lambda: settings.recent_databases == [str(other)])
    assert window.message.isHidden()
    assert window.pages["model"].message.isHidden()
    assert not window.pages["results"].message.isHidden()
    assert other.is_file()
    assert window.current_page.key == "results"
    assert str(other) in window.status._database.whole()
    application.opening.new_database(other)
    assert str(other) in window.message.label.text()
    (tmp_path / "no.sqlite").write_bytes(b"SQLite format 3\0 and then nonsense" * 50)
    window.message.dismiss()
    application.opening.open(tmp_path / "no.sqlite")
    qtbot.waitUntil(window.message.isVisible)
    assert str(other) in window.status._database.whole()


def test_a_password_is_not_kept_among_the_recent_databases(tmp_path: Path):
    workbench, _engine, store = make_workbench(tmp_path)
    store.switch = lambda _url, _refused: store.opened.emit(store.store)
    opening = FileOpener(workbench, Recorded(), {})
    for address in ("postgresql://me:secret@host/results", "postgresql://me@host/results?password=secret"):
        opening.open_database(address)
    assert workbench.settings.recent_databases == []
    opening.open_database("postgresql://me@host/results")
    assert workbench.settings.recent_databases == ["postgresql://me@host/results"]


def test_the_database_stays_while_an_answer_may_still_submit_a_job_for_it(tmp_path: Path, qtbot):
    """A study was saved in the database, and its job is not submitted yet."""
    store, view = StoreThread(str(tmp_path / "results.sqlite")), Recorded()
    workbench = Workbench(FakeEngine(), store, Settings(tmp_path / "window.json"))
    opening = FileOpener(workbench, view, {})
    store.start()
    store.ask(lambda store: store.url, lambda _: workbench.submit(InspectJob(model=SOURCE), "Evaluate"))
    opening.open_database(str(tmp_path / "first.sqlite"))
    opening.open_database(str(tmp_path / "other.sqlite"))
    qtbot.waitUntil(lambda: view.calls("show_failure") != [])
    assert "while jobs run" in view.last("show_failure")
    workbench.jobs.apply(Done(job_id=workbench.jobs.active[0].id, cancelled=True))
    opening.open_database(str(tmp_path / "other.sqlite"))
    qtbot.waitUntil(lambda: view.last("show_database") == str(tmp_path / "other.sqlite"))
    store.finish()
    assert view.calls("show_database") == [str(tmp_path / name) for name in ("results.sqlite", "other.sqlite")]
    assert not (tmp_path / "first.sqlite").exists()


# ---- what is told in passing -------------------------------------------------------------------------------------


def test_the_end_of_a_long_job_is_told_with_a_way_to_its_results(tmp_path: Path, monkeypatch):
    now = 0.0
    monkeypatch.setattr("wina_app.jobs.clock.now", lambda: now)
    workbench, engine, _store = make_workbench(tmp_path)
    view = Recorded()
    logs = []
    notices = JobNotices(workbench, view, view.show_page, logs.append)
    for job in (RotateJob(model=SOURCE, rotation=RotationSpec()), InspectJob(model=SOURCE)):
        job_id = workbench.submit(job, "Work")
        engine.received.emit(Started(job_id=job_id))
        now += LONG_SECONDS + 1
        engine.received.emit(done()(job_id))
    assert view.calls("say") == ["Done"], "the end of the second job is seen on its page"
    workbench.submit(RotateJob(model=SOURCE, rotation=RotationSpec()), "Work again")
    engine.answer(done())
    assert len(view.calls("say")) == 1, "a short job was waited for"
    workbench.submit(InspectJob(model=SOURCE), "Load a third time")
    engine.answer(lambda job_id: Failed(job_id=job_id, error="It broke."))
    assert view.last("say") == "Failed"
    *_, show_log = view._calls[-1][1]
    show_log()
    assert logs == [engine.last.job_id], "of that job alone"
    del notices


# ---- the last session --------------------------------------------------------------------------------------------


@pytest.fixture
def last_session(qapp, tmp_path: Path) -> Workspace:  # noqa: ARG001 - widgets need an application
    """The workspace of a session that is stored in the settings."""
    workspace = Workspace()
    session = WindowSession(Settings(tmp_path / "window.json"), workspace)
    workspace.set_model(SOURCE, summary())
    workspace.set_rotation(RotationSpec(mode="none", per_head=True))
    workspace.set_method(MethodSpec(name="teal"))
    workspace.set_plan(SparsityPlan.uniform(layout(), 0.3).with_cells({(2, 3): 0.7}))
    workspace.set_quantization(QuantizationSpec(quantizer="gptq", bits=BitsPlan.uniform(layout(), 4)))
    session.save()
    return workspace


def _restored(folder: Path, location: str = SOURCE.location) -> Workspace:
    """Start the next session, in which a model is loaded."""
    workspace, opened = Workspace(), []
    session = WindowSession(Settings(folder / "window.json"), workspace)
    session.restore(opened.append)
    assert opened == [SOURCE]
    workspace.set_model(SOURCE.model_copy(update={"location": location}), summary())
    return workspace


def test_the_next_start_restores_the_last_session(last_session, tmp_path: Path):
    after = _restored(tmp_path)
    for name in ("rotation", "method", "plan", "quantization"):
        assert getattr(after, name) == getattr(last_session, name)


def test_a_damaged_part_or_a_method_that_is_gone_costs_only_itself(last_session, tmp_path: Path):
    stored = json.loads((tmp_path / "window.json").read_text())
    stored["session"] |= {"rotation": {"mode": 7}, "method": {"name": "elsewhere"}}
    (tmp_path / "window.json").write_text(json.dumps(stored))
    after = _restored(tmp_path)
    assert (after.rotation, after.method.name, after.plan) == (START_ROTATION, "wina", last_session.plan)
