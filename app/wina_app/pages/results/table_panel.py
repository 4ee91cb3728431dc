"""Table half of the Results page: filter, grouping, and the chooser of columns, above the table."""

import re
from collections.abc import Collection, Sequence

from PySide6.QtCore import QSignalBlocker, QStringListModel, Qt, Signal
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QAbstractItemView,
    QCheckBox,
    QCompleter,
    QFrame,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QWidget,
)

from wina_app.pages.results.columns import ColumnChoice
from wina_app.pages.results.table_view import ResultsTableView
from wina_app.style.theme import GRID, apply_stylesheet, font, scaled
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.combo_box import ComboBox
from wina_app.widgets.controls import ElidedLabel, beside, push_button, text_label
from wina_app.widgets.plain_text import plain_tip
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
        self.table = ResultsTableView("Stored results")
        self.table.setMinimumHeight(13 * GRID)
        self.table.columns_moved.connect(columns.move)
        self.table.column_pinned.connect(columns.pin)
        self.table.column_hidden.connect(lambda key: columns.show(key, False))
        self.table.columns_requested.connect(self.choose_columns)
        self.form = SegmentedControl(
            "Rows",
            (
                ("runs", "Runs", "One row for each run, with a column for each metric"),
                ("metrics", "Metrics", "One row for each metric of each run"),
            ),
        )
        self.form.chosen.connect(self.form_chosen)
        self.group = ComboBox("Group rows by")
        self.group.activated.connect(lambda: self.group_chosen.emit(self.group.currentData()))
        self.differing = QCheckBox("Only what differs")
        self.differing.setAccessibleName("Show only the columns that differ")
        self.differing.setToolTip("Hides the columns that read alike in all rows, and says what they read")
        self.differing.toggled.connect(self.differing_toggled)
        self.columns = push_button("Columns…", self.choose_columns, name="Choose the columns")
        self.paper = push_button("For a paper…", self.paper_requested.emit, name="Table for a paper")
        self.paper.setToolTip("The shown columns and rows as LaTeX or Markdown, with a preview")
        self.common = ElidedLabel("muted")
        self._chooser = ColumnChooser(columns, self)
        caption = text_label("Group by", "muted")
        caption.setBuddy(self.group)
        choices = (self.form, caption, self.group, self.columns, self.differing)
        bar = beside(*choices, self.common, export, self.paper, stretch=self.common)
        vbox(self, self._build_scope(), bar, (self.table, 1), margins=(2 * GRID, GRID, 2 * GRID, GRID))
        columns.changed.connect(lambda: self._offer_groups(columns))
        self._offer_groups(columns)

    def _build_scope(self) -> QWidget:
        self.scope = ElidedLabel("section")
        self.everything = push_button("Show all results", self.everything_requested.emit)
        self._scope = QWidget()
        hbox(self._scope, (self.scope, 1), self.everything)
        self._scope.hide()
        return self._scope

    def _offer_groups(self, columns: ColumnChoice) -> None:
        offered = [(column.title, column.key) for column in columns.grouping]
        self.group.fill([("nothing", ""), *offered], self.group.currentData() or "")

    def choose_columns(self) -> None:
        self._chooser.pop_up(self.columns)

    def show_columns(self, keys: Sequence[str], pinned: Collection[str], common: str) -> None:
        self.table.show_columns(keys, pinned)
        self.common.setText(f"Same in all rows: {common}" if common else "")

    def show_scope(self, title: str) -> None:
        """Name the study that the table is narrowed to; empty for none."""
        self.scope.setText(f"Study: {title}")
        self._scope.setVisible(bool(title))


_NAME = re.compile(r"(?:^|\s)-?(?P<name>[^\W\d]\w*)$")
"""A name, or its beginning, right before the cursor."""


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
        self._names = QStringListModel()
        self._completer = QCompleter(self._names, self)
        self._completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        # `QLineEdit.setCompleter` would complete the whole line, not the name before the cursor.
        self._completer.setWidget(self)
        popup = self._completer.popup()
        assert popup is not None
        self._popup = popup
        apply_stylesheet(popup)  # a window of its own, which inherits none
        self._completer.activated.connect(self._complete)
        self.textEdited.connect(self._offer)

    def offer_columns(self, keys: Sequence[str]) -> None:
        self._names.setStringList(sorted(keys))

    def _typed_name(self) -> str:
        match = _NAME.search(self.text()[: self.cursorPosition()])
        return match["name"] if match else ""

    def _offer(self) -> None:
        prefix = self._typed_name()
        self._completer.setCompletionPrefix(prefix)
        if prefix and self._completer.completionCount() and self.hasFocus():
            self._completer.complete()
        else:
            self._popup.hide()

    def _complete(self, name: str) -> None:
        end = self.cursorPosition()
        start = end - len(self._typed_name())
        self.setText(f"{self.text()[:start]}{name}:{self.text()[end:]}")
        self.setCursorPosition(start + len(name) + 1)


_KEY = Qt.ItemDataRole.UserRole


