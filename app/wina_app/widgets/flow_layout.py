"""A row of widgets that wraps, so that large texts and narrow windows cut nothing off.

superqt's flow layout has no stretch, no right alignment and no hidden widgets, and importing superqt takes a sixth of
the time until the first window.
"""

from PySide6.QtCore import QPoint, QRect, QSize
from PySide6.QtWidgets import QLayout, QLayoutItem, QSpacerItem, QWidget

from wina_app.style.theme import GRID


class FlowLayout(QLayout):
    """Widgets at their preferred widths in as many lines as they need, aligned to the left, or with `right` to the
    right; `add_stretch` fills the rest of a line."""

    def __init__(self, parent: QWidget | None = None, *, spacing: int = GRID, right: bool = False) -> None:
        super().__init__()
        self._right = right
        self._items: list[QLayoutItem] = []
        self.setContentsMargins(0, 0, 0, 0)
        self.setSpacing(spacing)
        if parent is not None:
            parent.setLayout(self)

    def add_stretch(self) -> None:
        """Move the following widgets of the same line to its right end."""
        self.addItem(QSpacerItem(0, 0))

    def addItem(self, item: QLayoutItem) -> None:
        self._items.append(item)
        self.invalidate()

    def count(self) -> int:
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        lines = self._lines(width)
        return sum(map(_height, lines)) + self.spacing() * max(len(lines) - 1, 0)

    def sizeHint(self) -> QSize:
        """Return the size of a single line."""
        visible = self._visible_items()
        gaps = self.spacing() * max(len(visible) - 1, 0)
        return QSize(sum(item.sizeHint().width() for item in visible) + gaps, _height(visible))

    def minimumSize(self) -> QSize:
        visible = self._visible_items()
        return QSize(max((item.minimumSize().width() for item in visible), default=0), _height(visible))

    def setGeometry(self, area: QRect) -> None:
        """Place all widgets, those of a line centred vertically."""
        super().setGeometry(area)
        top = area.top() + max(area.height() - self.heightForWidth(area.width()), 0) // 2
        for line in self._lines(area.width()):
            high, widgets = _height(line), [item for item in line if item.spacerItem() is None]
            widths = [_width(item, area.width()) for item in widgets]
            left = area.width() - sum(widths) - self.spacing() * (len(widgets) - 1)
            x = area.left() + (left if self._right else 0)
            for item in line:
                if item.spacerItem() is not None:
                    x += 0 if self._right else left
                    continue
                hint = item.sizeHint()
                width, height = _width(item, area.width()), min(hint.height(), high)
                item.setGeometry(QRect(QPoint(x, top + (high - height) // 2), QSize(width, height)))
                x += width + self.spacing()
            top += high + self.spacing()

    def _visible_items(self) -> list[QLayoutItem]:
        return [item for item in self._items if item.spacerItem() is None and not item.isEmpty()]

    def _lines(self, width: int) -> list[list[QLayoutItem]]:
        lines: list[list[QLayoutItem]] = []
        room = 0
        for item in self._items:
            if item.spacerItem() is not None:
                if lines:
                    lines[-1].append(item)
            elif not item.isEmpty():
                needed = _width(item, width)
                if not lines or needed > room:
                    lines.append([])
                    room = width
                lines[-1].append(item)
                room -= needed + self.spacing()
        return lines


def _width(item: QLayoutItem, room: int) -> int:
    return max(min(item.sizeHint().width(), room), item.minimumSize().width())


def _height(line: list[QLayoutItem]) -> int:
    return max((item.sizeHint().height() for item in line if item.spacerItem() is None), default=0)
