"""Merge of another database into the open one from the menu."""

from collections.abc import Callable
from pathlib import Path

import pytest
from wina_app.services.workbench import Workbench
from wina_app.window.database_merge import DatabaseMerge, DatabaseMergeView

from tests.wina_app.fakes import FakeStoreThread, Recorded, make_workbench
from tests.wina_core.samples import run, study, unit
from wina_core.store import Store


@pytest.fixture
def other(tmp_path: Path) -> Path:
    with Store(tmp_path / "other.sqlite") as store:
        store.save_study(study(), (run(),))
        store.record_unit(unit(run()))
    return tmp_path / "other.sqlite"


@pytest.fixture
def opened(tmp_path: Path) -> tuple[Workbench, FakeStoreThread, Recorded, DatabaseMerge]:
    workbench, _, store = make_workbench(tmp_path)
    view = Recorded(DatabaseMergeView)
    merging = DatabaseMerge(workbench, view)
    store.opened.emit(store.store)
    return workbench, store, view, merging


def test_another_database_is_merged_and_the_pages_read_again(opened, other: Path, qtbot) -> None:
    workbench, store, view, merging = opened
    with qtbot.waitSignal(workbench.results_changed):
        merging.merge_from(other)
    assert len(store.store.metric_rows()) == 1
    assert (view.calls("say"), view.calls("show_failure")) == (["Merged"], [])
    assert len(view.calls("end_progress")) == 1


def test_a_cancelled_merge_says_nothing_and_another_one_may_follow(opened, other: Path) -> None:
    _, store, view, merging = opened

    class Impatient(Recorded):
        def show_progress(self, _word: str, _text: str, cancel: Callable[[], object]) -> None:
            cancel()

    impatient = Impatient(DatabaseMergeView)
    merging._view = impatient
    merging.merge_from(other)
    assert (impatient.calls("say"), impatient.calls("show_failure")) == ([], [])
    merging._view = view
    merging.merge_from(other)
    assert len(store.store.metric_rows()) == 1
