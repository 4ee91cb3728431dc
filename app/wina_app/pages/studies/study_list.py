"""List of studies by kind, each with its state, and the search in it."""

from collections.abc import Collection, Sequence
from pathlib import Path

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QHeaderView, QTreeWidget, QTreeWidgetItem

from wina_app.pages.studies.study_state import KINDS, StudyState, facts
from wina_app.style.icons import icon
from wina_app.style.theme import notifier, state_colour
from wina_app.widgets.plain_text import plain_tip
from wina_app.widgets.two_line_delegate import DETAIL, TwoLineDelegate
from wina_core.studies.gallery import GalleryEntry
from wina_core.studies.tasks.fuzzy_search import FuzzySearch


def _name(entry: GalleryEntry) -> str:
    return f"{entry.title} {entry.name} {entry.file.stem}"


def _text(entry: GalleryEntry) -> str:
    study = entry.study
    if study is None:
        return _name(entry)
    return " ".join([_name(entry), study.description, *(text for _, text in facts(study))])


_FILE = Qt.ItemDataRole.UserRole
_BROKEN = "cannot be read"


class StudyList(QTreeWidget):
    """List that emits the selected study's file."""

    chosen = Signal(Path)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Studies")
        self.setHeaderHidden(True)
        self.setIndentation(0)
        self.setRootIsDecorated(False)
        self.setItemsExpandable(False)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setItemDelegate(TwoLineDelegate(self))
        self.header().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        self._items: dict[Path, QTreeWidgetItem] = {}
        self._words: dict[Path, str] = {}
        self._active: frozenset[Path] = frozenset()
        self._listed: list[tuple[Path, str]] = []
        self._texts: dict[Path, str] = {}
        self._names = FuzzySearch([])
        self._query = ""
        self.currentItemChanged.connect(self._on_current)
        notifier().changed.connect(self._restyle)

    def show_list(self, entries: Sequence[GalleryEntry], selected: Path | None) -> None:
        """List the studies by kind, and mark the selected one."""
        with QSignalBlocker(self):  # an item that becomes current here is no choice of the user's
            listed = [(entry.file, entry.kind + entry.title + entry.error) for entry in entries]
            if listed != self._listed:  # filling the list again would lose its scroll position
                self._listed = listed
                self._texts = {entry.file: _text(entry).casefold() for entry in entries}
                self._names = FuzzySearch([_name(entry) for entry in entries])
                self._fill(entries)
                self.filter(self._query)
            if selected in self._items:
                self.setCurrentItem(self._items[selected])

    def _fill(self, entries: Sequence[GalleryEntry]) -> None:
        self.clear()
        self._items, self._words = {}, {}
        for kind, title in KINDS.items():
            members = [entry for entry in entries if entry.kind == kind]
            if not members:
                continue
            group = QTreeWidgetItem([title])
            group.setFlags(Qt.ItemFlag.ItemIsEnabled)
            self.addTopLevelItem(group)
            for entry in members:
                item = QTreeWidgetItem([entry.title])
                item.setData(0, _FILE, entry.file)
                about = entry.error or (entry.study.description if entry.study else "")
                item.setToolTip(0, plain_tip("\n".join(filter(None, (entry.title, about)))))
                group.addChild(item)
                self._items[entry.file] = item
                self._mark(entry.file, _BROKEN if entry.error else "", "failed" if entry.error else "")
            group.setExpanded(True)

    def show_state(self, file: Path, state: StudyState | None) -> None:
        """Show under a study's name how much is stored."""
        if file in self._items and state is not None:
            with QSignalBlocker(self):
                self._mark(file, state.text, state.word)
            self.viewport().update()

    def filter(self, query: str) -> int:
        """Show the studies that match a query, all for an empty one, and return how many do.

        They have every word of the query in title, names, description or facts; where none has, titles and names match
        that resemble it. Where the selected study is not among them, the first one is selected.
        """
        self._query, words, files = query, query.casefold().split(), list(self._texts)
        matches = {file for file, text in self._texts.items() if all(word in text for word in words)}
        matches = matches or {files[index] for index in self._names.search(query)}
        for file, item in self._items.items():
            item.setHidden(file not in matches)
        groups = {item.parent() for item in self._items.values()}
        visible_groups = {self._items[file].parent() for file in matches}
        for group in groups:
            if group is not None:
                group.setHidden(group not in visible_groups)
        current = self.currentItem()
        if current is not None and current.isHidden() and matches:
            self.select_first()
        elif current is not None:
            self.scrollToItem(current)
        return len(matches)

    def select_first(self) -> None:
        first = next((item for item in self._items.values() if not item.isHidden()), None)
        if first is not None:
            self.setCurrentItem(first)

    def show_active(self, files: Collection[Path]) -> None:
        if self._active != frozenset(files):
            self._active = frozenset(files)
            self._restyle()

    @property
    def files(self) -> Collection[Path]:
        return self._items.keys()

    def select(self, file: Path) -> None:
        self.setCurrentItem(self._items[file])

    def text_of(self, file: Path) -> str:
        return self._items[file].data(0, Qt.ItemDataRole.AccessibleTextRole)

    def _mark(self, file: Path, text: str, word: str) -> None:
        item = self._items[file]
        item.setData(0, DETAIL, text)
        item.setData(0, Qt.ItemDataRole.AccessibleTextRole, f"{item.text(0)}: {text}")
        self._words[file] = word
        self._draw(file)

    def _draw(self, file: Path) -> None:
        word = "running" if file in self._active else self._words[file]
        self._items[file].setIcon(0, icon(word, state_colour(word).name()) if word else QIcon())

    def _restyle(self) -> None:
        with QSignalBlocker(self):
            for file in self._items:
                self._draw(file)
        self.scheduleDelayedItemsLayout()

    def _on_current(self, item: QTreeWidgetItem | None) -> None:
        file = item.data(0, _FILE) if item is not None else None
        if file is not None:
            self.chosen.emit(file)
