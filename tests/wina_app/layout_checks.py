"""What is cut off, and what lies over something else, in a window as it is shown."""

import itertools
import re
from collections.abc import Iterator

from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractScrollArea,
    QAbstractSpinBox,
    QComboBox,
    QHeaderView,
    QLabel,
    QLineEdit,
    QMainWindow,
    QMenuBar,
    QScrollArea,
    QSplitter,
    QStyle,
    QStyleOptionComboBox,
    QTabBar,
    QToolButton,
    QWidget,
)
from wina_app.plots.data_plot import DataPlot
from wina_app.style.theme import font
from wina_app.widgets.controls import ElidedLabel

_SLACK = 1
"""Pixels that rounding may cost."""
_HEADING_PADDING = 8
_ICON_ONLY = Qt.ToolButtonStyle.ToolButtonIconOnly
_OVERLAYS = ("Toast", "MessageBar", "QSizeGrip", "QRubberBand", "QTipLabel")
"""Lie over other things by intention."""


def clipped_texts(root: QWidget) -> list[str]:
    """One line for every text of the visible widgets below `root`, itself included, that is not shown in full."""
    return [f"{_path(widget, root)}: {said}" for widget in _visible(root) for said in _faults(widget, root)]


def overlaps(root: QWidget) -> list[str]:
    """One line for every two visible siblings that lie over each other."""
    found = []
    for parent in _visible(root):
        if isinstance(parent, QAbstractScrollArea | QMainWindow | QSplitter):
            continue  # Qt lays out their insides itself, with handles that reach over their neighbours
        children = [child for child in parent.children() if isinstance(child, QWidget) and _counts(child)]
        for one, other in itertools.combinations(children, 2):
            common = one.geometry().intersected(other.geometry())
            if common.width() > _SLACK and common.height() > _SLACK:
                found.append(f"{_path(one, root)} and {_path(other, root)} share {common.width()} x {common.height()}")
    return found


def _counts(child: QWidget) -> bool:
    return child.isVisible() and not child.isWindow() and type(child).__name__ not in _OVERLAYS


def _visible(root: QWidget) -> Iterator[QWidget]:
    if root.isVisible():
        yield root
        for child in root.children():
            if isinstance(child, QWidget) and not child.isWindow():
                yield from _visible(child)


def _path(widget: QWidget, root: QWidget) -> str:
    names = []
    while widget is not None and widget is not root:
        text = widget.text() if isinstance(widget, QLabel | QAbstractButton) else ""
        names.append(f"{type(widget).__name__}{f'[{(text or widget.accessibleName())[:40]}]'}")
        widget = widget.parentWidget()
    return " < ".join(names[:4])


def _faults(widget: QWidget, root: QWidget) -> Iterator[str]:
    said = ""
    match widget:
        case ElidedLabel():
            said = "" if widget.toolTip() or not widget.whole() else "elided without a tooltip"
        case QLabel():
            said = _label(widget)
        case QComboBox():
            said = _combo(widget)
        case QAbstractButton():
            said = _button(widget)
        case QLineEdit():
            said = _line(widget)
        case QHeaderView():
            yield from _header(widget)
        case QTabBar():
            yield from _tabs(widget)
        case DataPlot():
            yield from _titles(widget)
        case QMenuBar():
            said = _too_small(widget.sizeHint().width(), widget.width(), "wide")
    if said:
        yield said
    has_text = isinstance(widget, QLabel | QAbstractButton | QComboBox | QLineEdit) and not _is_inside_another(widget)
    if has_text and (cut := _cut_by_an_ancestor(widget, root)):
        yield cut


def _is_inside_another(widget: QWidget) -> bool:
    return isinstance(widget.parent(), QAbstractSpinBox | QComboBox | QAbstractItemView | QLineEdit)


def _too_small(needed: int, has: int, what: str) -> str:
    return f"needs {needed} px, is {has} px {what}" if needed > has + _SLACK else ""


def _label(label: QLabel) -> str:
    if not label.text():
        return ""
    if not label.wordWrap():
        metrics, room = label.fontMetrics(), label.contentsRect()
        wide = max(map(metrics.horizontalAdvance, label.text().splitlines()))
        high = metrics.height() * len(label.text().splitlines())
        return _too_small(wide, room.width(), "wide") or _too_small(high, room.height(), "high")
    high = _too_small(label.heightForWidth(label.width()), label.height(), "high")
    if label.textFormat() == Qt.TextFormat.RichText:
        return high
    longest = max(label.fontMetrics().horizontalAdvance(word) for word in re.split(r"(?<=[-/])|\s", label.text()))
    return high or _too_small(longest, label.contentsRect().width(), "wide for its longest word")