class ColumnChooser(QFrame):
    """Popup below a button; every change is made at once."""

    def __init__(self, columns: ColumnChoice, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self._columns = columns
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self.setAccessibleName("Columns")
        self.search = QLineEdit()
        self.search.setPlaceholderText("Search columns")
        self.search.setAccessibleName("Search columns")
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self._narrow)
        self.list = QListWidget()
        self.list.setAccessibleName("Columns of the table")
        self.list.setDragDropMode(QAbstractItemView.DragDropMode.InternalMove)
        self.list.model().rowsMoved.connect(self._on_moved)
        self.list.itemChanged.connect(self._on_ticked)
        self.list.currentRowChanged.connect(self._name_pin)
        self.every = push_button("All", lambda: self._show_listed(True), name="Show all listed columns")
        self.none = push_button("None", lambda: self._show_listed(False), name="Hide all listed columns")
        self.pin = push_button("Unpin", self._pin, name="Pin or unpin the column at the left")
        self.usual = push_button("Default", columns.reset, name="Back to the default columns")
        for keys, step in (("Alt+Up", -1), ("Alt+Down", 1)):
            shortcut = QShortcut(QKeySequence(keys), self.list)
            # The table sorts by the same keys.
            shortcut.setContext(Qt.ShortcutContext.WidgetShortcut)
            shortcut.activated.connect(lambda step=step: self._move(step))
        hint = text_label("Drag, or Alt with Up and Down, to reorder; pinned columns stay at the left", "muted")
        hint.setWordWrap(True)
        buttons = hbox(None, self.every, self.none, self.pin, self.usual)
        vbox(self, self.search, hint, (self.list, 1), buttons, margins=(GRID, GRID, GRID, GRID))
        # A hidden chooser is filled when it pops up.
        columns.changed.connect(lambda: self._fill() if self.isVisible() else None)
        self._fill()

    def pop_up(self, button: QWidget) -> None:
        """Show below the button, with the keyboard on the list."""
        self.search.clear()
        self._fill()
        rows = sum(self.list.sizeHintForRow(row) for row in range(self.list.count()))
        below = button.mapToGlobal(button.rect().bottomLeft())
        room = button.screen().availableGeometry().bottom() - below.y() - 2 * GRID
        self.resize(max(scaled(40 * GRID), self.sizeHint().width()), min(rows + 22 * GRID, max(room, 30 * GRID)))
        self.move(below)
        self.show()
        self.list.setFocus(Qt.FocusReason.PopupFocusReason)

    def _items(self) -> list[QListWidgetItem]:
        return [self.list.item(at) for at in range(self.list.count())]

    def _fill(self) -> None:
        offered = self._columns.offered
        row = max(self.list.currentRow(), 0)
        keys = [column.key for column, _ in offered]
        with QSignalBlocker(self.list):  # a tick set here is no choice of the user's
            if [item.data(_KEY) for item in self._items()] != keys:
                while self.list.takeItem(0) is not None:  # `clear` leaves the items that Python still knows
                    pass
                for column, _ in offered:
                    item = QListWidgetItem(column.title)
                    item.setData(_KEY, column.key)
                    item.setToolTip(plain_tip(column.explanation))
                    self.list.addItem(item)
                self.list.setCurrentRow(min(row, self.list.count() - 1))
            for item, (column, visible) in zip(self._items(), offered, strict=True):
                pinned = column.key in self._columns.pinned
                item.setCheckState(Qt.CheckState.Checked if visible else Qt.CheckState.Unchecked)
                item.setText(f"{column.title} (pinned)" if pinned else column.title)
                item.setFont(font(bold=pinned))
        self._narrow()
        self._name_pin()

    def _narrow(self) -> None:
        """List the columns that have all words of the search."""
        words = self.search.text().casefold().split()
        for item in self._items():
            item.setHidden(not all(word in item.text().casefold() for word in words))

    def _show_listed(self, visible: bool) -> None:
        self._columns.show_all([item.data(_KEY) for item in self._items() if not item.isHidden()], visible)

    def _on_ticked(self, item: QListWidgetItem) -> None:
        self._columns.show(item.data(_KEY), item.checkState() == Qt.CheckState.Checked)
        self._fill()  # the last column cannot be hidden

    def _on_moved(self) -> None:
        self._columns.move([item.data(_KEY) for item in self._items()])

    def _move(self, step: int) -> None:
        row = self.list.currentRow()
        keys = [column.key for column, _ in self._columns.offered]
        if 0 <= row + step < len(keys):
            keys.insert(row + step, keys.pop(row))
            self._columns.move(keys)
            self.list.setCurrentRow(row + step)

    def _current(self) -> str:
        item = self.list.currentItem()
        return str(item.data(_KEY)) if item is not None else ""

    def _name_pin(self) -> None:
        self.pin.setText("Unpin" if self._current() in self._columns.pinned else "Pin")

    def _pin(self) -> None:
        if key := self._current():
            self._columns.pin(key, key not in self._columns.pinned)
            keys = [item.data(_KEY) for item in self._items()]
            self.list.setCurrentRow(keys.index(key))
