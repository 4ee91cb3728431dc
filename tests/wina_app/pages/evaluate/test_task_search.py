"""Finding tasks among all of lm-eval's: the index that is read or built, the list under what is typed."""

import sys

import pytest
from PySide6.QtCore import Qt
from wina_app.pages.evaluate.controller import BUILDING, EvaluateController, TaskIndexing
from wina_app.pages.evaluate.page import EvaluatePage
from wina_app.pages.evaluate.tasks_panel import TaskSearch
from wina_app.services.side_process import SideProcess

from tests.wina_app.fakes import is_running, make_workbench
from wina_core.studies.tasks.index import TaskEntry, TaskIndex, save_index

ENTRIES = (
    TaskEntry("arc_easy", "task", "multiple_choice", "arc/arc_easy.yaml"),
    TaskEntry("mmlu", "group", "", ""),
    TaskEntry("piqa", "task", "multiple_choice", "piqa/piqa.yaml"),
    TaskEntry("piqa_ar", "task", "multiple_choice", ""),
)
WRITE = f"""
from wina_core.studies.tasks.index import TaskEntry, TaskIndex, save_index
save_index(TaskIndex(tuple(TaskEntry(*row) for row in {[tuple(entry) for entry in ENTRIES]!r})))
"""


@pytest.fixture
def store(tmp_path, qapp):  # noqa: ARG001 - signals need an application
    workbench, _, store = make_workbench(tmp_path)
    store.workbench = workbench
    yield store
    store.store.close()


def indexing(store, program):
    return TaskIndexing(store, (sys.executable, "-c", program))


def test_a_kept_index_is_read_without_a_process(store):
    save_index(TaskIndex(ENTRIES))
    found = indexing(store, "raise SystemExit('not needed')")
    found.ask()
    assert found.index.entries == ENTRIES
    assert found.remark == ""


def test_without_an_index_a_process_of_its_own_builds_it_and_a_line_says_so(store, qtbot):
    found, remarks = indexing(store, WRITE), []
    found.changed.connect(lambda: remarks.append(found.remark))
    found.ask()
    found.ask()
    qtbot.waitUntil(lambda: found.index is not None)
    assert remarks == [BUILDING, ""]


@pytest.mark.parametrize("command", [("-c", "raise SystemExit('no lm-eval here')"), None])
def test_a_process_that_fails_is_told_and_tried_again_when_asked_again(store, qtbot, command):
    program = (sys.executable, *command) if command else ("/nowhere/python",)
    found = TaskIndexing(store, program)
    found.ask()
    qtbot.waitUntil(lambda: "could not be indexed" in found.remark)
    assert "type any name" in found.remark
    save_index(TaskIndex(ENTRIES))
    found.ask()
    assert found.index is not None


def test_closing_the_window_ends_the_process(store, qtbot):
    found = indexing(store, "import time; time.sleep(600)")
    found.ask()
    (process,) = found.findChildren(SideProcess)
    qtbot.waitUntil(lambda: is_running(process))
    found.stop()
    assert not is_running(process)


@pytest.fixture
def search(qtbot):
    edit = TaskSearch()
    qtbot.addWidget(edit)
    with qtbot.waitActive(edit):
        edit.show()
    edit.setFocus()
    return edit


def test_what_is_typed_is_looked_for_once_the_hand_rests(search, qtbot):
    with qtbot.waitSignal(search.search_requested) as asked:
        qtbot.keyClicks(search, "mmlu, pi")
    assert asked.args == ["pi"], "the last of several"


def test_a_task_that_was_found_is_chosen_by_keyboard_with_its_kind_beside_it(search, qtbot):
    qtbot.keyClicks(search, "mmlu, pi")
    search.show_matches(ENTRIES[2:])
    assert search.popup.isVisible()
    assert search.matches() == ["piqa", "piqa_ar"]
    assert search.popup.model().index(0, 1).data() == "multiple choice"
    with qtbot.waitSignal(search.chosen) as chosen:
        qtbot.keyClick(search.popup, Qt.Key.Key_Down)
        qtbot.keyClick(search.popup, Qt.Key.Key_Return)
    assert chosen.args == [["mmlu", "piqa"]]
    qtbot.waitUntil(lambda: search.text() == "")
    assert not search.popup.isVisible()


def test_any_name_can_be_typed(search, qtbot):
    qtbot.keyClicks(search, "my_task, other")
    search.show_matches(ENTRIES)
    with qtbot.waitSignal(search.chosen) as chosen:
        qtbot.keyClick(search.popup, Qt.Key.Key_Return)
    assert chosen.args == [["my_task", "other"]]


def test_the_page_finds_and_ticks_a_task(store, qtbot):
    save_index(TaskIndex(ENTRIES))
    page = EvaluatePage()
    qtbot.addWidget(page)
    controller = EvaluateController(store.workbench, page)
    page.search_requested.connect(controller.search)
    with qtbot.waitActive(page):
        page.show()
    page.show_content()
    edit = page.tasks.search
    edit.setFocus()
    qtbot.keyClicks(edit, "piqa")
    qtbot.waitUntil(lambda: edit.matches() == ["piqa", "piqa_ar"])
    edit.take()
    assert "piqa" in page.choice().tasks
