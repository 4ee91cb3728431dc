"""Stored completions on the Playground: recorded by the window, listed, searched, shown, used again and deleted."""

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMessageBox
from wina_app.pages.playground import history_controller, wire
from wina_app.pages.playground.history_controller import HistoryController
from wina_app.pages.playground.page import PlaygroundPage

from tests.wina_app.fakes import done, load, make_workbench
from tests.wina_app.stored_runs import SOURCE, layout
from tests.wina_core.samples import completion
from wina_core.jobs import CompletionFinished
from wina_core.specs.generation import CompletionSpec
from wina_core.specs.plans import SparsityPlan


class Setup:
    def __init__(self, qtbot, tmp_path) -> None:
        self.workbench, self.engine, thread = make_workbench(tmp_path)
        self.store, self.pages = thread.store, []
        self.control = wire(self.workbench, self.pages.append)
        self.page: PlaygroundPage = self.pages[0]
        self.history = self.page.history
        qtbot.addWidget(self.page)
        load(self.workbench)
        self.page.show()

    def titles(self) -> list[str]:
        return [self.history.list.item(row).text() for row in range(self.history.list.count())]


@pytest.fixture
def setup(qtbot, tmp_path) -> Setup:
    return Setup(qtbot, tmp_path)


def of_open_model(record):
    return record.model_copy(update={"point": record.point.model_copy(update={"model": SOURCE})})


def test_a_finished_completion_is_stored_with_the_job_and_appears_in_the_list(setup, qtbot):
    setup.page.show_left("history")
    assert setup.history.remark.isVisible()
    setup.control.generate()
    tokens = completion().tokens
    setup.engine.answer(
        lambda job_id: CompletionFinished(
            job_id=job_id, configuration=1, end="length", prompt_tokens=4, sparsity=0.5, tokens=tokens
        ),
        done(),
    )
    qtbot.waitUntil(lambda: setup.titles() == ['def median(data): """Return the median'])
    assert [row.speedup for row in setup.store.completions()] == [2.0]
    assert not setup.history.remark.isVisible()


def test_many_stored_results_are_one_reading_and_none_while_hidden(setup, monkeypatch):
    readings = []
    monkeypatch.setattr(setup.store, "completions", lambda *_, **__: readings.append(1) or [])
    setup.page.show_left("history")
    assert readings == [1]
    rest = setup.control.findChild(HistoryController)._rest
    for _ in range(5):
        setup.workbench.results_changed.emit()
    assert readings == [1]
    rest.timeout.emit()
    assert readings == [1, 1]
    setup.page.show_left("form")
    setup.workbench.results_changed.emit()
    rest.timeout.emit()
    assert readings == [1, 1]


def test_nothing_is_kept_where_the_user_says_so(setup):
    setup.page.form.store.setChecked(False)
    setup.page.form.prompt.setPlainText("a secret")
    setup.control.generate()
    assert not setup.engine.last.job.store
    assert setup.workbench.settings.prompts == []
    assert "prompt" not in setup.page.view_state()
    setup.page.form.store.setChecked(True)
    assert setup.page.view_state()["prompt"] == "a secret"


def test_the_list_is_searched_and_grows_on_demand(qtbot, tmp_path, monkeypatch):
    monkeypatch.setattr(history_controller, "LISTED", 3)
    setup = Setup(qtbot, tmp_path)
    setup.store.record_completion(completion(prompt="The capital of France", text="Paris"))
    for number in range(3):
        setup.store.record_completion(completion(prompt=f"prompt {number}", length=1))
    setup.page.show_left("history")
    assert len(setup.titles()) == 3
    setup.history.more.click()
    assert len(setup.titles()) == 4
    assert not setup.history.more.isVisible()
    qtbot.keyClicks(setup.history.search, "paris capital")
    qtbot.waitUntil(lambda: setup.titles() == ["The capital of France"])
    qtbot.keyClicks(setup.history.search, "nowhere")
    qtbot.waitUntil(lambda: setup.titles() == [])
    assert setup.history.remark.text() == "No stored completion matches."


