"""Import of results of other tools: a dialog beside the window, not modal."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QDialog, QFileDialog, QMessageBox, QWidget

from wina_app.services.store_thread import StoreThread
from wina_app.services.workbench import Workbench
from wina_app.style.number_format import plural
from wina_app.style.theme import GRID, scaled
from wina_app.widgets.boxes import STRETCH, hbox, vbox
from wina_app.widgets.combo_box import ComboBox
from wina_app.widgets.controls import beside, explain_disabled, push_button, text_label
from wina_app.widgets.table_model import Column, RowTable, TableEntry, Value
from wina_app.widgets.table_view import RowTableView, ask_table_file
from wina_core.files.tables import write_table
from wina_core.records.imports import StoredImport
from wina_core.records.texts import UNKNOWN
from wina_core.store.imported.metrics import FIXED, METRICS, import_rows

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_app.pages.results.page import ResultsPage
    from wina_core.store import Store
    from wina_core.store.imported.candidate import Candidate

_FIRST = ("name", "model", "file", "date")
_LAST = ("tool", "version", "hardware", "settings", "date of", "imported")
_WIDTHS = {"name": 24, "model": 12, "file": 18, "date": 10, "settings": 40, "hardware": 24, "version": 18}
_LARGE = 1e4
_EXPLAINED = {
    "date": "Of the measurement, or of the import where the file states none",
    "imported": "Marks these points wherever they are joined with measured ones",
    **{metric.column: f"{metric.meaning} ({metric.unit})" for metric in METRICS.values()},
}


def imports_table(imports: Sequence[StoredImport]) -> RowTable:
    """Return the points of all files, the last imported first; a row is (import, cells)."""
    names, rows = import_rows(imports)
    metrics = [name for name in names if name not in FIXED]
    columns = tuple(_column(name, names.index(name), name in metrics) for name in (*_FIRST, *metrics, *_LAST))
    table = RowTable(columns)
    # Entries read the columns from their class, and these depend on the imported metrics.
    kind = type("ImportEntry", (TableEntry,), {"columns": columns})
    table.set_entries(kind((str(number),), cells) for number, cells in enumerate(rows))
    return table


def _column(name: str, at: int, numeric: bool) -> Column:
    def value(cells: Sequence[Any]) -> Value:
        cell: Value = cells[at]
        return cell

    def text(cells: Sequence[Any]) -> str:
        cell = cells[at]
        if cell is None:
            return UNKNOWN
        if isinstance(cell, bool):
            return "yes" if cell else "no"
        return (f"{cell:,.0f}" if abs(cell) >= _LARGE else f"{cell:.4g}") if isinstance(cell, float) else str(cell)

    return Column(name, name, value, text, numeric, _WIDTHS.get(name, 9), _EXPLAINED.get(name, ""))


_NOTHING = (
    "Nothing is imported. Choose results of llama-bench (JSON, JSONL, CSV), llama-perplexity with --kl-divergence, "
    "lm-eval, or a CSV table; Help, Files, lists its columns."
)


class ImportsDialog(QDialog):
    """Preview of chosen files above the list of imported points; nothing is stored before it is confirmed."""

    saved = Signal(Path)

    def __init__(self, store: StoreThread, parent: QWidget) -> None:
        super().__init__(parent)
        self._store = store
        self._candidates: tuple[Candidate, ...] = ()
        self._imports: list[StoredImport] = []
        self.setWindowTitle("Results of other tools")
        self.resize(scaled(130 * GRID), scaled(72 * GRID))
        self.model = ComboBox("Measured model")
        self.model.setEditable(True)
        self.model.setMinimumWidth(scaled(40 * GRID))
        self.choose = push_button("Choose files…", self._choose)
        self.error = text_label("", "failed", wrap=True)
        self.heading = text_label("", wrap=True)
        self.remarks = text_label("", "muted", wrap=True)
        self.preview = RowTableView("Preview of the chosen files")
        self.confirm = push_button("Import", self._confirm, role="primary")
        self.discard = push_button("Discard", self._discard)
        self._offer = QWidget()
        vbox(
            self._offer,
            text_label("Preview", "section"),
            self.heading,
            (self.preview, 1),
            self.remarks,
            hbox(None, STRETCH, self.discard, self.confirm),
        )
        self.nothing = text_label(_NOTHING, "muted", wrap=True)
        self.table = RowTableView("Imported points")
        self.remove = push_button("Remove files…", self._remove, name="Remove the files of the selected rows")
        self.export = push_button("Export…", self._export, name="Export the imported points")
        for text, do in (("Remove files…", self._remove), ("Export…", self._export)):
            self.table.addAction(text, do)
        caption = text_label("Measured model", "muted")
        caption.setBuddy(self.model)
        note = "Imported points are marked everywhere, and enter no statistic, comparison or ranking."
        close = push_button("Close", self.close)
        vbox(
            self,
            beside(caption, self.model, self.choose),
            self.error,
            (self._offer, 2),
            text_label("Imported", "section"),
            self.nothing,
            (self.table, 3),
            hbox(None, text_label(note, "muted"), STRETCH, self.remove, self.export, close),
            margins=(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID),
        )
        self._discard()
        self._show_imports([])

    def read(self) -> None:
        """Read the imported points again."""
        self._store.ask(lambda store: store.imports(), self._show_imports, self._show_error)

    def offer_models(self, locations: Sequence[str]) -> None:
        """Offer models to match files to, the first by default."""
        self.model.fill([(location, location) for location in locations], next(iter(locations), None))

    def _show_error(self, text: str) -> None:
        """Show why files cannot be imported; empty for no error."""
        self.error.setText(text)
        self.error.setVisible(bool(text))

    def _choose(self) -> None:
        """Check chosen files as results on the named model, and preview them."""
        kinds = "Results (*.json *.jsonl *.csv *.log *.txt);;All files (*)"
        chosen, _ = QFileDialog.getOpenFileNames(self, "Choose results of other tools", "", kinds)
        if not chosen:
            return
        self._discard()
        files, location = [Path(file) for file in chosen], self.model.currentText().strip()
        if not location:
            self._show_error("Name the model that was measured: a folder, a Hugging Face id, or demo.")
            return

        def question(store: "Store") -> "tuple[Candidate, ...]":
            from wina_core.store.imported.candidate import read_candidates

            return read_candidates(store, files, location)

        self._store.ask(question, self._preview, self._show_error)

    def _preview(self, candidates: "tuple[Candidate, ...]") -> None:
        """Show what would be imported; none hides the preview."""
        self._candidates = candidates
        self._offer.setVisible(bool(candidates))
        if not candidates:
            return
        previews = [candidate.preview for candidate in candidates]
        self.preview.show_table(imports_table(previews))
        points = plural(sum(len(preview.content.points) for preview in previews), "points", "point")
        files = "; ".join(
            f"{preview.content.file} ({preview.content.tool} {preview.content.version})" for preview in previews
        )
        self.heading.setText(f"{files}, as results on {previews[0].model}")
        remarks = [f"{candidate.file.file}: {remark}" for candidate in candidates for remark in candidate.remarks]
        self.remarks.setText("\n".join(remarks))
        self.remarks.setVisible(bool(remarks))
        self.confirm.setText(f"Import {points}")
        self.confirm.setFocus()

    def _discard(self) -> None:
        self._show_error("")
        self._preview(())

    def _confirm(self) -> None:
        """Store the previewed files."""
        candidates = self._candidates

        def question(store: "Store") -> list[StoredImport]:
            for candidate in candidates:
                store.record_import(candidate.file, candidate.model)
            return store.imports()

        def answer(imports: list[StoredImport]) -> None:
            self._discard()
            self._show_imports(imports)

        self._store.ask(question, answer, self._show_error)

    def _show_imports(self, imports: list[StoredImport]) -> None:
        self._imports = imports
        self.nothing.setVisible(not imports)
        self.table.setVisible(bool(imports))
        self.table.show_table(imports_table(imports))
        for button in (self.remove, self.export):
            explain_disabled(button, enabled=bool(imports), reason="Nothing is imported")

    def _remove(self) -> None:
        """Remove the files of the selected rows after a question."""
        entries = self.table.model().shown
        numbers = list(dict.fromkeys(entries[row].row[0] for row in self.table.selected_rows()))
        self._show_error("" if numbers else "Select rows of the files to remove.")
        names = ", ".join(stored.content.file for stored in self._imports if stored.id in numbers)
        text = f"Remove {names} with all points? The files themselves stay where they are."
        yes = QMessageBox.StandardButton.Yes
        if not names or QMessageBox.question(self, "Remove imported results", text) != yes:
            return

        def question(store: "Store") -> list[StoredImport]:
            store.remove_imports(numbers)
            return store.imports()

        self._store.ask(question, self._show_imports, self._show_error)

    def _export(self) -> None:
        path = ask_table_file(self, "imported")
        if path is not None:
            table = import_rows(self._imports)
            # On the store's thread, so that the window does not wait for a disk.
            self._store.ask(lambda _: write_table(*table, path), lambda _: self.saved.emit(path), self._show_error)


def offer_imports(workbench: Workbench, page: "ResultsPage") -> None:
    """Open the dialog when the page asks for it; make it the first time."""

    @cache
    def opened() -> ImportsDialog:
        dialog = ImportsDialog(workbench.store, page)
        dialog.saved.connect(page.show_saved)
        # A hidden dialog reads the imports when it is shown.
        workbench.results_changed.connect(lambda: dialog.read() if dialog.isVisible() else None)
        return dialog

    def show() -> None:
        dialog, source = opened(), workbench.workspace.source
        current = () if source is None else (source.location,)
        dialog.offer_models(tuple(dict.fromkeys((*current, *workbench.settings.recent, "demo"))))
        dialog.read()
        dialog.show()
        dialog.raise_()

    page.imports_requested.connect(show)
