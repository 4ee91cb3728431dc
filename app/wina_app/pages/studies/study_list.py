"""List of studies by kind, each with its state."""

from collections.abc import Collection, Sequence
from pathlib import Path

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QSignalBlocker, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetrics, QIcon, QPainter
from PySide6.QtWidgets import (
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTreeWidget,
    QTreeWidgetItem,
)

from wina_app.pages.studies.study_state import KINDS, StudyState
from wina_app.style.icons import icon
from wina_app.style.theme import GRID, HALF, font, notifier, state_colour, tokens
from wina_app.style.translation import tr
from wina_app.widgets.plain_text import plain_tip
from wina_core.studies.gallery import GalleryEntry

_FILE = Qt.ItemDataRole.UserRole
_STATE = Qt.ItemDataRole.UserRole + 1
_BROKEN = tr("cannot be read")
_ICON = 16


class StudyList(QTreeWidget):
    """List that emits the selected study's file."""

    chosen = Signal(Path)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName(tr("Studies"))
        self.setHeaderHidden(True)
        self.setIndentation(0)
        self.setRootIsDecorated(False)
        self.setItemsExpandable(False)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setItemDelegate(_TwoLines(self))
        self.header().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        self._items: dict[Path, QTreeWidgetItem] = {}
        self._words: dict[Path, str] = {}
        self._active: frozenset[Path] = frozenset()
        self._listed: list[tuple[Path, str]] = []
        self.currentItemChanged.connect(self._on_current)
        notifier().changed.connect(self._restyle)

    def show_list(self, entries: Sequence[GalleryEntry], selected: Path | None) -> None:
        """List the studies by kind, and mark the selected one."""
        with QSignalBlocker(self):
            listed = [(entry.file, entry.kind + entry.title + entry.error) for entry in entries]
            if listed != self._listed:
                self._listed = listed
                self._fill(entries)
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

    def show_active(self, files: Collection[Path]) -> None:
        """Mark the studies with jobs."""
        if self._active != frozenset(files):
            self._active = frozenset(files)
            self._restyle()

    @property
    def files(self) -> Collection[Path]:
        """Return the files of the listed studies."""
        return self._items.keys()

    def select(self, file: Path) -> None:
        """Select a study."""
        self.setCurrentItem(self._items[file])

    def text_of(self, file: Path) -> str:
        """Return a study's text in the list."""
        return self._items[file].data(0, Qt.ItemDataRole.AccessibleTextRole)

    def _mark(self, file: Path, text: str, word: str) -> None:
        item = self._items[file]
        item.setData(0, _STATE, text)
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


class _TwoLines(QStyledItemDelegate):
    """Painter of a study's name over its state, or of a heading."""

    def sizeHint(self, _option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> QSize:
        """Return the height of one or two lines."""
        body, small = (QFontMetrics(font(size)).height() for size in ("body", "small"))
        return QSize(0, small + 2 * GRID if index.data(_FILE) is None else body + small + GRID + HALF)

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """Paint both lines, elided to the width."""
        area: QRect = option.rect
        if index.data(_FILE) is None:
            place = area.adjusted(GRID, GRID, -GRID, 0)
            _write(painter, place, index.data(), font("small", bold=True), tokens().muted)
            return
        painter.save()
        if option.state & QStyle.StateFlag.State_Selected:
            painter.fillRect(area, QColor(tokens().accent_soft))
        drawing = index.data(Qt.ItemDataRole.DecorationRole)
        if drawing is not None:
            top = area.top() + (area.height() - _ICON) // 2
            drawing.paint(painter, QRect(area.right() - GRID - _ICON, top, _ICON, _ICON))
        place = area.adjusted(2 * GRID, HALF + 2, -2 * GRID - _ICON, -HALF - 2)
        body = QFontMetrics(font()).height()
        upper, lower = QRect(place), QRect(place)
        upper.setHeight(body)
        lower.setTop(place.top() + body)
        _write(painter, upper, index.data(), font(), tokens().text)
        _write(painter, lower, index.data(_STATE) or "", font("small", tabular=True), tokens().muted)
        painter.restore()


def _write(painter: QPainter, area: QRect, text: str, face: QFont, colour: str) -> None:
    painter.setFont(face)
    painter.setPen(QColor(colour))
    shown = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, area.width())
    painter.drawText(area, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, shown)
