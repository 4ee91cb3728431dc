"""Bytes read for a generated token as stacked bars: a bar per rotation, a piece per part of the model."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from wina_app.pages.model.cost import NAMES, bytes_text
from wina_app.style.theme import GRID, HALF, font, notifier, tokens
from wina_app.style.translation import tr
from wina_app.widgets.plain_text import plain_tip
from wina_core.records import CostRecord, CostRow

PARTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "weights": (tr("gated weights"), ("projections",)),
    "low rank": (tr("low-rank part"), ("low rank",)),
    "head": (tr("head and embedding"), ("head", "embedding")),
    "cache": (tr("KV cache"), ("attention",)),
    "shortcuts": (tr("rotation's shortcuts"), ("shortcuts",)),
    "rest": (tr("gating, norms and biases"), ("gating", "norms", "elementwise")),
}
"""Pieces of a bar: name, and the terms of the cost that they sum up."""
_EDGE = 4
"""Pixels between a bar and its number."""


@dataclass(frozen=True)
class Stack:
    """One bar: its pieces in bytes, by the keys of PARTS, without empty ones."""

    name: str
    pieces: dict[str, float]
    dense: CostRow
    """The dense model's cost, which gives the unit."""

    @property
    def total(self) -> float:
        """Return the bytes of all pieces."""
        return sum(self.pieces.values())

    @property
    def number(self) -> str:
        """Return the total with its unit."""
        return bytes_text(self.total, self.dense)

    @property
    def text(self) -> str:
        """Return the pieces in words."""
        texts = [f"{PARTS[key][0]} {bytes_text(value, self.dense)}" for key, value in self.pieces.items()]
        return tr("{rotation}: {total} ({parts})", rotation=self.name, total=self.number, parts=", ".join(texts))


def stacks(record: CostRecord) -> tuple[Stack, ...]:
    """Return a bar for the dense model and one for each rotation."""
    return tuple(Stack(NAMES[row.rotation], _pieces(row), record.rows[0]) for row in record.rows)


def _pieces(row: CostRow) -> dict[str, float]:
    bytes_ = {term.name: term.bytes for term in row.terms}
    sums = {key: sum(bytes_.get(name, 0.0) for name in names) for key, (_, names) in PARTS.items()}
    return {key: value for key, value in sums.items() if value > 0}


class CostBars(QWidget):
    """Stacked bars on one scale that begins at zero, above the legend of their pieces."""

    def __init__(self) -> None:
        super().__init__()
        self._stacks: tuple[Stack, ...] = ()
        self._name = tr("Bytes read for a generated token, by part")
        self.setAccessibleName(self._name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        notifier().changed.connect(self.updateGeometry)

    def show_stacks(self, bars: Sequence[Stack]) -> None:
        """Replace all bars."""
        self._stacks = tuple(bars)
        self.setAccessibleDescription("; ".join(stack.text for stack in bars))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """Return the size of one line per bar and of the legend."""
        return QSize(GRID * 60, len(self._stacks) * self._row_height() + self._legend_height(self.width()))

    def minimumSizeHint(self) -> QSize:
        """Return the full height: nothing scrolls."""
        return QSize(GRID * 40, self.sizeHint().height())

    def event(self, event: QEvent) -> bool:
        """Show the pieces of the bar under the mouse."""
        if isinstance(event, QHelpEvent):
            row = event.pos().y() // self._row_height()
            if row < len(self._stacks):
                QToolTip.showText(event.globalPos(), plain_tip(self._stacks[row].text), self)
                return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002 - Qt's signature
        """Paint name, bar and total of every line, then the legend."""
        if not self._stacks:
            return
        with QPainter(self) as painter:
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setFont(font(tabular=True))
            self._paint_bars(painter)
            self._paint_legend(painter)

    def _paint_bars(self, painter: QPainter) -> None:
        t, metrics, height = tokens(), QFontMetrics(painter.font()), self._row_height()
        names = max(metrics.horizontalAdvance(stack.name) for stack in self._stacks) + GRID * 2
        numbers = max(metrics.horizontalAdvance(stack.number) for stack in self._stacks) + GRID
        scale = max(GRID * 6, self.width() - names - numbers) / max(stack.total for stack in self._stacks)
        left = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
        for row, stack in enumerate(self._stacks):
            top, x = row * height, float(names)
            painter.setPen(QColor(t.text))
            painter.drawText(QRectF(0, top, names, height), left, stack.name)
            painter.setPen(Qt.PenStyle.NoPen)
            for key, value in stack.pieces.items():
                painter.setBrush(_colour(key))
                painter.drawRect(QRectF(x, top + HALF, value * scale, height - GRID))
                x += value * scale
            painter.setPen(QColor(t.text))
            painter.drawText(QRectF(x + _EDGE, top, numbers, height), left, stack.number)

    def _paint_legend(self, painter: QPainter) -> None:
        painter.setFont(font("small"))
        top = len(self._stacks) * self._row_height()
        height = QFontMetrics(painter.font()).height() + HALF
        for key, x, line in self._legend(self.width()):
            y = top + line * height
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(_colour(key))
            painter.drawRect(QRectF(x, y + height / 2 - HALF, GRID, GRID))
            painter.setPen(QColor(tokens().muted))
            painter.drawText(
                QRectF(x + GRID + HALF, y, self.width(), height), Qt.AlignmentFlag.AlignVCenter, PARTS[key][0]
            )

    def _legend(self, width: int) -> list[tuple[str, int, int]]:
        """Return key, left edge and line of each entry, as many in a line as fit."""
        metrics, used = QFontMetrics(font("small")), {key for stack in self._stacks for key in stack.pieces}
        entries, x, line = [], 0, 0
        for key in PARTS:
            if key in used:
                needed = GRID + HALF + metrics.horizontalAdvance(PARTS[key][0])
                if x and x + needed > width:
                    x, line = 0, line + 1
                entries.append((key, x, line))
                x += needed + 2 * GRID
        return entries

    def _legend_height(self, width: int) -> int:
        lines = 1 + max((line for _, _, line in self._legend(width)), default=-1)
        return lines * (QFontMetrics(font("small")).height() + HALF)

    def _row_height(self) -> int:
        return QFontMetrics(font()).height() + GRID


def _colour(key: str) -> QColor:
    t = tokens()
    soft = QColor(t.accent)
    soft.setAlphaF(0.5)
    return {
        "weights": QColor(t.accent),
        "low rank": soft,
        "head": QColor(t.dense),
        "cache": QColor(t.done),
        "shortcuts": QColor(t.warning),
        "rest": QColor(t.border),
    }[key]