def test_a_stored_completion_is_shown_with_its_prompt_its_colours_and_the_dense_one(setup):
    for record in (completion(None), completion()):
        setup.store.record_completion(record)
    setup.page.show_left("history")
    assert setup.titles() == ["def median(data):"]  # the pair is one entry
    setup.history.list.setCurrentRow(0)
    dense, sparse = (setup.page.panes[side].text for side in ("dense", "sparse"))
    assert dense.toPlainText().startswith("return 1 2")
    assert sparse.colour_of(0) is not None
    assert dense.colour_of(0) is None
    assert setup.history.prompt.toPlainText() == "def median(data):"
    assert setup.control.completions["sparse"].speed.speedup == 2.0
    setup.history.copy.click()
    assert QGuiApplication.clipboard().text().startswith("def median(data):\n\ndense\nreturn 1")
    setup.page.form.sparsity.setValue(70)
    setup.control.restart()
    assert setup.engine.submitted == []  # what is shown is no prompt of now


def test_settings_of_a_stored_completion_are_used_again(setup):
    record = of_open_model(completion(0.3, prompt="again"))
    setup.store.record_completion(record)
    setup.page.show_left("history")
    setup.history.list.setCurrentRow(0)
    setup.history.use.click()
    assert setup.page.left.value == "form"
    choice = setup.page.form.choice()
    assert (choice.prompt, choice.sparsity, choice.new_tokens, choice.by_plan) == ("again", 0.3, 20, False)
    setup.control.generate()
    assert setup.engine.last.job.point(1) == record.point


def test_a_plan_of_a_stored_completion_is_used_until_the_plan_is_edited(setup):
    plan = SparsityPlan.uniform(layout(), 0.25).model_copy(update={"provenance": "greedy"})
    base = of_open_model(completion())
    spec = CompletionSpec(method=base.point.configuration.method, plan=plan)
    setup.store.record_completion(
        base.model_copy(update={"point": base.point.model_copy(update={"configuration": spec})})
    )
    setup.page.show_left("history")
    setup.history.list.setCurrentRow(0)
    setup.history.use.click()
    assert setup.page.form.by_plan.text() == "By the plan: 25.0 %, greedy"
    setup.control.generate()
    assert setup.engine.last.job.configurations[1].plan == plan
    edited = SparsityPlan.uniform(layout(), 0.4)
    setup.workbench.workspace.set_plan(edited)
    setup.control.generate()
    assert setup.engine.last.job.configurations[1].plan == edited


def test_completions_are_deleted_once_confirmed(setup, monkeypatch):
    for record in (completion(None), completion(), completion(0.7)):
        setup.store.record_completion(record)
    setup.page.show_left("history")
    setup.history.list.selectAll()
    answers = [QMessageBox.StandardButton.No, QMessageBox.StandardButton.Yes]
    monkeypatch.setattr(QMessageBox, "question", lambda *_: answers.pop(0))
    (key,) = setup.history.list.actions()
    assert key.shortcut() == Qt.Key.Key_Delete
    key.trigger()
    assert len(setup.titles()) == 2
    setup.history.delete.click()
    assert setup.titles() == []
    assert setup.store.completions() == []


def test_form_and_font_are_restored_with_method_and_rotation_once_a_model_is_open(setup, qtbot, tmp_path):
    form = setup.page.form
    form.prompt.setPlainText("typed")
    form.sparsity.setValue(35)
    form.seed.setValue(7)
    form.method.setCurrentIndex(form.method.findText("teal"))
    setup.page.monospaced.click()
    state = setup.page.view_state()
    (tmp_path / "later").mkdir()
    workbench, _, _ = make_workbench(tmp_path / "later")
    pages = []
    control = wire(workbench, pages.append)
    page = pages[0]
    qtbot.addWidget(page)
    page.restore_view(state)
    load(workbench)
    qtbot.waitUntil(lambda: page.form.choice().method.name == "teal")
    assert control.completions == {}
    assert replace(page.form.choice(), method=setup.page.form.choice().method) == setup.page.form.choice()
    assert page.monospaced.isChecked()
    assert page.panes["dense"].text.font() == page.form.prompt.font() == setup.page.form.prompt.font()
