"""View of "Will it pay here?": the table of verdicts, and the button that measures what it misses."""

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from wina_app.style.translation import tr
from wina_app.widgets.boxes import vbox
from wina_app.widgets.controls import ElidedLabel, beside, explain_disabled, push_button
from wina_app.widgets.help_button import HelpButton
from wina_app.widgets.table_model import RowTable
from wina_app.widgets.table_view import RowTableView


class WorthPanel(QWidget):
    """One row for each timed configuration, those of this machine first."""

    measure_requested = Signal(list)
    """Rows of the table; none for all."""

    def __init__(self) -> None:
        super().__init__()
        self.note = ElidedLabel("muted")
        self.measure = push_button(tr("Measure what is missing"), self._measure)
        self.table = RowTableView(tr("Will it pay here?"))
        self.table.addAction(tr("Measure what is missing"), self._measure)
        bar = beside(self.note, HelpButton("Verdict"), self.measure, stretch=self.note)
        vbox(self, bar, (self.table, 1))

    def connect_to(self, table: RowTable) -> None:
        """Show the controller's table."""
        self.table.show_table(table)

    def show_state(self, note: str, *, missing: bool, reason: str) -> None:
        """Show a sentence on the rows, and whether anything can be measured; `reason` says why not."""
        self.note.setText(note)
        tip = tr("Batches 1, 2, 4, 8 and 0 %, for the selected rows of this machine, or all")
        explain_disabled(self.measure, enabled=missing, reason=reason, explanation=tip)

    def _measure(self) -> None:
        self.measure_requested.emit(self._chosen())

    def _chosen(self) -> Sequence[int]:
        return self.table.selected_rows()
