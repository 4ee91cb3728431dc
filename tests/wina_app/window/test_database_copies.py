"""Merges, copies and backups of the open database from the menu."""

from collections.abc import Callable
from pathlib import Path

import pytest
from wina_app.services.workbench import Workbench
from wina_app.window.database_copies import DatabaseCopies, DatabaseCopiesView

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
def opened(tmp_path: Path) -> tuple[Workbench, FakeStoreThread, Recorded, DatabaseCopies]:
    workbench, _, store = make_workbench(tmp_path)
    view = Recorded(DatabaseCopiesView)
    copies = DatabaseCopies(workbench, view)
    store.opened.emit(store.store)
    return workbench, store, view, copies


def test_another_database_is_merged_and_the_pages_read_again(opened, other: Path, qtbot) -> None:
    workbench, store, view, copies = opened
    with qtbot.waitSignal(workbench.results_changed):
        copies.merge_from(other)
    assert len(store.store.metric_rows()) == 1
    assert (view.calls("say"), view.calls("show_failure")) == (["Merged"], [])
    assert len(view.calls("end_progress")) == 1


def test_the_open_database_is_copied_and_backed_up(opened, other: Path, tmp_path: Path) -> None:
    _, _, view, copies = opened
    copies.merge_from(other)
    copies.copy_to(tmp_path / "copy.sqlite")
    copies.back_up(tmp_path / "backup.sqlite")
    assert [path.name for path in view.calls("say_saved")] == ["copy.sqlite", "backup.sqlite"]
    for name in ("copy.sqlite", "backup.sqlite"):
        with Store(tmp_path / name) as store:
            assert len(store.metric_rows()) == 1
    copies.back_up(tmp_path / "backup.sqlite")
    assert "already exists" in view.last("show_failure")


def test_a_cancelled_copy_says_nothing_and_another_one_may_follow(opened, other: Path) -> None:
    _, store, view, copies = opened

    class Impatient(Recorded):
        def show_progress(self, _word: str, _text: str, cancel: Callable[[], object]) -> None:
            cancel()

    impatient = Impatient(DatabaseCopiesView)
    copies._view = impatient
    copies.merge_from(other)
    assert (impatient.calls("say"), impatient.calls("show_failure")) == ([], [])
    copies._view = view
    copies.merge_from(other)
    assert len(store.store.metric_rows()) == 1
