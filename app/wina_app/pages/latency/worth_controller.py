"""Controller of "Will it pay here?": read timings and imported peers, and measure what is missing."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from PySide6.QtCore import QObject, QTimer

from wina_app.pages.latency.worth_table import WORTH_COLUMNS, WorthEntry, worth_entries
from wina_app.services.workbench import Workbench
from wina_app.shared.message_view import MessageView
from wina_app.style.translation import tr
from wina_app.widgets.table_model import RowTable
from wina_core.analysis.comparison.worth import WorthRow, is_on, missing_specs, worth_rows
from wina_core.errors import WinaError
from wina_core.jobs import DecodeJob
from wina_core.specs.latency import DecodeSpec

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import Store


_PAUSE_MS = 300
"""Pause between two readings of the store while points arrive."""


class WorthView(Protocol):
    """The panel as its controller sees it."""

    def show_state(self, note: str, *, missing: bool, reason: str) -> None:
        """Show a sentence on the rows, and whether anything can be measured; `reason` says why not."""


class WorthController(QObject):
    """Controller of the table, which is shared with the view."""

    def __init__(self, workbench: Workbench, view: WorthView, messages: MessageView) -> None:
        super().__init__()
        self.table = RowTable(WORTH_COLUMNS)
        self._workbench, self._view, self._messages = workbench, view, messages
        self._rows: list[WorthRow] = []
        self._visible = False
        self._pause = QTimer(self, singleShot=True, interval=_PAUSE_MS)
        self._pause.timeout.connect(self._read_if_visible)
        workbench.stopped.connect(self._pause.stop)
        workbench.results_changed.connect(self._on_results)
        workbench.environment_changed.connect(self._show)
        workbench.machines.changed.connect(self._show)
        for change in (workbench.jobs.added, workbench.jobs.ended):
            change.connect(lambda *_: self._show())
        self._show()

    def set_visible(self, visible: bool) -> None:
        """Read the store while the page is shown."""
        self._visible = visible
        self._read_if_visible()

    def read(self) -> None:
        """Read the store again."""

        def question(store: "Store") -> list[WorthRow]:
            return worth_rows(store.decode_rows(), store.imports())

        self._workbench.store.ask(question, self._answer, self._messages.show_error)

    def measure(self, rows: Sequence[int]) -> None:
        """Queue what these rows of the table miss, or all rows if none is named, on this machine alone."""
        entries = self.table.shown
        chosen = [entries[at].row for at in rows] if rows else self._rows
        for spec in self._missing(chosen):
            self._submit(spec)

    def export(self, path: Path) -> None:
        """Write the table as shown; the suffix names the format."""
        try:
            self.table.write(path)
        except WinaError as error:
            self._messages.show_error(str(error))
        else:
            self._messages.show_saved(path)

    def _on_results(self) -> None:
        if not self._pause.isActive():
            self._pause.start()

    def _read_if_visible(self) -> None:
        if self._visible:
            self.read()

    def _submit(self, spec: DecodeSpec) -> None:
        def answer(stored: dict[str, tuple[str, ...]]) -> None:
            title = tr("Will it pay: {configuration}", configuration=spec.configuration.label)
            self._workbench.submit(DecodeJob(spec=spec, stored=stored), title)

        self._workbench.store.ask(lambda store: store.measured_points(spec.hashes()), answer, self._messages.show_error)

    def _answer(self, rows: list[WorthRow]) -> None:
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
        entries: list[WorthEntry] = worth_entries(self._rows)
        self.table.set_entries(entries)
        local_count = sum(map(self._is_here, self._rows))
        note = tr("{n} configurations timed here", "{n} configuration timed here", local_count)
        if remote_count := len(self._rows) - local_count:
            note += tr(", {others} on other machines, named in the last column", others=remote_count)
        missing = bool(self._missing(self._rows))
        none = tr("Measure the decoding of a configuration first; the button at the top right does")
        reason = tr("All parts are measured or queued") if local_count else none
        self._view.show_state(note, missing=missing, reason=reason)
