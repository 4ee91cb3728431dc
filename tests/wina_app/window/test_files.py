"""Paths that cannot be opened are refused in a sentence, and another database is merged into the open one."""

import os
from pathlib import Path

import pytest
from wina_app.services.workbench import Workbench
from wina_app.window.files import DatabaseMerge, kind_of
from wina_app.window.messages import MessageWindow

from tests.wina_app.fakes import FakeStoreThread, Recorded, make_workbench
from tests.wina_core.samples import run, study, unit
from wina_core.errors import WinaError
from wina_core.store import Store


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_what_cannot_be_read_is_refused_and_keeps_nobody_waiting(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name, reason in (
        ("pipe.json", r"pipe.json.* is neither a file nor a folder"),
        ("nul\0byte.json", "cannot be opened"),
        ("n" * 300, "cannot be opened"),
        ("loop", r"loop.* cannot be opened"),
    ):
        with pytest.raises(WinaError, match=reason):
            kind_of(tmp_path / name)


def test_gguf_files_and_folders_with_one_are_models(tmp_path: Path):
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    assert kind_of(tmp_path / "model.gguf") == "model"
    assert kind_of(tmp_path) == "model"


@pytest.fixture
def other(tmp_path: Path) -> Path:
    with Store(tmp_path / "other.sqlite") as store:
        store.save_study(study(), (run(),))
        store.record_unit(unit(run()))
    return tmp_path / "other.sqlite"


@pytest.fixture
def opened(tmp_path: Path) -> tuple[Workbench, FakeStoreThread, Recorded, DatabaseMerge]:
    workbench, _, store = make_workbench(tmp_path)
    view = Recorded(MessageWindow)
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
