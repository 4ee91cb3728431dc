"""Table half of the Results page: filter and choice of columns, above the table."""

from functools import partial

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLineEdit, QMenu, QWidget

from wina_app.pages.results.columns import ColumnChoice
from wina_app.pages.results.table_view import ResultsTableView
from wina_app.style.theme import GRID
from wina_app.widgets.boxes import STRETCH, hbox, vbox
from wina_app.widgets.controls import ElidedLabel, push_button
from wina_app.widgets.plain_text import plain_tip
from wina_app.widgets.segmented_control import SegmentedControl


class ResultsList(QWidget):
    """Panel that emits the user's choices; columns change at once."""

    everything_requested = Signal()
    form_chosen = Signal(str)
    """"runs" or "metrics"."""
    paper_requested = Signal()
    """The user wants the table for a paper."""

    def __init__(self, columns: ColumnChoice, export: QWidget) -> None:
        """`export` is a button for the selected run."""
        super().__init__()
        self.table = ResultsTableView("Stored results")
        self.table.setMinimumHeight(13 * GRID)
        self.table.columns_moved.connect(columns.move)
        self.table.column_hidden.connect(lambda key: columns.show(key, False))
        self.form = SegmentedControl(
            "Rows",
            (
                ("runs", "Runs", "One row for each run, with a column for each metric"),
                ("metrics", "Metrics", "One row for each metric of each run"),
            ),
        )
        self.form.chosen.connect(self.form_chosen)
        self._choice = columns
        self.columns = push_button("Columns…", self.choose_columns, name="Choose the columns")
        self.paper = push_button("For a paper…", self.paper_requested.emit, name="Table for a paper")
        self.paper.setToolTip("The shown columns and rows as LaTeX or Markdown, with a preview")
        bar = hbox(None, self.form, self.columns, STRETCH, export, self.paper)
        vbox(self, self._build_scope(), bar, (self.table, 1), margins=(2 * GRID, GRID, 2 * GRID, GRID))

    def _build_scope(self) -> QWidget:
        self.scope = ElidedLabel("section")
        self.everything = push_button("Show all results", self.everything_requested.emit)
        self._scope = QWidget()
        hbox(self._scope, (self.scope, 1), self.everything)
        self._scope.hide()
        return self._scope

    def choose_columns(self) -> None:
        """Show the menu of columns below its button."""
        menu = QMenu(self)
        for column, visible in self._choice.offered:
            action = menu.addAction(column.title, partial(self._choice.show, column.key, not visible))
            action.setCheckable(True)
            action.setChecked(visible)
            action.setToolTip(plain_tip(column.explanation))
        menu.addSeparator()
        menu.addAction("Default columns", self._choice.reset)
        menu.setToolTipsVisible(True)
        menu.setStyleSheet("QMenu { menu-scrollable: 1; }")  # there may be hundreds of metrics
        menu.aboutToHide.connect(menu.deleteLater)
        menu.popup(self.columns.mapToGlobal(self.columns.rect().bottomLeft()))

    def show_scope(self, title: str) -> None:
        """Name the study that the table is narrowed to; empty for none."""
        self.scope.setText(f"Study: {title}")
        self._scope.setVisible(bool(title))


class FilterLine(QLineEdit):
    """Filter line; its tooltip explains the filter language."""

    def __init__(self) -> None:
        super().__init__()
        self.setClearButtonEnabled(True)
        self.setPlaceholderText("Filter: words, method:wina, gated>50, /regex/, -not")
        self.setAccessibleName("Filter the table")
        self.setToolTip(
            "Words in any column; all must be found.\n"
            "method:wina finds in one column, method=wina the whole cell.\n"
            "gated>50 value<=0.3 n!=100 compare.\n"
            '"per head" finds words together, /^demo.*ppl/ or task:/ppl/ a regular expression.\n'
            "A minus before any of them excludes what it finds."
        )
