"""Rows of the job list: the Qt model with a row for each job, and the painter of a row."""

import time
from functools import lru_cache

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QPersistentModelIndex,
    QRect,
    QSize,
    Qt,
    QTimer,
)
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPen, QPixmap
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from wina_app.jobs.job_entry import JobEntry
from wina_app.jobs.job_list import JobList
from wina_app.jobs.texts import STATE_WORDS, progress_text, remark, state_word
from wina_app.style.icons import icon
from wina_app.style.theme import GRID, HALF, font, state_colour, tokens
from wina_app.widgets.plain_text import plain_tip

ENTRY = Qt.ItemDataRole.UserRole
_Index = QModelIndex | QPersistentModelIndex
_TOP = QModelIndex()

BUSY = ("running", "pausing", "cancelling")
_DRAWN = {"cancelling": "running", "pausing": "running"}
_ICON, _BAR, _LAP_SECONDS = 2 * GRID, 6, 1.6


class JobRows(QAbstractListModel):
    """Rows of a JobList; changes of a job show at once, additions together once the event loop is free."""

    def __init__(self, jobs: JobList) -> None:
        super().__init__()
        self._jobs = jobs
        self._entries = jobs.ordered
        self._rows: dict[str, int] = {}
        self._soon = QTimer(self, singleShot=True)
        self._soon.timeout.connect(self.arrange)
        jobs.arranged.connect(self._soon.start)
        jobs.changed.connect(self._change)
        self._number()

    def entry(self, row: int) -> JobEntry:
        return self._entries[row]

    def row(self, job_id: str) -> int:
        """Return the row of a job, -1 if it has none."""
        return self._rows.get(job_id, -1)

    def arrange(self) -> None:
        """Show the listed jobs in their order."""
        self._soon.stop()
        new = self._jobs.ordered
        listed_ids = {entry.id for entry in new}
        # From the end, so that the places of earlier rows stay valid.
        for row in reversed(range(len(self._entries))):
            if self._entries[row].id not in listed_ids:
                self.beginRemoveRows(_TOP, row, row)
                del self._entries[row]
                self.endRemoveRows()
        added = [entry for entry in new if entry.id not in self._rows]
        if added:
            self.beginInsertRows(_TOP, len(self._entries), len(self._entries) + len(added) - 1)
            self._entries += added
            self.endInsertRows()
        if [entry.id for entry in new] != [entry.id for entry in self._entries]:
            self._reorder(new)
        self._entries = new
        self._number()

    def _reorder(self, new: list[JobEntry]) -> None:
        self.layoutAboutToBeChanged.emit()
        # Selection and current row are persistent indexes, which move with their jobs.
        before = self.persistentIndexList()
        ids = [self._entries[index.row()].id for index in before]
        self._entries = new
        self._number()
        self.changePersistentIndexList(before, [self.index(self._rows[job_id]) for job_id in ids])
        self.layoutChanged.emit()

    def _number(self) -> None:
        self._rows = {entry.id: row for row, entry in enumerate(self._entries)}

    def _change(self, job_id: str) -> None:
        row = self.row(job_id)
        if row >= 0:
            self._entries[row] = self._jobs[job_id]  # entries are immutable: each change makes another one
            self.dataChanged.emit(self.index(row), self.index(row))

    # ---- for the views -------------------------------------------------------------------------------------------

    def rowCount(self, parent: _Index = _TOP) -> int:
        return 0 if parent.isValid() else len(self._entries)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Return a job's entry or a text about it."""
        entry = self._entries[index.row()]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return entry.title
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip("\n".join(filter(None, (entry.title, remark(entry), progress_text(entry)))))
            case Qt.ItemDataRole.AccessibleTextRole:
                texts = (state_word(entry), progress_text(entry), remark(entry))
                return f"{entry.title}: {', '.join(filter(None, texts))}"
            case _ if role == ENTRY:
                return entry
        return None


