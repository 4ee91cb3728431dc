"""Painting of a heatmap: cells, selection, cursor and headings in the theme's colours."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache

import numpy as np
from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPen, QPixmap, QRegion

from wina_app.heatmap.geometry import CORNER, GAP, NOTE_GAP, TRIANGLE_WIDTH, Detail, HeatmapGeometry, RowDetails
from wina_app.heatmap.selection import Selection
from wina_app.plots.colour_maps import ColourScale, hatch
from wina_app.style.theme import GRID, HALF, font, text_on, tokens
from wina_core.specs.plans import Cell

LOCK_WIDTH, LOCK_INSET = 7, 5
"""Width of the padlock in a locked cell, and its distance from the cell's end with the selection's outline."""
_ROOMY = 3 * GRID
"""Height of cells with room for a thicker outline."""
_CARET = "\N{LEFT ONE EIGHTH BLOCK}"

_TEXTS = 4096
"""Cached widths of texts: to measure one takes as long as to draw it."""
_TILES = 1536
"""Cached pictures of plain cells: one takes 10 kB at 1920 x 1080, and is drawn in a fifth of the time of its text."""


Notes = tuple[tuple[str, ...], ...]
"""Small second text of each cell, [row][column]; empty for none."""


@dataclass(frozen=True)
class HeatmapLook:
    """The input of one painting."""

    geometry: HeatmapGeometry
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: np.ndarray
    scale: ColourScale
    selection: Selection
    focused: bool
    typed: str = ""
    """Text being typed into the cursor's cell."""
    locked: frozenset[Cell] = frozenset()
    notes: Notes = ()
    expandable: frozenset[int] = frozenset()
    """Rows that have details."""
    expanded: frozenset[int] = frozenset()
    """Those whose details are shown."""
    details: Mapping[int, RowDetails] = field(default_factory=dict)
    """Details by row."""
    reading: Detail | None = None
    """The cursor on a line below a row."""

    def note(self, cell: Cell) -> str:
        return self.notes[cell[0]][cell[1]] if self.notes else ""


class _Type:
    """Text widths in one font, cached."""

    def __init__(self, face: QFont) -> None:
        self.face = face
        metrics = QFontMetricsF(face)
        # A lambda: of a bound method of Qt's, `lru_cache` would copy the docstring, which PySide makes in 0.1 s.
        self.width = lru_cache(_TEXTS)(lambda text: metrics.horizontalAdvance(text))
        self.height = metrics.height()
        self.baseline = (metrics.ascent() - metrics.descent()) / 2
        """Pixels of the baseline below the middle of a line."""


_type = lru_cache(8)(_Type)


def paint_heatmap(painter: QPainter, region: QRegion, view: QRect, look: HeatmapLook) -> None:
    """Paint the cells and headings that `region` of the viewport `view` touches."""
    geometry, cells, area = look.geometry, look.selection.cells, region.boundingRect()
    painter.save()
    painter.setFont(font(tabular=True))
    painter.setClipRect(QRectF(view).adjusted(geometry.header_width, geometry.header_height, 0, 0) & QRectF(area))
    type_ = _type(painter.font())
    across = {column: geometry.cell(0, column) for column in geometry.columns_in(area)}
    down = {row: geometry.cell(row, 0) for row in geometry.rows_in(area)}
    pieces: Iterable[QRect] = region  # type: ignore[assignment]  # Qt's stubs lack its iterator
    touched = dict.fromkeys(
        (row, column) for piece in pieces for row in geometry.rows_in(piece) for column in geometry.columns_in(piece)
    )
    marked = {*cells, *look.locked, look.selection.cursor}
    columns = {column: (rect.left(), rect.width()) for column, rect in across.items()}
    rows = {row: (rect.top(), rect.height()) for row, rect in down.items()}
    # Plain floats: indexing the array would make a NumPy scalar for each cell.
    values, ratio, sources = look.values.tolist(), geometry.ratio, dict[tuple[float, float], QRectF]()
    for cell in touched:  # hundreds in each step of a stroke that keeps the budget
        (left, width), (top, height), value = columns[cell[1]], rows[cell[0]], values[cell[0]][cell[1]]
        rect = QRectF(left, top, width, height)
        if not region.intersects(rect.toAlignedRect()):  # rounding counts cells beside a piece, too
            continue
        if cell in marked or math.isnan(value):
            _paint_marked(painter, type_, look, cell, rect, cells)
            continue
        tile = _value_tile(type_, look, value, look.note(cell), rect)
        source = sources.get((width, height))
        if source is None:  # the tile covers whole logical pixels, of which the cell's own size is drawn
            source = sources[width, height] = QRectF(0, 0, width * ratio, height * ratio)
        painter.drawPixmap(rect.topLeft(), tile, source)
    for row in look.expanded & rows.keys():
        _paint_details(painter, type_, region, look, row)
    painter.restore()
    if area.left() < geometry.header_width or area.top() < geometry.header_height:
        _paint_headings(painter, area, view, look, cells)


