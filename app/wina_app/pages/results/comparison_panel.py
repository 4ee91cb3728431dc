"""Panel of the selected runs side by side: tasks x runs with differences, and the differences of their specs."""

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QSplitter, QWidget

from wina_app.pages.results.comparison import (
    LETTERS,
    RunComparison,
    flag_texts,
    heading,
    sparsity_texts,
    sparsity_tips,
)
from wina_app.pages.results.comparison_columns import columns_of, entries, file_rows
from wina_app.pages.results.spec_differences import DifferenceEntry, difference_columns
from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.boxes import STRETCH, vbox
from wina_app.widgets.clear_layout import clear_layout
from wina_app.widgets.combo_box import ComboBox
from wina_app.widgets.controls import ElidedLabel, beside, push_button, side_by_side, stacked, text_label
from wina_app.widgets.flow_layout import FlowLayout
from wina_app.widgets.help_button import HelpButton
from wina_app.widgets.plain_text import plain_tip
from wina_app.widgets.table_model import RowTable
from wina_app.widgets.table_view import RowTableView
from wina_core.files.formulas import neutralized
from wina_core.files.tables import write_table

_SHARES = (75 * GRID, 25 * GRID)
"""Sizes of the tables of differences and of settings, in proportion."""


class ResultsComparison(QWidget):
    """Names of the runs over two tables; Copy takes all of it."""

    reference_chosen = Signal(str)
    export_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.shown: RunComparison | None = None
        self.reference = ComboBox(tr("Reference run"))
        self.reference.activated.connect(lambda: self.reference_chosen.emit(self.reference.currentData()))
        self.heading = ElidedLabel("muted")
        self.copy = push_button(tr("Copy"), self._copy, name=tr("Copy the comparison"))
        self.export = push_button(tr("Export…"), self.export_requested.emit, name=tr("Export the comparison"))
        self._captions = FlowLayout()
        self.remark = text_label("", "muted", wrap=True)
        self.table = RowTableView(tr("Differences by task"))
        self.specs = RowTableView(tr("What differs in the runs' specs"))
        caption = text_label(tr("Reference"), "muted")
        caption.setBuddy(self.reference)
        bar = beside(
            caption,
            self.reference,
            self.heading,
            HelpButton("p"),
            HelpButton("Interval"),
            self.copy,
            self.export,
            stretch=self.heading,
        )
        self._tables = tables = QSplitter(Qt.Orientation.Horizontal)
        tables.setChildrenCollapsible(False)
        tables.addWidget(self.table)
        tables.addWidget(self.specs)
        tables.setStretchFactor(0, 3)
        tables.setStretchFactor(1, 1)
        tables.setSizes(list(_SHARES))
        self._content = QWidget()
        vbox(self._content, bar, self._captions, (tables, 1))
        margins = (2 * GRID, GRID, 2 * GRID, GRID)
        self._column = vbox(self, self.remark, (self._content, 1), STRETCH, margins=margins)
        self.show_comparison(None, "")

    def show_comparison(self, comparison: RunComparison | None, text: str) -> None:
        """Show runs side by side; None for the text alone."""
        self.shown = comparison
        self._content.setVisible(comparison is not None)
        self._column.setStretch(2, 0 if comparison else 1)
        remarks = " ".join(filter(None, (text, *(comparison.remarks if comparison else ()))))
        self.remark.setText(remarks)
        self.remark.setVisible(bool(remarks))
        if comparison is None:
            return
        direction = Qt.Orientation.Horizontal if len(comparison.runs) == 2 else Qt.Orientation.Vertical
        if self._tables.orientation() != direction:  # more runs need all of the width
            self._tables.setOrientation(direction)
            self._tables.setSizes(list(_SHARES))
        named = tuple(zip(LETTERS, comparison.names, strict=False))
        self.reference.fill(tuple(zip(comparison.names, comparison.runs, strict=True)), comparison.runs[0])
        self.heading.setText(heading(comparison))
        self._show_captions(comparison)
        columns = columns_of(comparison)
        self._tasks = RowTable(columns)
        self._tasks.set_entries(entries(comparison, columns))
        self.table.show_table(self._tasks)
        settings = difference_columns(LETTERS[: len(named)])
        self._settings = RowTable(settings)
        self._settings.set_entries([DifferenceEntry(row, settings) for row in comparison.differences])
        self.specs.show_table(self._settings)

    def _show_captions(self, comparison: RunComparison) -> None:
        """Name the runs, each above its sparsities and a warning where they differ from the reference's."""
        clear_layout(self._captions)
        texts = sparsity_texts(comparison), flag_texts(comparison), sparsity_tips(comparison)
        for letter, title, sparsity, flag, tip in zip(LETTERS, comparison.titles, *texts, strict=False):
            labels = [text_label(sparsity, "muted"), *([text_label(flag, "warning")] if flag else [])]
            name = text_label(f"{letter}:  {title}")
            for label in (name, *labels):
                label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            caption = stacked(name, side_by_side(*labels))
            caption.setContentsMargins(0, 0, 2 * GRID, 0)
            caption.setToolTip(plain_tip(tip))
            self._captions.addWidget(caption)

    def text(self) -> str:
        """Names, heading and both tables, with tabs between cells."""
        if self.shown is None:
            return ""
        flags = flag_texts(self.shown)
        names = [
            "\t".join(map(neutralized, filter(None, (letter, name, flag))))
            for letter, name, flag in zip(LETTERS, self.shown.names, flags, strict=False)
        ]
        tables = (table.text_of(range(table.rowCount())) for table in (self._tasks, self._settings))
        return "\n".join((*names, heading(self.shown), *tables))

    def write(self, path: Path) -> None:
        """Write the differences; the suffix names the format. Raises WinaError."""
        if self.shown is not None:
            write_table(*file_rows(self.shown), path)

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.text())
