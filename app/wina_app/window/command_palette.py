"""The command palette: a fuzzy search over all commands."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QModelIndex, QObject, QPersistentModelIndex, QRect, QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QAction, QColor, QKeyEvent, QKeySequence, QPainter
from PySide6.QtWidgets import (
    QFrame,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from wina_app.style.theme import GRID, font, tokens
from wina_app.style.translation import tr
from wina_app.widgets.boxes import vbox
from wina_app.widgets.controls import text_label
from wina_core.studies.tasks.fuzzy_search import FuzzySearch

_WIDTH = GRID * 78
_ROWS = 12
_Index = QModelIndex | QPersistentModelIndex
_TOP = QModelIndex()
_MOVES = (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown)


@dataclass(frozen=True)
class Entry:
    """An action and its place in the menus."""

    where: str
    action: QAction
    page: str = ""
    """Key of the page that the action needs; empty for none."""
    words: str = ""
    """Other words for it."""

    @property
    def text(self) -> str:
        """Text of the action without its mnemonic."""
        return self.action.text().replace("&&", "\0").replace("&", "").replace("\0", "&")

    @property
    def keys(self) -> str:
        """Shortcut in the notation of the system."""
        return self.action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)

    @property
    def name(self) -> str:
        """Text and place, read by screen readers."""
        return f"{self.text} {self.where}"

    @property
    def searched(self) -> str:
        """Text to search in."""
        return f"{self.name} {self.words}".strip()


class CommandPalette(QFrame):
    """A search field with results over the upper part of the window; Esc or a click elsewhere closes it."""

    chosen = Signal(object)
    """Entry."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self.setProperty("role", "overlay")
        self.setAccessibleName(tr("Command palette"))
        self._entries: list[Entry] = []
        self._matches: list[Entry] = []
        self._search = FuzzySearch([])
        self._before: QWidget | None = None
        self.field = QLineEdit()
        self.field.setPlaceholderText(tr("Type a command, a page or a recent file"))
        self.field.setAccessibleName(tr("Find a command"))
        self.field.textChanged.connect(self._find)
        self.field.returnPressed.connect(self._choose)
        self.field.installEventFilter(self)
        self.list = QListWidget()
        self.list.setUniformItemSizes(True)
        self.list.setAccessibleName(tr("Commands found"))
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.setItemDelegate(_EntryDelegate(self._matches, self.list))
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.clicked.connect(self._choose)
        self._remark = text_label(tr("No matching command."), "muted")
        vbox(self, self.field, self.list, self._remark, margins=(GRID, GRID, GRID, GRID))
        self.hide()

    def open(self, entries: Sequence[Entry]) -> None:
        """Show the palette with all of these entries."""
        self._entries, self._search = list(entries), FuzzySearch([entry.searched for entry in entries])
        self._before = self.window().focusWidget()
        width = min(_WIDTH, self.window().width() - 4 * GRID)
        row = self.list.itemDelegate().sizeHint(QStyleOptionViewItem(), _TOP).height()
        height = self.field.sizeHint().height() + _ROWS * row + 6 * GRID
        left = (self.window().width() - width) // 2
        self.setGeometry(QRect(left, 6 * GRID, width, min(height, self.window().height() - 12 * GRID)))
        with QSignalBlocker(self.field):
            self.field.clear()
        self._find("")
        self.show()
        self.raise_()
        self.field.setFocus(Qt.FocusReason.PopupFocusReason)

    def close_palette(self) -> None:
        """Close the palette and give the focus back."""
        if self.isVisible():
            self.hide()
            if self._before is not None:
                self._before.setFocus(Qt.FocusReason.PopupFocusReason)

    def shown(self) -> list[Entry]:
        """Return the entries shown, from top to bottom."""
        return self._matches.copy()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Pass arrow keys to the list, close on Esc, hide when the focus is lost."""
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            if event.key() == Qt.Key.Key_Escape:
                self.close_palette()
                return True
            if event.key() in _MOVES:
                self.list.keyPressEvent(event)
                return True
        if event.type() == QEvent.Type.FocusOut and not self.list.underMouse():
            self.hide()
        return super().eventFilter(watched, event)

    def _find(self, text: str) -> None:
        self.list.clear()
        self._matches[:] = [self._entries[index] for index in self._search.search(text)]
        for entry in self._matches:
            self.list.addItem(_item(entry))
        self.list.setCurrentRow(0)
        self._remark.setVisible(not self._matches)

    def _choose(self) -> None:
        if (row := self.list.currentRow()) >= 0:
            self.close_palette()
            self.chosen.emit(self._matches[row])


def _item(entry: Entry) -> QListWidgetItem:
    item = QListWidgetItem(entry.text)
    item.setData(Qt.ItemDataRole.AccessibleTextRole, " ".join(filter(None, (entry.name, entry.keys))))
    item.setToolTip(entry.action.toolTip())
    return item


class _EntryDelegate(QStyledItemDelegate):
    """Painter of an entry's text, its place in the menus, and its shortcut at the right."""

    def __init__(self, matches: Sequence[Entry], parent: QWidget) -> None:
        super().__init__(parent)
        self._matches = matches

    def sizeHint(self, option: QStyleOptionViewItem, index: _Index) -> QSize:  # noqa: ARG002 - Qt's signature
        """Return the height of one line."""
        return QSize(0, tokens().body + 2 * GRID)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        """Paint one entry."""
        entry = self._matches[index.row()]
        t = tokens()
        enabled = entry.action.isEnabled()
        if option.state & QStyle.StateFlag.State_Selected:
            painter.fillRect(option.rect, QColor(t.accent_soft))
        area = option.rect.adjusted(GRID, 0, -GRID, 0)
        painter.save()
        painter.setFont(font("small", tabular=True))
        painter.setPen(QColor(t.muted))
        painter.drawText(area, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, entry.keys)
        keys = painter.fontMetrics().horizontalAdvance(entry.keys) + 2 * GRID if entry.keys else 0
        painter.setFont(font())
        metrics = painter.fontMetrics()
        painter.setPen(QColor(t.text if enabled else t.disabled))
        text = metrics.elidedText(entry.text, Qt.TextElideMode.ElideMiddle, area.width() - keys)
        painter.drawText(area, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, text)
        used = metrics.horizontalAdvance(text) + GRID * 2
        painter.setFont(font("small"))
        painter.setPen(QColor(t.muted))
        rest = area.adjusted(used, 0, -keys, 0)
        if rest.width() > 4 * GRID:
            where = painter.fontMetrics().elidedText(entry.where, Qt.TextElideMode.ElideRight, rest.width())
            painter.drawText(rest, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, where)
        painter.restore()
