"""Controller of the dialog on results of other tools."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from PySide6.QtCore import QObject

from wina_app.services.store_thread import StoreThread
from wina_app.style.translation import tr
from wina_core.files.tables import write_table
from wina_core.records.imports import StoredImport
from wina_core.store.imported.metrics import import_rows

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import Store
    from wina_core.store.imported.candidate import Candidate


class ImportsView(Protocol):
    """The dialog as its controller sees it."""

    def show_error(self, text: str) -> None:
        """Show why files cannot be imported; empty for no error."""

    def show_preview(self, candidates: Sequence[StoredImport], *, remarks: Sequence[str] = ()) -> None:
        """Show what would be imported; none hides the preview."""

    def show_imports(self, imports: Sequence[StoredImport]) -> None:
        """Show all imported points."""

    def show_saved(self, path: Path) -> None:
        """Report a saved file."""

    def ask_remove(self, files: str) -> bool:
        """Ask before files are removed with their points."""


class ImportsController(QObject):
    """Controller between the store and the dialog; nothing is stored before it is confirmed."""

    def __init__(self, store: StoreThread, view: ImportsView) -> None:
        super().__init__()
        self._store, self._view = store, view
        self._candidates: tuple[Candidate, ...] = ()
        self._imports: list[StoredImport] = []

    def read(self) -> None:
        """Read what is imported."""
        self._store.ask(lambda store: store.imports(), self._show, self._view.show_error)

    def choose(self, files: Sequence[Path], location: str) -> None:
        """Check files as results on the model at a location, and preview them."""
        self.discard()
        if not location:
            self._view.show_error(tr("Name the model that was measured: a folder, a Hugging Face id, or demo."))
            return

        def question(store: "Store") -> "tuple[Candidate, ...]":
            from wina_core.store.imported.candidate import read_candidates

            return read_candidates(store, files, location)

        self._store.ask(question, self._preview, self._view.show_error)

    def confirm(self) -> None:
        """Store the previewed files."""
        candidates = self._candidates

        def question(store: "Store") -> list[StoredImport]:
            for each in candidates:
                store.record_import(each.file, each.model)
            return store.imports()

        def answer(imports: list[StoredImport]) -> None:
            self.discard()
            self._show(imports)

        self._store.ask(question, answer, self._view.show_error)

    def discard(self) -> None:
        """Drop the preview."""
        self._candidates = ()
        self._view.show_error("")
        self._view.show_preview(())

    def remove(self, numbers: Sequence[int]) -> None:
        """Remove imported files after a question."""
        names = [each.content.file for each in self._imports if each.id in numbers]
        if not names or not self._view.ask_remove(", ".join(names)):
            return

        def question(store: "Store") -> list[StoredImport]:
            store.remove_imports(numbers)
            return store.imports()

        self._store.ask(question, self._show, self._view.show_error)

    def export(self, path: Path) -> None:
        """Write all imported points; the suffix names the format."""
        table = import_rows(self._imports)
        self._store.ask(
            lambda _: write_table(*table, path), lambda _: self._view.show_saved(path), self._view.show_error
        )

    def _show(self, imports: list[StoredImport]) -> None:
        self._imports = imports
        self._view.show_imports(imports)

    def _preview(self, candidates: "tuple[Candidate, ...]") -> None:
        self._candidates = candidates
        remarks = [f"{each.file.file}: {remark}" for each in candidates for remark in each.remarks]
        self._view.show_preview([each.preview for each in candidates], remarks=remarks)
