""" "Will it pay here?" on the Latency page: the table of verdicts, its panel and its controller."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from wina_app.services.workbench import Workbench
from wina_app.shared.store_reading import StoreReading
from wina_app.style.number_format import plural
from wina_app.widgets.base_page import Page
from wina_app.widgets.boxes import vbox
from wina_app.widgets.controls import ElidedLabel, beside, explain_disabled, push_button
from wina_app.widgets.help_button import HelpButton
from wina_app.widgets.table_model import Column, RowTable, TableEntry, Value
from wina_app.widgets.table_view import RowTableView
from wina_core.analysis.comparison.worth import COLUMNS, WorthRow, is_on, missing_specs, table_row, worth_rows
from wina_core.jobs import DecodeJob
from wina_core.records.texts import UNKNOWN
from wina_core.specs.latency import DecodeSpec

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import Store

_COLUMNS = (
    ("model", 11, ""),
    ("bits", 7, ""),
    ("rotation", 10, ""),
    ("method", 10, ""),
    ("sparsity", 0, ""),
    ("verdict", 50, "The worse of dense and peer decides; pays if the whole range of the ratio is above 1"),
    ("vs dense", 0, "Decoding of one sequence over the fastest dense decoding in the same bits"),
    ("vs peer", 0, "Decoding of one sequence over the imported peer's"),
    ("pays up to batch", 20, "Largest measured batch up to which gating pays for every measured one"),
    ("tokens/s", 0, ""),
    ("dense tokens/s", 0, ""),
    ("prompt tokens/s", 0, "Tokens of the prompt, until the first new token"),
    ("vs dense prompt", 0, "The same over the dense model's"),
    ("held MB", 0, "Weights, norms and low-rank parts of the gated model"),
    ("dense held MB", 0, ""),
    ("peak MB", 0, "Largest memory while it decoded: of the process, or of the GPU"),
    ("measured", 0, ""),
    ("fastest dense", 16, "PyTorch's dense model, or our kernels at 0 %"),
    ("imported peer", 30, "The fastest imported point of this model, on this machine and in the same bits"),
    ("peer tokens/s", 0, ""),
    ("missing", 20, "Parts that were not measured"),
    ("machine", 30, ""),
)
"""Name, width in digits and explanation of each column; numbers are as wide as their titles."""
_PERCENT = ("sparsity", "measured")


def _cell(name: str) -> Callable[[WorthRow], Any]:
    at = COLUMNS.index(name)
    scale = 100.0 if name in _PERCENT else 1.0

    def value(row: WorthRow) -> Value:
        cell: Value = table_row(row)[at]
        return scale * cell if isinstance(cell, float) else cell

    return value


def _column(name: str, width: int, explanation: str) -> Column:
    value = _cell(name)

    def text(row: WorthRow) -> str:
        cell = value(row)
        return UNKNOWN if cell is None else f"{cell:.4g}" if isinstance(cell, float) else str(cell)

    title = f"{name} %" if name in _PERCENT else name
    return Column(name, title, value, text, not width, width or max(8, len(title)), explanation)


WORTH_COLUMNS = tuple(_column(*column) for column in _COLUMNS)


class WorthEntry(TableEntry):
    """A configuration on a machine."""

    columns = WORTH_COLUMNS
    row: WorthRow


class WorthPanel(QWidget):
    """One row for each timed configuration, those of this machine first."""

    measure_requested = Signal(list)
    """Rows of the table; none for all."""

    def __init__(self) -> None:
        super().__init__()
        self.note = ElidedLabel("muted")
        self.measure = push_button("Measure what is missing", self._measure)
        self.table = RowTableView("Will it pay here?")
        self.table.addAction("Measure what is missing", self._measure)
        bar = beside(self.note, HelpButton("Verdict"), self.measure, stretch=self.note)
        vbox(self, bar, (self.table, 1))

    def show_state(self, note: str, *, missing: bool, reason: str) -> None:
        """Show a sentence on the rows, and whether anything can be measured; `reason` says why not."""
        self.note.setText(note)
        tip = "Batches 1, 2, 4, 8 and 0 %, for the selected rows of this machine, or all"
        explain_disabled(self.measure, enabled=missing, reason=reason, explanation=tip)

    def _measure(self) -> None:
        self.measure_requested.emit(self.table.selected_rows())


class WorthController(QObject):
    """Controller of the table, which is shared with the view."""

    def __init__(self, workbench: Workbench, view: WorthPanel, messages: Page) -> None:
        super().__init__()
        self.table = RowTable(WORTH_COLUMNS)
        self._workbench, self._view, self._messages = workbench, view, messages
        self._rows: list[WorthRow] = []
        self.reading = StoreReading(workbench, self.read, self)
        workbench.environment_changed.connect(self._show)
        workbench.machines.changed.connect(self._show)
        for change in (workbench.jobs.added, workbench.jobs.ended):
            change.connect(lambda *_: self._show())
        self._show()

    def read(self) -> None:
        def question(store: "Store") -> list[WorthRow]:
            return worth_rows(store.decode_rows(), store.imports())

        self._workbench.store.ask(question, self._answer, self._messages.show_error)

    def measure(self, rows: Sequence[int]) -> None:
        """Queue what these rows of the table miss, or all rows if none is named, on this machine alone."""
        entries = self.table.shown
        chosen = [entries[at].row for at in rows] if rows else self._rows
        for spec in self._missing(chosen):
            self._submit(spec)

    def _submit(self, spec: DecodeSpec) -> None:
        def answer(stored: dict[str, tuple[str, ...]]) -> None:
            title = f"Will it pay: {spec.configuration.label}"
            self._workbench.submit(DecodeJob(spec=spec, stored=stored), title)

        self._workbench.store.ask(lambda store: store.measured_points(spec.hashes()), answer, self._messages.show_error)

    def _answer(self, rows: list[WorthRow]) -> None:
        # Rows of this machine first, in the same order otherwise: the sort is stable.
        self._rows = sorted(rows, key=lambda row: not self._is_here(row))
        self._show()

    def _is_here(self, row: WorthRow) -> bool:
        environment = self._workbench.timing_environment(row.machine[0], self._workbench.machines.chosen)
        return environment is not None and is_on(row, environment)

    def _missing(self, rows: Sequence[WorthRow]) -> list[DecodeSpec]:
        """Return the sweeps that this machine's rows miss and that no job measures."""
        active = [entry.job.spec for entry in self._workbench.jobs.active if isinstance(entry.job, DecodeJob)]
        return [spec for spec in missing_specs(filter(self._is_here, rows)) if spec not in active]

    def _show(self) -> None:
        self.table.set_entries([WorthEntry((*row.machine, row.row.point), row) for row in self._rows])
        local_count = sum(map(self._is_here, self._rows))
        note = plural(local_count, "configurations timed here", "configuration timed here")
        if remote_count := len(self._rows) - local_count:
            note += f", {remote_count} on other machines, named in the last column"
        missing = bool(self._missing(self._rows))
        none = "Measure the decoding of a configuration first; the button at the top right does"
        reason = "All parts are measured or queued" if local_count else none
        self._view.show_state(note, missing=missing, reason=reason)