class JobPainter(QStyledItemDelegate):
    """Delegate of the job list."""

    def sizeHint(self, _option: QStyleOptionViewItem, _index: QModelIndex | QPersistentModelIndex) -> QSize:
        """Return the height of two lines; the list sets the width."""
        return QSize(
            GRID * 60, QFontMetrics(font("body")).height() + QFontMetrics(font("small")).height() + GRID + HALF
        )

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        entry: JobEntry = index.data(ENTRY)
        t = tokens()
        body, small = QFontMetrics(font("body")), QFontMetrics(font("small"))
        inner = option.rect.adjusted(2 * GRID, HALF, -2 * GRID, -HALF)
        half, left = inner.height() // 2, inner.left() + _ICON + GRID
        # As wide as the widest state, so that the titles of all rows line up; the title takes the width that remains.
        word = max(body.horizontalAdvance(text) for text in STATE_WORDS) + 2 * GRID
        widest = max(small.horizontalAdvance(progress_text(entry)), 16 * GRID)
        width = min(widest, max(0, (inner.right() - left - word) // 2))
        right, texts = inner.right() - width, left + word
        free = max(0, right - 2 * GRID - texts)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if option.state & QStyle.StateFlag.State_Selected:
            painter.fillRect(option.rect, QColor(t.accent_soft))
        drawing = _DRAWN.get(entry.phase, entry.phase)
        top = inner.center().y() - _ICON // 2
        painter.drawPixmap(inner.left(), top, _drawing(drawing, state_colour(drawing).name()))
        _text(painter, QRect(left, inner.top(), word, inner.height()), state_word(entry), t.text)
        remark_text = remark(entry)
        title = QRect(texts, inner.top(), free, half if remark_text else inner.height())
        _text(painter, title, entry.title, t.text, bold=True)
        below = QRect(texts, inner.center().y(), free, half)
        _text(painter, below, remark_text, t.failed if entry.error else t.muted, small=True)
        shows_bar = entry.begun and not entry.serves
        amount = QRect(right, inner.top(), width, half if shows_bar else inner.height())
        _text(painter, amount, progress_text(entry), t.muted, small=True, right=True)
        if shows_bar:
            _bar(painter, QRect(right, inner.top() + inner.height() * 3 // 4 - _BAR // 2, width, _BAR), entry)
        if option.state & QStyle.StateFlag.State_HasFocus:
            painter.setPen(QPen(QColor(t.accent), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(option.rect.adjusted(2, 1, -2, -1), HALF, HALF)
        painter.restore()


# A row is painted ten times a second while its bar moves.
@lru_cache(maxsize=64)
def _drawing(name: str, colour: str) -> QPixmap:
    return icon(name, colour).pixmap(QSize(_ICON, _ICON))


def _text(
    painter: QPainter,
    rect: QRect,
    text: str,
    colour: str,
    *,
    small: bool = False,
    bold: bool = False,
    right: bool = False,
) -> None:
    painter.setFont(font("small" if small else "body", bold=bold, tabular=right))
    painter.setPen(QColor(colour))
    side = Qt.AlignmentFlag.AlignRight if right else Qt.AlignmentFlag.AlignLeft
    line = " ".join(text.split())
    elided = painter.fontMetrics().elidedText(line, Qt.TextElideMode.ElideRight, rect.width())
    painter.drawText(rect, side | Qt.AlignmentFlag.AlignVCenter, elided)


def _bar(painter: QPainter, rect: QRect, entry: JobEntry) -> None:
    t = tokens()
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(t.line))
    painter.drawRoundedRect(rect, _BAR / 2, _BAR / 2)
    painter.setBrush(QColor(t.running))
    if entry.fraction is not None:
        painter.drawRoundedRect(rect.adjusted(0, 0, round(rect.width() * (entry.fraction - 1)), 0), _BAR / 2, _BAR / 2)
    elif entry.phase in BUSY:
        width = rect.width() // 4
        position = (time.monotonic() % _LAP_SECONDS) / _LAP_SECONDS * (rect.width() + width)
        painter.setClipRect(rect)
        painter.drawRoundedRect(rect.left() + round(position) - width, rect.top(), width, _BAR, _BAR / 2, _BAR / 2)
        painter.setClipping(False)
