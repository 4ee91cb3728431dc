"""Annotations and deletion of runs, each a step that can be undone."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject
from PySide6.QtGui import QUndoCommand, QUndoStack

from wina_app.pages.results.table import ResultsTable
from wina_app.services.store_thread import StoreThread
from wina_app.style.number_format import plural
from wina_core.records import ACTIVE
from wina_core.store.annotations import RunAnnotations, split_tags

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_app.pages.results.page import ResultsPage
    from wina_core.store import Store


@dataclass(frozen=True)
class RunFacts:
    """Facts of a run in the Inspector."""

    run: str
    annotations: RunAnnotations
    cells: tuple[tuple[str, str], ...]
    """Title and text of the columns on the run."""


class _Deletion:
    """Deletion of runs that can be undone, for the store's thread; only what it deleted itself is restored."""

    def __init__(self, runs: Sequence[str]) -> None:
        self._runs = runs
        self._when: float | None = None

    def do(self, store: "Store") -> None:
        self._when = None  # for as long as the store may refuse
        self._when = store.delete_runs(self._runs)

    def undo(self, store: "Store") -> None:
        if self._when is not None:
            store.restore_runs(self._runs, self._when)


class AnnotationsController(QObject):
    """Controller of annotations; `refresh` reads the store again after a change."""

    def __init__(
        self, store: StoreThread, table: ResultsTable, view: "ResultsPage", refresh: Callable[[], None]
    ) -> None:
        super().__init__()
        self.undo_stack = QUndoStack(self)
        self._store, self._table, self._view, self._refresh = store, table, view, refresh
        store.opened.connect(self.undo_stack.clear)  # what was done was done in another database

    # ---- what is written -----------------------------------------------------------------------------------------

    def annotations(self, runs: Collection[str]) -> dict[str, RunAnnotations]:
        """Return the annotations of the runs; unknown runs have none."""
        details = self._table.cells.details
        if details is None:
            return {}
        stored = details.index.intersection(list(runs))
        written = details.loc[stored, ["tags", "note", "pinned"]].to_numpy(object).tolist()
        return {
            str(run): RunAnnotations(split_tags(tags), note, pinned)
            for run, (tags, note, pinned) in zip(stored, written, strict=True)
        }

    def facts(self, run: str) -> RunFacts | None:
        """Return the facts of a run that is shown; None when it is not."""
        table, annotations = self._table.cells, self.annotations([run])
        rows = table.rows_of_runs([run])
        if not len(rows) or not annotations:
            return None
        cells = ((column.column.title, column.text(rows[0])) for column in table.cells if column.column.key in _OF_RUN)
        return RunFacts(run, annotations[run], tuple((title, text) for title, text in cells if text))

    def set_tags(self, runs: Sequence[str], text: str) -> None:
        """Replace the tags of the runs by those in the text, which has commas between them."""
        self._annotate(runs, "tags", "tags", split_tags(text))

    def set_note(self, runs: Sequence[str], text: str) -> None:
        """Replace the note of the runs."""
        self._annotate(runs, "note", "note", text.strip())

    def toggle_pin(self, runs: Sequence[str]) -> None:
        """Pin the runs, or unpin them if all are pinned."""
        pinned = not all(marks.pinned for marks in self.annotations(runs).values())
        self._annotate(runs, "pin" if pinned else "unpin", "pinned", pinned)

    def _annotate(self, runs: Sequence[str], change: str, field: str, value: Any) -> None:
        """Write a field of the annotations, and of tags only what was added and removed; `change` names the step."""
        before = self.annotations(runs)
        changed = {
            run: marks._replace(**{field: value}) for run, marks in before.items() if getattr(marks, field) != value
        }
        if not changed:
            return
        previous, only = {run: before[run] for run in changed}, (field,)
        # `seen` limits a write to its own changes: other tags may be written meanwhile, here or in another window.
        self._push(
            f"{change} of {plural(len(changed), 'runs', 'run')}",
            lambda store: store.annotate_runs(changed, only, seen=previous),
            lambda store: store.annotate_runs(previous, only, seen=changed),
        )

    # ---- what is deleted -----------------------------------------------------------------------------------------

    def delete(self, runs: Sequence[str]) -> None:
        """Delete the runs with all their rows, so that nothing reuses them until it is undone."""
        runs = list(dict.fromkeys(runs))
        if not runs:
            return
        table = self._table.cells
        run, status = table["hash"], table["status"]
        busy = {run.value(row) for row in table.rows_of_runs(runs) if status.value(row) in ACTIVE}
        if busy:
            self._view.show_error(
                f"{len(busy)} of the {len(runs)} runs wait or are being computed; cancel their job before "
                "deleting them."
            )
            return
        deletion = _Deletion(runs)
        self._push(f"delete {plural(len(runs), 'runs', 'run')}", deletion.do, deletion.undo)
        done = plural(len(runs), "runs are deleted.", "run is deleted.")
        self._view.show_notice(f"{done} Undo brings them back; `wina results purge` erases for good what is deleted.")

    def _push(self, text: str, do: "Callable[[Store], object]", undo: "Callable[[Store], object]") -> None:
        # `push` calls `redo`, which writes for the first time.
        self.undo_stack.push(_UndoableWrite(text, lambda: self._write(do), lambda: self._write(undo)))

    def _write(self, change: "Callable[[Store], object]") -> None:
        self._store.write(change, self._view.show_error)
        self._refresh()  # at once, after the write on the same thread: the store's `changed` is throttled


class _UndoableWrite(QUndoCommand):
    """Write to the store, and the write that takes it back."""

    def __init__(self, text: str, do: Callable[[], None], undo: Callable[[], None]) -> None:
        super().__init__(text)
        self._do, self._undo = do, undo

    def redo(self) -> None:
        self._do()

    def undo(self) -> None:
        self._undo()


_OF_RUN = frozenset(
    {
        *("model", "method", "rotation", "details", "selection", "target", "plan", "settings"),
        *("status", "hardware", "user", "host", "study", "seed", "hash"),
    }
)
"""Columns on a run, not on one of its numbers."""
