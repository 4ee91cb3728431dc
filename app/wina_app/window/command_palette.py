"""The command palette: a fuzzy search over the commands of all pages and menus."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from PySide6.QtCore import (
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QRect,
    QSignalBlocker,
    QSize,
    Qt,
    QTimer,
    Signal,
)
from PySide6.QtGui import QAction, QColor, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QFrame,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from wina_app.style.theme import GRID, font, tokens
from wina_app.widgets.base_page import Page
from wina_app.widgets.boxes import vbox
from wina_app.widgets.controls import text_label
from wina_app.window.menus import Entry, Menus
from wina_core.studies.tasks.fuzzy_search import FuzzySearch

_WIDTH = GRID * 78
_ROWS = 12
_Index = QModelIndex | QPersistentModelIndex
_TOP = QModelIndex()
_MOVES = (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown)


class Verb(NamedTuple):
    """An action of a page."""

    text: str
    words: str
    """Other words for it, separated by spaces."""
    command: str = ""
    """Text of the page's command; empty for its primary action."""


VERBS: dict[str, tuple[Verb, ...]] = {
    "model": (
        Verb("Evaluate this model", "benchmark test"),
        Verb("Type a folder or model id", "load import download checkpoint", "Type a folder or model id"),
    ),
    "rotation": (
        Verb("Rotate", "orthogonalize basis eigenvectors invariance rotate the model"),
        Verb("Export GGUF file", "llama.cpp ollama convert save file", "Export GGUF file…"),
    ),
    "sparsity": (
        Verb("Evaluate plan", "benchmark test the plan"),
        Verb("Allocate", "distribute budget spread layers projections optimize", "Allocate"),
        Verb("Calibrate", "calibration error curves activations", "Calibrate"),
        Verb("Measure KL curves", "divergence fidelity", "Measure KL curves"),
        Verb("Export sparse model", "save folder hugging face transformers deploy", "Export sparse model…"),
    ),
    "evaluate": (Verb("Evaluate", "benchmark accuracy perplexity tasks lm-eval run score"),),
    "latency": (Verb("Measure", "measure latency benchmark speed kernel time sweep"),),
    "playground": (
        Verb("Generate", "complete prompt write sample text chat completion"),
        Verb("Serve a sparse model folder", "server openai api endpoint port", "Serve a sparse model folder…"),
    ),
    "results": (
        Verb("Export table", "export results save csv excel latex markdown"),
        Verb("Show the compare plot", "compare runs difference significance test", "Show the compare plot"),
    ),
    "studies": (Verb("Run", "run the study reproduce launch start"),),
}
"""Actions by page: the palette finds them even before the page is made."""


def words_of(page: str, command: str) -> str:
    """Return other words for a page's command, or for its primary action if `command` is empty."""
    return next((verb.words for verb in VERBS.get(page, ()) if verb.command == command), "")


class CommandPalette(QFrame):
    """A search field with results over the upper part of the window; Esc or a click elsewhere closes it."""

    chosen = Signal(object)
    """Entry."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self.setProperty("role", "overlay")
        self.setAccessibleName("Command palette")
        self._entries: list[Entry] = []
        self._matches: list[Entry] = []
        self._search = FuzzySearch([])
        self._before: QWidget | None = None
        self.field = QLineEdit()
        self.field.setPlaceholderText("Type a command, a page or a recent file")
        self.field.setAccessibleName("Find a command")
        self.field.textChanged.connect(self._find)
        self.field.returnPressed.connect(self._choose)
        self.field.installEventFilter(self)
        self.list = QListWidget()
        self.list.setUniformItemSizes(True)
        self.list.setAccessibleName("Commands found")
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.setItemDelegate(_EntryDelegate(self._matches, self.list))
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.clicked.connect(self._choose)
        self._remark = text_label("No matching command.", "muted")
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
        # An empty field emits no change when cleared, so the search below is called in either case.
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
        # In place: the delegate paints from this list.
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
        return QSize(0, tokens().body + 2 * GRID)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
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


class ButtonAction(QAction):
    """The action of a page's button, as the button is now."""

    def __init__(self, button: QPushButton) -> None:
        super().__init__(button)
        self._button = button
        self.triggered.connect(button.click)

    def text(self) -> str:
        return self._button.text()

    def toolTip(self) -> str:
        return self._button.toolTip()

    def isEnabled(self) -> bool:
        return self._button.isEnabled()


class PaletteEntries(QObject):
    """Maker of the entries."""

    def __init__(
        self, menus: Menus, primary: QAction, make_page: Callable[[str], Page | None], run: Callable[[Entry], object]
    ) -> None:
        """`primary` is the menus' action for the button of the current page; `make_page` returns a page that may not
        have been made before; `run` performs an entry."""
        super().__init__()
        self._menus, self._primary, self._make_page, self._run = menus, primary, make_page, run
        self._buttons: dict[QPushButton, ButtonAction] = {}
        self._verbs = {
            key: [self._waiting(key, key.capitalize(), verb) for verb in verbs] for key, verbs in VERBS.items()
        }

    def every(self, pages: Mapping[str, Page], current: Page) -> list[Entry]:
        """Return what the current page offers, then the menus, then the other pages."""
        other_entries = [
            entry
            for key, waiting in self._verbs.items()
            if key != current.key
            for entry in (self._of_page(pages[key]) if key in pages else waiting)
        ]
        page_entries = [
            entry for entry in self._of_page(current) if entry.action is not self._buttons.get(current.primary)
        ]
        primary = Entry(current.title, self._primary, current.key, words_of(current.key, ""))
        menus = [entry for entry in self._menus.entries() if entry.action is not self._primary]
        return [primary, *page_entries, *menus, *other_entries]

    def _of_page(self, page: Page) -> list[Entry]:
        buttons = [page.primary, *page.header_buttons()]
        commands = {command.text() for command in page.commands}  # listed once, also those that have a button
        visible = [button for button in buttons if button.text() and not button.isHidden()]
        named = [button for button in visible if f"{button.accessibleName()}…" not in commands]
        return [
            *(Entry(page.title, self._action(button), page.key, self._words(page, button)) for button in named),
            *(Entry(page.title, command, page.key, words_of(page.key, command.text())) for command in page.commands),
        ]

    def _action(self, button: QPushButton) -> ButtonAction:
        if button not in self._buttons:
            # One action per button for good: `every` compares them by identity.
            self._buttons[button] = ButtonAction(button)
        return self._buttons[button]

    @staticmethod
    def _words(page: Page, button: QPushButton) -> str:
        return words_of(page.key, "") if button is page.primary else ""

    def _waiting(self, key: str, title: str, verb: Verb) -> Entry:
        """Return an entry of a page that has not been made."""
        action = QAction(verb.text, self)
        action.triggered.connect(partial(self._make_and_run, key, verb))
        return Entry(title, action, key, verb.words)

    def _make_and_run(self, key: str, verb: Verb, _checked: bool = False) -> None:
        page = self._make_page(key)
        if page is not None:
            entries = self._of_page(page)
            matches = (
                [entry for entry in entries if entry.action.text() == verb.command] if verb.command else entries[:1]
            )
            for entry in matches[:1]:
                QTimer.singleShot(0, self, partial(self._run, entry))  # once the page is painted
