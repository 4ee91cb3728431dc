"""The command palette: a fuzzy search over the commands of all pages and menus."""

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QEvent, QObject, QRect, QSignalBlocker, Qt, Signal
from PySide6.QtGui import QAction, QColor, QKeyEvent
from PySide6.QtWidgets import QFrame, QHeaderView, QLineEdit, QPushButton, QTreeWidget, QTreeWidgetItem, QWidget

from wina_app.style.theme import GRID, tokens
from wina_app.widgets.base_page import Page
from wina_app.widgets.boxes import vbox
from wina_app.widgets.controls import text_label
from wina_app.window.menus import Entry, Menus
from wina_core.studies.tasks.fuzzy_search import FuzzySearch

_WIDTH, _HEIGHT = GRID * 78, GRID * 50
_MOVES = (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown)
_WORDS = {
    "model": "benchmark test",
    "Type a folder or model id": "open load import download checkpoint",
    "rotation": "orthogonalize basis eigenvectors invariance rotate the model",
    "Export GGUF file…": "llama.cpp ollama convert save file",
    "sparsity": "benchmark test the plan",
    "Allocate": "distribute budget spread layers projections optimize",
    "Calibrate": "calibration error curves activations",
    "Measure KL curves": "divergence fidelity",
    "Export sparse model…": "save folder hugging face transformers deploy",
    "evaluate": "benchmark accuracy perplexity tasks lm-eval run score",
    "latency": "measure latency benchmark speed kernel time sweep",
    "playground": "complete prompt write sample text chat completion",
    "Serve a sparse model folder…": "server openai api endpoint port",
    "Export table…": "export results save csv excel latex markdown",
    "Show the compare plot": "compare runs difference significance test",
    "studies": "run the study reproduce launch start",
}
"""Other words for a command, by its text, or for a page's primary action, by the page's key."""


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
        self.list = QTreeWidget()
        self.list.setColumnCount(3)
        self.list.setHeaderHidden(True)
        self.list.setRootIsDecorated(False)
        self.list.setUniformRowHeights(True)
        self.list.setAccessibleName("Commands found")
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.header().setStretchLastSection(False)
        self.list.header().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self.list.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.list.clicked.connect(self._choose)
        self._remark = text_label("No matching command.", "muted")
        vbox(self, self.field, self.list, self._remark, margins=(GRID, GRID, GRID, GRID))
        self.hide()

    def open(self, entries: Sequence[Entry]) -> None:
        """Show the palette with all of these entries."""
        self._entries, self._search = list(entries), FuzzySearch([entry.searched for entry in entries])
        self._before = self.window().focusWidget()
        width, height = min(_WIDTH, self.window().width() - 4 * GRID), self.window().height() - 12 * GRID
        self.setGeometry(QRect((self.window().width() - width) // 2, 6 * GRID, width, min(_HEIGHT, height)))
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
        self._matches = [self._entries[index] for index in self._search.search(text)]
        muted, disabled = QColor(tokens().muted), QColor(tokens().disabled)
        for entry in self._matches:
            item = QTreeWidgetItem([entry.text, entry.where, entry.keys])
            item.setToolTip(0, entry.action.toolTip())
            for column in (1, 2):
                item.setForeground(column, muted)
            if not entry.action.isEnabled():
                item.setForeground(0, disabled)
            self.list.addTopLevelItem(item)
        if first := self.list.topLevelItem(0):
            self.list.setCurrentItem(first)
        self._remark.setVisible(not self._matches)

    def _choose(self) -> None:
        if (row := self.list.currentIndex().row()) >= 0:
            self.close_palette()
            self.chosen.emit(self._matches[row])


def palette_entries(menus: Menus, primary: QAction, pages: Mapping[str, Page], current: Page) -> list[Entry]:
    """Return what the current page offers, then the menus, then the other pages.

    `primary` is the menus' action for the button of the current page.
    """
    of_current = [entry for entry in _of_page(current) if entry.action is not current.primary]
    first = Entry(current.title, primary, current.key, _WORDS.get(current.key, ""))
    of_menus = [entry for entry in menus.entries() if entry.action is not primary]
    others = [entry for page in pages.values() if page is not current for entry in _of_page(page)]
    return [first, *of_current, *of_menus, *others]


def _of_page(page: Page) -> list[Entry]:
    commands = {command.text() for command in page.commands}  # listed once, also those that have a button
    buttons = [button for button in page.header_buttons() if f"{button.accessibleName()}…" not in commands]
    visible = [button for button in (page.primary, *buttons) if button.text() and not button.isHidden()]
    actions: list[QAction | QPushButton] = [*visible, *page.commands]
    return [
        Entry(page.title, action, page.key, _WORDS.get(page.key if action is page.primary else action.text(), ""))
        for action in actions
    ]
