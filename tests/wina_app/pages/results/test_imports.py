"""Results of other tools in the window: previewed, confirmed, listed, removed; a faulty file stores nothing."""

import csv
from pathlib import Path

import pytest
from PySide6.QtWidgets import QFileDialog, QMessageBox
from wina_app.pages.results import make_page
from wina_app.pages.results.imports import ImportsDialog, offer_imports
from wina_app.pages.results.plots.tabs import ResultsPlots

from tests.wina_app.fakes import make_workbench

DATA = Path(__file__).parents[3] / "wina_core" / "store" / "imported" / "data"


@pytest.fixture
def dialog(qtbot, tmp_path):
    workbench, _, store = make_workbench(tmp_path)
    page = make_page(workbench.store, ResultsPlots())
    qtbot.addWidget(page)
    offer_imports(workbench, page)
    page.imports.click()
    (opened,) = page.findChildren(ImportsDialog)
    opened.stored = store.store
    yield opened
    opened.close()
    store.store.close()


def choose(dialog, monkeypatch, *files: str) -> None:
    paths = [str(DATA / file) for file in files]
    monkeypatch.setattr(QFileDialog, "getOpenFileNames", lambda *_: (paths, ""))
    dialog.choose.click()


def test_files_are_stored_once_they_are_confirmed_exported_and_removed_after_a_question(dialog, monkeypatch, tmp_path):
    assert dialog.model.currentText() == "demo"
    assert dialog.nothing.isVisible()
    choose(dialog, monkeypatch, "bench.json", "kl.log")
    assert (dialog.confirm.text(), dialog.preview.model().rowCount()) == ("Import 3 points", 3)
    assert dialog.remarks.text().startswith("bench.json: 1 test of a prompt and generation together")
    dialog.discard.click()
    dialog.confirm.click()
    assert dialog.stored.imports() == []
    choose(dialog, monkeypatch, "bench.json", "kl.log")
    dialog.confirm.click()
    assert dialog.table.model().rowCount() == 3
    assert not dialog.confirm.isVisible()
    choose(dialog, monkeypatch, "kl.log")
    assert "was imported already" in dialog.error.text()
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *_: (str(tmp_path / "peers.csv"), ""))
    dialog.export.click()
    rows = list(csv.DictReader((tmp_path / "peers.csv").open()))
    assert [(row["imported"], row["file"]) for row in rows][1:] == [("True", "bench.json")] * 2
    dialog.table.clearSelection()
    dialog.remove.click()
    assert "Select rows" in dialog.error.text()
    dialog.table.selectRow(0)
    for answer, left in ((QMessageBox.StandardButton.No, 2), (QMessageBox.StandardButton.Yes, 1)):
        monkeypatch.setattr(QMessageBox, "question", lambda *_, answer=answer: answer)
        dialog.remove.click()
        assert len(dialog.stored.imports()) == left


@pytest.mark.parametrize(
    ("file", "model", "sentence"),
    [
        ("table.csv", "", "Name the model"),
        ("missing.csv", "demo", "cannot be read"),
        ("kl.log", "/nowhere", "/nowhere"),
    ],
)
def test_what_cannot_be_imported_is_said_and_not_previewed(dialog, monkeypatch, file, model, sentence):
    choose(dialog, monkeypatch, "kl.log")
    dialog.model.setEditText(model)
    choose(dialog, monkeypatch, file)
    assert sentence in dialog.error.text()
    assert not dialog.confirm.isVisible()
