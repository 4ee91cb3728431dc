"""Panel of a plot: its choices in a row, the plot, and a line that reads values."""

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from wina_app.plots.data_plot import DataPlot
from wina_app.style.theme import GRID
from wina_app.widgets.boxes import vbox
from wina_app.widgets.controls import ElidedLabel, beside, text_label
from wina_app.widgets.help_button import HelpButton


class PlotPanel(QWidget):
    """Choices in a row, the plot, and a line that reads values."""

    def __init__(self, choices: Sequence[tuple[str, QWidget]], content: QWidget, term: str = "") -> None:
        super().__init__()
        self.note = text_label("", "muted")
        self.readout = ElidedLabel("muted")
        self.readout.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        row: list[QWidget] = []
        for caption, box in choices:
            label = text_label(caption, "muted")
            label.setBuddy(box)
            row += [label, box]
        if term:
            row.append(HelpButton(term))
        vbox(self, beside(*row, self.note), (content, 1), self.readout, margins=(2 * GRID, GRID, 2 * GRID, GRID))
        if isinstance(content, DataPlot):
            content.readout_changed.connect(self.readout.setText)

    def show_notes(self, *notes: str) -> None:
        self.note.setText("   ".join(filter(None, notes)))


def left_out_note(count: int) -> str:
    """Say how many lines or bars are not drawn; empty for none."""
    if not count:
        return ""
    return f"{count:,} more are left out: narrow the table with its filter to see them."
