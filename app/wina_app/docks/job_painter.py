"""Painter of a job's row: state, title, remark, progress and buttons."""

import time
from functools import lru_cache
from typing import Literal, NamedTuple

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPen, QPixmap
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from wina_app.docks.job_rows import ENTRY
from wina_app.jobs.job_entry import JobEntry
from wina_app.jobs.texts import WORDS, progress_text, remark, state_word
from wina_app.style.icons import icon
from wina_app.style.theme import GRID, HALF, font, state_colour, tokens
from wina_app.style.translation import tr

Button = Literal["pause", "resume", "cancel", "stop", "retry"]
BUTTON_WORDS: dict[Button, str] = {
    "pause": tr("Pause"),
    "resume": tr("Resume"),
    "cancel": tr("Cancel"),
    "stop": tr("Stop"),
    "retry": tr("Retry"),
}
BUSY = ("running", "pausing", "cancelling")
_DRAWN = {"cancelling": "running", "pausing": "running"}
_ICON, _BAR, _LAP_SECONDS = 2 * GRID, 6, 1.6


class Places(NamedTuple):
    """Rectangles of a row's elements."""

    icon: QRect
    state: QRect
    title: QRect
    remark: QRect
    amount: QRect
    bar: QRect
    buttons: dict[Button, QRect]


def buttons_of(entry: JobEntry) -> tuple[Button, ...]:
    """Return the buttons of a row."""
    if entry.active and entry.serves:
        return ("stop",)
    if entry.active and entry.is_elsewhere:
        return ("cancel",)
    if entry.active:
        return ("resume" if entry.is_paused else "pause", "cancel")
    return ("retry",) if entry.can_retry else ()


def places(row: QRect, entry: JobEntry) -> Places:
    """Lay a row out; the title takes the width that remains."""
    body, small = QFontMetrics(font("body")), QFontMetrics(font("small"))
    inner = row.adjusted(2 * GRID, HALF, -2 * GRID, -HALF)
    right = inner.right()
    buttons: dict[Button, QRect] = {}
    height = small.height() + GRID
    for name in reversed(buttons_of(entry)):
        width = small.horizontalAdvance(BUTTON_WORDS[name]) + 2 * GRID
        buttons[name] = QRect(right - width, inner.center().y() - height // 2, width, height)
        right -= width + HALF
    right -= GRID if buttons else 0
    left = inner.left() + _ICON + GRID
    word = max(body.horizontalAdvance(text) for text in WORDS.values()) + 2 * GRID
    amount_width = min(
        max(small.horizontalAdvance(progress_text(entry)), 16 * GRID), max(0, (right - left - word) // 2)
    )
    amount = QRect(right - amount_width, inner.top(), amount_width, inner.height() // 2)
    texts = left + word
    free = max(0, amount.left() - 2 * GRID - texts)
    return Places(
        icon=QRect(inner.left(), inner.center().y() - _ICON // 2, _ICON, _ICON),
        state=QRect(left, inner.top(), word, inner.height()),
        title=QRect(texts, inner.top(), free, inner.height() // 2),
        remark=QRect(texts, inner.center().y(), free, inner.height() // 2),
        amount=amount,
        bar=QRect(amount.left(), inner.top() + inner.height() * 3 // 4 - _BAR // 2, amount_width, _BAR),
        buttons=buttons,
    )


class JobPainter(QStyledItemDelegate):
    """Delegate of the job list; `hovered` is the button under the mouse: the job's id and the button's name."""

    hovered: tuple[str, str] | None = None

    def sizeHint(self, _option: QStyleOptionViewItem, _index: QModelIndex | QPersistentModelIndex) -> QSize:
        """Return the height of two lines; the list sets the width."""
        return QSize(
            GRID * 60, QFontMetrics(font("body")).height() + QFontMetrics(font("small")).height() + GRID + HALF
        )

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """Draw one row."""
        entry: JobEntry = index.data(ENTRY)
        t = tokens()
        where = places(option.rect, entry)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if option.state & QStyle.StateFlag.State_Selected:
            painter.fillRect(option.rect, QColor(t.accent_soft))
        drawing = _DRAWN.get(entry.phase, entry.phase)
        painter.drawPixmap(where.icon.topLeft(), _drawing(drawing, state_colour(drawing).name()))
        _text(painter, where.state, state_word(entry), t.text)
        remark_text = remark(entry)
        title = where.title if remark_text else where.title.united(where.remark)
        _text(painter, title, entry.title, t.text, bold=True)
        _text(painter, where.remark, remark_text, t.failed if entry.error else t.muted, small=True)
        shows_bar = entry.begun and not entry.serves
        amount = where.amount if shows_bar else where.amount.adjusted(0, 0, 0, where.amount.height())
        _text(painter, amount, progress_text(entry), t.muted, small=True, right=True)
        if shows_bar:
            _bar(painter, where.bar, entry)
        for name, rect in where.buttons.items():
            hovered = self.hovered == (entry.id, name)
            _button(painter, rect, BUTTON_WORDS[name], enabled=entry.phase != "cancelling", hovered=hovered)
        if option.state & QStyle.StateFlag.State_HasFocus:
            painter.setPen(QPen(QColor(t.accent), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(option.rect.adjusted(2, 1, -2, -1), HALF, HALF)
        painter.restore()


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


def _button(painter: QPainter, rect: QRect, text: str, *, enabled: bool, hovered: bool) -> None:
    t = tokens()
    painter.setPen(QColor(t.border if enabled else t.line))
    painter.setBrush(QColor(t.accent_soft if hovered and enabled else t.raised if enabled else t.window))
    painter.drawRoundedRect(rect, HALF, HALF)
    painter.setFont(font("small"))
    painter.setPen(QColor(t.text if enabled else t.disabled))
    painter.drawText(rect, Qt.AlignmentFlag.AlignCenter, text)
