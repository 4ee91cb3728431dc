"""Tags, notes, pins and deletion in the Results page: stored, shown at once, each step undone and redone."""

import pandas  # noqa: F401 - else the page imports it on a thread, and lists nothing until then
import pytest
from PySide6.QtCore import QObject, Signal
from wina_app.pages.results.columns import ColumnChoice
from wina_app.pages.results.controller import ResultsController
from wina_app.pages.results.run_inspector import ResultsInspector
from wina_app.pages.results.tags_controller import RunFacts

from tests.wina_app.fakes import Recorded
from tests.wina_app.stored_runs import NO_ROTATION, SOURCE, DirectStore, record_demo_study, run_spec
from wina_core.specs import Configuration
from wina_core.specs.studies import StudySpec
from wina_core.store import Store
from wina_core.store.annotations import RunAnnotations


@pytest.fixture
def runs(tmp_path):
    with Store(f"sqlite:///{tmp_path / 'results.sqlite'}") as store:
        yield store, record_demo_study(store)


@pytest.fixture
def control(runs, qapp):  # noqa: ARG001 - timers need it
    view = Recorded()
    controller = ResultsController(DirectStore(runs[0]), view, Recorded(), ColumnChoice())
    controller.view = view
    controller.setParent(parent := QObject())
    controller.set_form("metrics")
    controller.start()
    yield controller
    parent.deleteLater()


def marks_of(runs, run):
    return runs[0].run_details()[run][:3]


def test_what_is_written_is_stored_and_shown_and_undone_step_by_step(control, runs):
    run, other = runs[1][:2]
    stack = control.annotations.undo_stack
    control.annotations.set_tags([run, other], "report,  best ,")
    control.annotations.set_note([run], "as in the paper\n")
    control.annotations.toggle_pin([run])
    assert marks_of(runs, run) == ("best, report", "as in the paper", True)
    assert [stack.text(step) for step in range(3)] == ["tags of 2 runs", "note of 1 run", "pin of 1 run"]
    assert control.table.run_at(0) == run
    assert {control.table.cells["tags"].text(row) for row in range(6)} == {"best, report"}
    stack.undo()
    stack.undo()
    assert marks_of(runs, run) == ("best, report", "", False)
    stack.undo()
    assert marks_of(runs, other) == ("", "", False)
    stack.redo()
    assert marks_of(runs, other) == ("best, report", "", False)


def test_what_another_window_writes_on_a_run_meanwhile_stays(control, runs):
    store, run = runs[0], runs[1][0]
    control.annotations.set_tags([run], "first")
    store.annotate_runs({run: RunAnnotations(tags=("first", "theirs"), note="from another window")}, ["tags", "note"])
    control.annotations.set_tags([run], "second")
    assert marks_of(runs, run) == ("second, theirs", "from another window", False)
    control.annotations.undo_stack.undo()
    assert marks_of(runs, run) == ("first, theirs", "from another window", False)


@pytest.mark.parametrize("editor", ["tags", "note"])
def test_what_is_typed_goes_to_the_run_that_was_selected_then(editor, qtbot):
    inspector = ResultsInspector()
    qtbot.addWidget(inspector)
    written = []
    inspector.tags_written.connect(lambda *what: written.append(what))
    inspector.note_written.connect(lambda *what: written.append(what))
    inspector.show_runs(["a"], RunFacts("a", RunAnnotations(), ()))
    field = getattr(inspector, editor)
    with qtbot.waitExposed(inspector):
        inspector.show()
    field.setFocus()
    qtbot.keyClicks(field, "mine")
    inspector.show_runs(["a"], RunFacts("a", RunAnnotations(), ()))  # as results land
    assert written == []
    inspector.show_runs(["b"], RunFacts("b", RunAnnotations(("other",), "other"), ()))
    assert written == [(["a"], "mine")]
    assert (inspector.tags.text(), inspector.note.toPlainText()) == ("other", "other")


def test_a_deleted_run_is_gone_at_once_and_undo_brings_it_back(control, runs):
    store, hashes = runs
    before = [entry.key for entry in control.table.listed_rows]
    control.annotations.delete([hashes[3], hashes[3]])
    assert hashes[3] not in {entry.run for entry in control.table.listed_rows}
    assert "1 run is deleted." in control.view.last("show_notice")
    assert [row.run for row in store.deleted_runs()] == [hashes[3]]
    control.annotations.undo_stack.undo()
    assert [entry.key for entry in control.table.listed_rows] == before
    control.annotations.undo_stack.redo()
    assert len(control.table.listed_rows) == len(before) - 3


def test_undo_brings_back_what_it_deleted_and_not_what_another_window_did(control, runs):
    store, (mine, theirs, again, *_) = runs
    store.delete_runs([theirs])
    control.annotations.delete([mine, theirs, again])
    store.restore_runs([again])
    store.delete_runs([again])  # by the other window too, after it had brought the run back
    control.annotations.undo_stack.undo()
    assert {row.run for row in store.deleted_runs()} == {theirs, again}


def test_a_deletion_that_the_store_refused_has_nothing_to_undo(control, runs):
    store, (mine, busy, *_) = runs
    store.delete_runs([mine])
    with store._engine.begin() as connection:  # since this window looked
        connection.exec_driver_sql("UPDATE runs SET status = 'running' WHERE hash = ?", (busy,))
    control.annotations.delete([mine, busy])
    assert "wait or are being computed" in control.view.last("show_error")
    control.annotations.undo_stack.undo()
    assert [row.run for row in store.deleted_runs()] == [mine]


def test_what_is_being_computed_is_not_deleted(control, runs):
    store, hashes = runs
    store.begin_run(hashes[0], None)
    control.refresh()
    control.annotations.delete(hashes[:2])
    assert control.view.last("show_error").startswith("1 of the 2 runs wait or are being computed")
    assert control.annotations.undo_stack.count() == 0
    waiting = run_spec("teal", NO_ROTATION, 0.9)
    store.save_study(StudySpec(name="more", models=(SOURCE,), configurations=(Configuration(),)), [waiting])
    assert store.deleted_runs() == []


def test_another_databases_runs_are_not_undone(control, runs):
    control.annotations.set_note([runs[1][0]], "mine")
    control.annotations._store.opened.emit(object())
    assert control.annotations.undo_stack.count() == 0


class LateStore(QObject):
    """Answers when it is told to."""

    changed, opened = Signal(), Signal(object)

    def __init__(self, store):
        super().__init__()
        self.store, self.asked = store, []

    def ask(self, question, answer, *_):
        self.asked.append((question, answer))

    def answer(self):
        question, answer = self.asked.pop(0)
        answer(question(self.store))


@pytest.mark.usefixtures("qapp")
def test_a_filter_typed_while_the_store_is_read_is_the_one_that_holds(runs):
    late = LateStore(runs[0])
    controller = ResultsController(late, Recorded(), Recorded(), ColumnChoice())
    controller.start()
    controller.set_filter("method:teal")
    controller.set_filter("method:wina metric:acc")
    while late.asked:
        late.answer()
    assert {(entry.method, entry.metric) for entry in controller.table.listed_rows} == {("wina", "acc")}
