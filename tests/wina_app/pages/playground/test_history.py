"""Stored completions on the Playground: recorded by the window, listed, searched, shown, used again and deleted."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMessageBox
from wina_app.pages.playground import history, wire

from tests.wina_app.fakes import done, load, make_workbench
from tests.wina_app.stored_runs import SOURCE
from tests.wina_core.samples import completion
from wina_core.jobs import CompletionFinished


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
    qtbot.waitUntil(lambda: setup.titles() == ["def median(data):"])
    assert [row.speedup for row in setup.store.completions()] == [2.0]
    assert not setup.history.remark.isVisible()


def test_nothing_is_kept_where_the_user_says_so(setup):
    setup.page.form.store.setChecked(False)
    setup.page.form.prompt.setPlainText("a secret")
    setup.control.generate()
    assert not setup.engine.last.job.store
    assert setup.workbench.settings.prompts == []
    assert "prompt" not in setup.page.view_state()
    setup.page.form.store.setChecked(True)
    assert setup.page.view_state()["prompt"] == "a secret"


def test_the_list_is_searched_and_grows_on_demand(setup, qtbot, monkeypatch):
    monkeypatch.setattr(history, "LISTED", 3)
    setup.history._limit = 3
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
    form = setup.form
    assert (form.prompt.toPlainText(), form.sparsity.value(), form.by_plan.isChecked()) == ("again", 30, False)
    setup.control.generate()
    assert setup.engine.last.job.point(1) == record.point


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


def test_the_form_is_restored_with_method_and_rotation_once_a_model_is_open(setup, qtbot, tmp_path):
    form = setup.form
    form.prompt.setPlainText("typed")
    form.sparsity.setValue(35)
    form.method.setCurrentIndex(form.method.findText("teal"))
    state = setup.page.view_state()
    (tmp_path / "later").mkdir()
    workbench, _, _ = make_workbench(tmp_path / "later")
    pages = []
    control = wire(workbench, pages.append)
    page = pages[0]
    qtbot.addWidget(page)
    page.restore_view(state)
    load(workbench)
    qtbot.waitUntil(lambda: page.form.method.currentText() == "teal")
    assert control.completions == {}
    assert (page.form.prompt.toPlainText(), page.form.sparse_spec(None)) == ("typed", form.sparse_spec(None))
