"""Results of other tools in the window: previewed, confirmed, listed, removed; a faulty file stores nothing."""

import csv
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QMessageBox
from wina_app.pages.results import make_page
from wina_app.pages.results.imports import ImportsController, ImportsDialog, offer_imports
from wina_app.pages.results.plots.tabs import ResultsPlots

from tests.wina_app.fakes import FakeStoreThread, Recorded, make_workbench
from wina_core.store import Store

DATA = Path(__file__).parents[3] / "wina_core" / "store" / "imported" / "data"


@pytest.fixture
def bench(tmp_path, qapp):  # noqa: ARG001 - signals need an application
    store = FakeStoreThread(Store(tmp_path / "results.sqlite"))
    view = Recorded(ImportsDialog, ask_remove=True)
    yield ImportsController(store, view), view, store.store
    store.store.close()


def previewed(view):
    return [stored.content.file for stored in view.last("show_preview")]


def test_files_are_stored_once_they_are_confirmed(bench):
    controller, view, store = bench
    controller.choose([DATA / "bench.json", DATA / "kl.log"], "demo")
    assert previewed(view) == ["bench.json", "kl.log"]
    (remark,) = view.named("show_preview")["remarks"]
    assert remark.startswith("bench.json: 1 test of a prompt and generation together")
    assert store.imports() == []
    controller.confirm()
    assert previewed(view) == []
    assert [stored.content.file for stored in view.last("show_imports")] == ["kl.log", "bench.json"]


def test_a_discarded_preview_is_not_stored(bench):
    controller, view, store = bench
    controller.choose([DATA / "kl.log"], "demo")
    controller.discard()
    controller.confirm()
    assert (previewed(view), store.imports()) == ([], [])


@pytest.mark.parametrize(
    ("file", "model", "sentence"),
    [
        ("table.csv", "", "Name the model"),
        ("missing.csv", "demo", "cannot be read"),
        ("kl.log", "/nowhere", "/nowhere"),
    ],
)
def test_what_cannot_be_imported_is_said_and_not_previewed(bench, file, model, sentence):
    controller, view, _ = bench
    controller.choose([DATA / "kl.log"], "demo")
    controller.choose([DATA / file], model)
    assert sentence in view.last("show_error")
    assert previewed(view) == []


def test_removal_asks_and_names_the_files(bench):
    controller, view, store = bench
    controller.choose([DATA / "bench.json", DATA / "kl.log"], "demo")
    controller.confirm()
    view.returns(ask_remove=False)
    controller.remove([1])
    assert view.last("ask_remove") == "bench.json"
    assert len(store.imports()) == 2
    view.returns(ask_remove=True)
    controller.remove([1])
    assert [stored.content.file for stored in view.last("show_imports")] == ["kl.log"]


def test_the_list_is_exported_marked_as_imported(bench, tmp_path):
    controller, view, _ = bench
    controller.choose([DATA / "bench.json"], "demo")
    controller.confirm()
    controller.export(tmp_path / "peers.csv")
    rows = list(csv.DictReader((tmp_path / "peers.csv").open()))
    assert [(row["imported"], row["file"]) for row in rows] == [("True", "bench.json")] * 2
    assert view.last("show_saved") == tmp_path / "peers.csv"


def test_the_dialog_goes_from_files_to_the_list_and_back(qtbot, tmp_path, monkeypatch):
    workbench, _, store = make_workbench(tmp_path)
    page = make_page(workbench.store, ResultsPlots())
    qtbot.addWidget(page)
    offer_imports(workbench, page)
    page.imports.click()
    (dialog,) = page.findChildren(ImportsDialog)
    assert dialog.model.currentText() == "demo"
    assert dialog.nothing.isVisible()
    files = [str(DATA / "bench.json"), str(DATA / "kl.log")]
    monkeypatch.setattr(QFileDialog, "getOpenFileNames", lambda *_: (files, ""))
    dialog.choose.click()
    assert dialog.confirm.text() == "Import 3 points"
    assert dialog.preview.model().rowCount() == 3
    dialog.confirm.click()
    assert dialog.table.model().rowCount() == 3
    assert not dialog.confirm.isVisible()
    dialog.choose.click()
    assert "was imported already" in dialog.error.text()
    monkeypatch.setattr(QMessageBox, "question", lambda *_: QMessageBox.StandardButton.Yes)
    dialog.table.clearSelection()
    qtbot.mouseClick(dialog.remove, Qt.MouseButton.LeftButton)
    assert "Select rows" in dialog.error.text()
    dialog.table.selectRow(0)
    dialog.remove.click()
    assert dialog.table.model().rowCount() == 2
    dialog.close()
    store.store.close()
