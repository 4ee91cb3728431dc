"""Painter of list entries: a title of at most two lines over a line of details."""

from PySide6.QtCore import QEvent, QModelIndex, QObject, QPersistentModelIndex, QRect, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QTextLayout, QTextOption
from PySide6.QtWidgets import QAbstractItemView, QStyle, QStyledItemDelegate, QStyleOptionViewItem

from wina_app.style.theme import GRID, HALF, font, notifier, tokens

DETAIL = Qt.ItemDataRole.UserRole + 1
"""Role of an entry's details; None for a heading."""
_ICON = 16
_LINES = 2
_Index = QModelIndex | QPersistentModelIndex


class TwoLineDelegate(QStyledItemDelegate):
    """Delegate of a list without columns. An entry has its decoration at the right; a heading is one small line."""

    def __init__(self, view: QAbstractItemView) -> None:
        super().__init__(view)
        self._view = view
        view.viewport().installEventFilter(self)
        notifier().changed.connect(view.scheduleDelayedItemsLayout)

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:
        """Lay the entries out again in another width."""
        if event.type() == QEvent.Type.Resize:
            self._view.scheduleDelayedItemsLayout()
        return False  # Qt's own filter would take the viewport for an editor

    def sizeHint(self, _option: QStyleOptionViewItem, index: _Index) -> QSize:
        """Return the height of a heading, or of the title's lines and the details."""
        body, small = (QFontMetrics(font(size)).height() for size in ("body", "small"))
        if index.data(DETAIL) is None:
            return QSize(0, small + 2 * GRID)
        width = _text_area(QRect(0, 0, self._view.viewport().width(), 0)).width()
        return QSize(0, len(wrapped(index.data(), font(), width)) * body + small + GRID + HALF)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: _Index) -> None:
        """Paint the lines, the last of the title elided to the width."""
        area: QRect = option.rect
        if index.data(DETAIL) is None:
            text_area = area.adjusted(GRID, GRID, -GRID, 0)
            _write(painter, text_area, index.data(), font("small", bold=True), tokens().muted)
            return
        painter.save()
        if option.state & QStyle.StateFlag.State_Selected:
            painter.fillRect(area, QColor(tokens().accent_soft))
        drawing = index.data(Qt.ItemDataRole.DecorationRole)
        if drawing is not None:
            top = area.top() + (area.height() - _ICON) // 2
            drawing.paint(painter, QRect(area.right() - GRID - _ICON, top, _ICON, _ICON))
        text_area = _text_area(area)
        body = QFontMetrics(font()).height()
        line = QRect(text_area.topLeft(), QSize(text_area.width(), body))
        for text in wrapped(index.data(), font(), text_area.width()):
            _write(painter, line, text, font(), tokens().text)
            line.translate(0, body)
        line.setBottom(text_area.bottom())
        _write(painter, line, index.data(DETAIL), font("small", tabular=True), tokens().muted)
        painter.restore()


def wrapped(text: str, face: QFont, width: int) -> list[str]:
    """Return the text in at most two lines of a width in pixels, with an ellipsis where it is longer."""
    layout = QTextLayout(text, face)
    layout.setTextOption(QTextOption(Qt.AlignmentFlag.AlignLeft))
    starts: list[int] = []
    layout.beginLayout()
    while len(starts) < _LINES and (line := layout.createLine()).isValid():
        line.setLineWidth(width)
        starts.append(line.textStart())
    layout.endLayout()
    lines = [text[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)]
    return [QFontMetrics(face).elidedText(line, Qt.TextElideMode.ElideRight, width) for line in lines] or [""]


def _text_area(area: QRect) -> QRect:
    return area.adjusted(2 * GRID, HALF + 2, -2 * GRID - _ICON, -HALF - 2)


def _write(painter: QPainter, area: QRect, text: str, face: QFont, colour: str) -> None:
    painter.setFont(face)
    painter.setPen(QColor(colour))
    elided = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, area.width())
    painter.drawText(area, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, elided)