def paint_remark(painter: QPainter, geometry: HeatmapGeometry, view: QRect, text: str) -> None:
    """Paint a sentence in a box in the middle of the visible cells."""
    body = QRectF(geometry.header_width, geometry.header_height, geometry.body_width, geometry.body_height)
    body &= QRectF(view)
    painter.setFont(font())
    wrap = Qt.AlignmentFlag.AlignCenter | Qt.TextFlag.TextWordWrap
    room = body.adjusted(3 * GRID, GRID, -3 * GRID, -GRID)
    box = painter.boundingRect(room, wrap, text).adjusted(-2 * GRID, -GRID, 2 * GRID, GRID)
    painter.fillRect(box, QColor(tokens().surface))
    painter.setPen(QColor(tokens().text))
    painter.drawText(room, wrap, text)


def _paint_marked(
    painter: QPainter, type_: _Type, look: HeatmapLook, cell: Cell, rect: QRectF, selected: frozenset[Cell]
) -> None:
    value = float(look.values[cell])
    if math.isnan(value):
        background = QColor(tokens().raised)
        hatch(painter, rect)
    else:
        background = look.scale.colour(value)
        painter.fillRect(rect, background)
    ink = _ink(background.rgb())
    typing = bool(look.typed) and cell == look.selection.cursor
    if typing:
        painter.fillRect(rect, QColor(tokens().surface))
        _paint_text(painter, type_, rect, look.typed + _CARET, QColor(tokens().text))
    elif not math.isnan(value):
        text, note = look.scale.text(value), look.note(cell)
        beside = LOCK_WIDTH + LOCK_INSET if cell in look.locked else 0
        # The text keeps to the middle of the cell unless the padlock needs its room.
        tight = _width(type_, text, note) + 2 * beside > rect.width()
        _paint_texts(painter, type_, rect.adjusted(0, 0, -beside, 0) if tight else rect, text, note, ink)
    if cell in look.locked:
        _paint_lock(painter, rect, ink)
    if cell in selected:
        _paint_outline(painter, rect, cell, selected, ink)
    if cell == look.selection.cursor and (look.focused or typing):
        painter.setPen(QPen(QColor(tokens().text) if typing else ink, 1, Qt.PenStyle.DotLine))
        inset = 4.5 if rect.height() >= _ROOMY else 2.5
        painter.drawRect(rect.adjusted(inset, inset, -inset, -inset))


