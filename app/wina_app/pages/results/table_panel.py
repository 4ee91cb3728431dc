"""Table half of the Results page: grouping and columns above the table."""

from collections.abc import Collection, Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QWidget

from wina_app.pages.results.column_chooser import ColumnChooser
from wina_app.pages.results.columns import ColumnChoice
from wina_app.pages.results.table_view import ResultsTableView
from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.combo_box import ComboBox
from wina_app.widgets.controls import ElidedLabel, beside, push_button, text_label
from wina_app.widgets.segmented_control import SegmentedControl


class ResultsList(QWidget):
    """Panel that emits the user's choices; columns change at once."""

    everything_requested = Signal()
    form_chosen = Signal(str)
    """"runs" or "metrics"."""
    paper_requested = Signal()
    """The user wants the table for a paper."""
    group_chosen = Signal(str)
    differing_toggled = Signal(bool)

    def __init__(self, columns: ColumnChoice, export: QWidget) -> None:
        """`export` is a button for the selected run."""
        super().__init__()
        self.table = ResultsTableView(tr("Stored results"))
        self.table.setMinimumHeight(13 * GRID)
        self.table.columns_moved.connect(columns.move)
        self.table.column_pinned.connect(columns.pin)
        self.table.column_hidden.connect(lambda key: columns.show(key, False))
        self.table.columns_requested.connect(self.choose_columns)
        self.form = SegmentedControl(
            tr("Rows"),
            (
                ("runs", tr("Runs"), tr("One row for each run, with a column for each metric")),
                ("metrics", tr("Metrics"), tr("One row for each metric of each run")),
            ),
        )
        self.form.chosen.connect(self.form_chosen)
        self.group = ComboBox(tr("Group rows by"))
        self.group.activated.connect(lambda: self.group_chosen.emit(self.group.currentData()))
        self.differing = QCheckBox(tr("Only what differs"))
        self.differing.setAccessibleName(tr("Show only the columns that differ"))
        self.differing.setToolTip(tr("Hides the columns that read alike in all rows, and says what they read"))
        self.differing.toggled.connect(self.differing_toggled)
        self.columns = push_button(tr("Columns…"), self.choose_columns, name=tr("Choose the columns"))
        self.paper = push_button(tr("For a paper…"), self.paper_requested.emit, name=tr("Table for a paper"))
        self.paper.setToolTip(tr("The shown columns and rows as LaTeX or Markdown, with a preview"))
        self.common = ElidedLabel("muted")
        self._chooser = ColumnChooser(columns, self)
        caption = text_label(tr("Group by"), "muted")
        caption.setBuddy(self.group)
        choices = (self.form, caption, self.group, self.columns, self.differing)
        bar = beside(*choices, self.common, export, self.paper, stretch=self.common)
        vbox(self, self._build_scope(), bar, (self.table, 1), margins=(2 * GRID, GRID, 2 * GRID, GRID))
        columns.changed.connect(lambda: self._offer_groups(columns))
        self._offer_groups(columns)

    def _build_scope(self) -> QWidget:
        self.scope = ElidedLabel("section")
        self.everything = push_button(tr("Show all results"), self.everything_requested.emit)
        self._scope = QWidget()
        hbox(self._scope, (self.scope, 1), self.everything)
        self._scope.hide()
        return self._scope

    def _offer_groups(self, columns: ColumnChoice) -> None:
        offered = [(column.title, column.key) for column in columns.grouping]
        self.group.fill([(tr("nothing"), ""), *offered], self.group.currentData() or "")

    def choose_columns(self) -> None:
        """Open the chooser of columns."""
        self._chooser.pop_up(self.columns)

    def show_columns(self, keys: Sequence[str], pinned: Collection[str], common: str) -> None:
        """Show these columns in this order, and say what is common to all rows."""
        self.table.show_columns(keys, pinned)
        self.common.setText(tr("Same in all rows: {common}", common=common) if common else "")

    def show_scope(self, title: str) -> None:
        """Say to which study the table is narrowed; empty for none."""
        self.scope.setText(tr("Study: {title}", title=title))
        self._scope.setVisible(bool(title))