def _button(button: QAbstractButton) -> str:
    if not button.text() or (isinstance(button, QToolButton) and button.toolButtonStyle() == _ICON_ONLY):
        return ""
    hint = button.sizeHint()
    if button.text().endswith("\N{HORIZONTAL ELLIPSIS}") and button.text()[:-1] in button.toolTip():
        return ""
    return _too_small(hint.width(), button.width(), "wide") or _too_small(hint.height(), button.height(), "high")


def _combo(box: QComboBox) -> str:
    option = QStyleOptionComboBox()
    box.initStyleOption(option)
    field = box.style().subControlRect(
        QStyle.ComplexControl.CC_ComboBox, option, QStyle.SubControl.SC_ComboBoxEditField, box
    )
    text = box.currentText()
    icon = box.iconSize().width() + 4 if not box.itemIcon(box.currentIndex()).isNull() else 0
    if text in box.toolTip() and text:
        return ""
    return _too_small(box.fontMetrics().horizontalAdvance(text) + icon, field.width(), f"wide for {text!r}") or (
        _too_small(box.fontMetrics().height(), field.height(), "high")
    )


def _line(line: QLineEdit) -> str:
    """Its text scrolls; what it says while it is empty does not."""
    margins = line.textMargins()
    room = line.contentsRect().width() - margins.left() - margins.right()
    if isinstance(line.parent(), QAbstractSpinBox):
        return _too_small(line.fontMetrics().horizontalAdvance(line.displayText()), room, f"wide for {line.text()!r}")
    if line.text() or line.toolTip():
        return ""
    return _too_small(line.fontMetrics().horizontalAdvance(line.placeholderText()), room, "wide for its placeholder")


def _header(header: QHeaderView) -> Iterator[str]:
    model = header.model()
    if model is None:
        return
    across = header.orientation() == Qt.Orientation.Horizontal
    for section in range(header.count()):
        if header.isSectionHidden(section) or header.sectionViewportPosition(section) > header.width():
            continue
        text = model.headerData(section, header.orientation())
        tip = model.headerData(section, header.orientation(), Qt.ItemDataRole.ToolTipRole)
        if not text or (tip and str(text) in str(tip)):
            continue
        # Qt's own measure takes every heading for bold and sorted.
        padding = 2 if header.parent().property("role") == "matrix" else _HEADING_PADDING
        metrics, lines = QFontMetrics(font("small")), str(text).splitlines()
        wide, high = max(map(metrics.horizontalAdvance, lines)) + 2 * padding, len(lines) * metrics.height()
        size = header.sectionSize(section)
        width, height = (size, header.height()) if across else (header.width(), size)
        said = _too_small(wide, width, f"wide for {text!r}") or _too_small(high, height, f"high for {text!r}")
        if said:
            yield said


def _tabs(bar: QTabBar) -> Iterator[str]:
    for index in range(bar.count()):
        needed = bar.fontMetrics().horizontalAdvance(bar.tabText(index))
        rectangle = bar.tabRect(index)
        said = _too_small(needed, rectangle.width(), f"wide for {bar.tabText(index)!r}")
        if not said and rectangle.right() > bar.width() and not bar.usesScrollButtons():
            said = f"{bar.tabText(index)!r} ends outside of its bar"
        if said and bar.tabText(index) not in bar.tabToolTip(index):
            yield said


def _titles(plot: DataPlot) -> Iterator[str]:
    """Those of its axes, which stand centred on them and may be longer."""
    for side in ("left", "bottom"):
        label = plot.getPlotItem().getAxis(side).label
        place = plot.mapFromScene(label.mapRectToScene(label.boundingRect())).boundingRect()
        margin = 2 * int(label.document().documentMargin())
        if label.isVisible() and not plot.viewport().rect().adjusted(-margin, -margin, margin, margin).contains(place):
            yield f"the title of its {side} axis ends outside of it: {place}"


def _cut_by_an_ancestor(widget: QWidget, root: QWidget) -> str:
    """Whether a part of it lies outside of something that holds it, and cannot be scrolled to."""
    rectangle = QRect(QPoint(0, 0), widget.size())
    child, across, down = widget, True, True
    while child is not root and (parent := child.parentWidget()) is not None:
        rectangle.moveTopLeft(child.mapToParent(rectangle.topLeft()))
        area = parent.parentWidget()
        if isinstance(area, QScrollArea) and parent is area.viewport():
            across &= area.horizontalScrollBarPolicy() == Qt.ScrollBarPolicy.ScrollBarAlwaysOff
            down &= area.verticalScrollBarPolicy() == Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        if across and (rectangle.left() < -_SLACK or rectangle.right() > parent.width() + _SLACK):
            return f"cut off at the side by {type(parent).__name__} ({rectangle}, {parent.size()})"
        if down and (rectangle.top() < -_SLACK or rectangle.bottom() > parent.height() + _SLACK):
            return f"cut off above or below by {type(parent).__name__} ({rectangle}, {parent.size()})"
        child = parent
    return ""