def _paint_details(painter: QPainter, type_: _Type, region: QRegion, look: HeatmapLook, row: int) -> None:
    """Paint the lines below a row; columns without details stay blank."""
    geometry, details = look.geometry, look.details[row]
    for line in geometry.details_in(row, region.boundingRect()):
        for column in details.columns:
            cell, value = Detail(row, line, column), float(details.values[line, column])
            rect = geometry.detail(cell)
            if not region.intersects(rect.toAlignedRect()):
                continue
            if math.isnan(value):
                hatch(painter, rect)
            else:
                note = details.notes[line][column] if details.notes else ""
                source = QRectF(0, 0, rect.width() * geometry.ratio, rect.height() * geometry.ratio)
                painter.drawPixmap(rect.topLeft(), _value_tile(type_, look, value, note, rect), source)
            if cell == look.reading:
                background = QColor(tokens().raised) if math.isnan(value) else look.scale.colour(value)
                painter.setPen(QPen(_ink(background.rgb()), 1, Qt.PenStyle.DotLine))
                painter.drawRect(rect.adjusted(2.5, 2.5, -2.5, -2.5))


def _value_tile(type_: _Type, look: HeatmapLook, value: float, note: str, rect: QRectF) -> QPixmap:
    """Return a picture of a value, in whole pixels that cover `rect`."""
    colour, ratio = look.scale.colour(value).rgb(), look.geometry.ratio
    return _tile(type_, look.scale.text(value), note, colour, math.ceil(rect.width()), math.ceil(rect.height()), ratio)


@lru_cache(_TILES)
def _tile(type_: _Type, text: str, note: str, background: int, width: int, height: int, ratio: float) -> QPixmap:
    """Return a picture of an unmarked cell."""
    tile = QPixmap(math.ceil(width * ratio), math.ceil(height * ratio))
    tile.setDevicePixelRatio(ratio)
    tile.fill(QColor(background))
    painter = QPainter(tile)
    painter.setFont(type_.face)
    _paint_texts(painter, type_, QRectF(0, 0, width, height), text, note, _ink(background))
    painter.end()
    return tile


@cache  # by the packed colour, since QColor has no hash
def _ink(background: int) -> QColor:
    return text_on(QColor(background))


def _paint_text(painter: QPainter, type_: _Type, rect: QRectF, text: str, ink: QColor) -> None:
    room = rect.width() - type_.width(text)
    if room >= 2:
        painter.setPen(ink)
        painter.drawText(QPointF(rect.left() + room / 2, rect.center().y() + type_.baseline), text)


def _width(type_: _Type, text: str, note: str) -> float:
    return type_.width(text) + (_type(_note_font()).width(note) + NOTE_GAP if note else 0.0)


def _note_font() -> QFont:
    return font("small", tabular=True)


def _paint_texts(painter: QPainter, type_: _Type, rect: QRectF, text: str, note: str, ink: QColor) -> None:
    """Paint a value with its note below it, or beside it in a low cell; only the value where there is no room."""
    small = _type(_note_font())
    line = type_.height + small.height
    if note and rect.height() >= line:
        top = rect.top() + (rect.height() - line) / 2
        _paint_text(painter, type_, QRectF(rect.left(), top, rect.width(), type_.height), text, ink)
        painter.setFont(small.face)
        _paint_text(painter, small, QRectF(rect.left(), top + type_.height, rect.width(), small.height), note, ink)
        painter.setFont(type_.face)
    elif note and _width(type_, text, note) + 2 <= rect.width():
        left = rect.left() + (rect.width() - _width(type_, text, note)) / 2
        baseline = rect.center().y() + type_.baseline
        painter.setPen(ink)
        painter.drawText(QPointF(left, baseline), text)
        painter.setFont(small.face)
        painter.drawText(QPointF(left + type_.width(text) + NOTE_GAP, baseline), note)
        painter.setFont(type_.face)
    else:
        _paint_text(painter, type_, rect, text, ink)


def _paint_lock(painter: QPainter, rect: QRectF, ink: QColor) -> None:
    """Paint a padlock at the right end in the cell's text colour."""
    left, middle = rect.right() - LOCK_WIDTH - LOCK_INSET, rect.center().y()
    painter.fillRect(QRectF(left, middle - 1, LOCK_WIDTH, 5), ink)
    painter.setPen(QPen(ink, 1.5))
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.drawArc(QRectF(left + 1.25, middle - 4.25, LOCK_WIDTH - 2.5, 7), 0, 180 * 16)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)


def _paint_outline(painter: QPainter, rect: QRectF, cell: Cell, selected: frozenset[Cell], ink: QColor) -> None:
    """Paint the selection's edge: a bar of the accent, and inside it a line that shows on any colour."""
    row, column = cell
    left = (row, column - 1) not in selected
    right = (row, column + 1) not in selected
    top = (row - 1, column) not in selected
    bottom = (row + 1, column) not in selected
    inner = 2 if rect.height() >= _ROOMY else 1
    for inset, width, colour in ((2, inner, ink), (0, 2, QColor(tokens().accent))):
        frame = rect.adjusted(inset * left, inset * top, -inset * right, -inset * bottom)
        if left:
            painter.fillRect(QRectF(frame.left(), frame.top(), width, frame.height()), colour)
        if right:
            painter.fillRect(QRectF(frame.right() - width, frame.top(), width, frame.height()), colour)
        if top:
            painter.fillRect(QRectF(frame.left(), frame.top(), frame.width(), width), colour)
        if bottom:
            painter.fillRect(QRectF(frame.left(), frame.bottom() - width, frame.width(), width), colour)


def _paint_headings(painter: QPainter, area: QRect, view: QRect, look: HeatmapLook, selected: frozenset[Cell]) -> None:
    geometry, surface = look.geometry, QColor(tokens().surface)
    rows, columns = {row for row, _ in selected}, {column for _, column in selected}
    painter.fillRect(QRectF(0, 0, view.width(), geometry.header_height - GAP), surface)
    painter.fillRect(QRectF(0, 0, geometry.header_width - GAP, view.height()), surface)
    plain, bold = font("small", tabular=True), font("small", bold=True, tabular=True)

    def heading(rect: QRectF, text: str, lit: bool, align: Qt.AlignmentFlag) -> None:
        _heading(painter, rect, text, bold if lit else plain, tokens().text if lit else tokens().muted, align)

    painter.save()
    painter.setClipRect(QRectF(0, geometry.header_height, geometry.header_width, view.height()))
    for row in geometry.rows_in(area):
        rect = geometry.row_header(row).adjusted(0, 0, -GRID, 0)
        heading(rect, look.rows[row], row in rows, Qt.AlignmentFlag.AlignRight)
        if row in look.expandable:
            _paint_triangle(painter, rect, row in look.expanded)
        for line in geometry.details_in(row, area) if row in look.expanded else ():
            below = geometry.row_header(row, line).adjusted(0, 0, -GRID, 0)
            lit = look.reading is not None and (row, line) == look.reading[:2]
            heading(below, look.details[row].names[line], lit, Qt.AlignmentFlag.AlignRight)
    painter.setClipRect(QRectF(geometry.header_width, 0, view.width(), geometry.header_height))
    for column in geometry.columns_in(area):
        rect = geometry.column_header(column).adjusted(0, 0, 0, -HALF)
        heading(rect, look.columns[column], column in columns, Qt.AlignmentFlag.AlignHCenter)
    painter.restore()
    corner = QRectF(0, 0, geometry.header_width - GRID, geometry.header_height - HALF)
    heading(corner, CORNER, False, Qt.AlignmentFlag.AlignRight)


def _paint_triangle(painter: QPainter, rect: QRectF, is_expanded: bool) -> None:
    """Paint a disclosure triangle at the left end of a row's heading: down if its details are shown, else right."""
    middle = QPointF(rect.left() + TRIANGLE_WIDTH / 2, rect.center().y())
    points = ((-4, -2), (4, -2), (0, 3)) if is_expanded else ((-2, -4), (-2, 4), (3, 0))
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(tokens().text))
    painter.drawPolygon([middle + QPointF(x, y) for x, y in points])
    painter.restore()


def _heading(painter: QPainter, rect: QRectF, text: str, face: QFont, colour: str, align: Qt.AlignmentFlag) -> None:
    painter.setFont(face)
    painter.setPen(QColor(colour))
    painter.drawText(rect, align | Qt.AlignmentFlag.AlignVCenter, text)
