"""Spin boxes and combo boxes made in one call."""

from collections.abc import Iterable

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QDoubleSpinBox, QSpinBox

from wina_app.widgets.controls import ignore_unfocused_wheel, pad_text


def whole_number(
    low: int, high: int, value: int, suffix: str = "", *, step: int = 1, lowest: str = "", name: str = ""
) -> QSpinBox:
    """Return a spin box with thousands separators; `lowest` is the text of its lowest value."""
    box = QSpinBox()
    box.setRange(low, high)
    box.setSingleStep(step)
    box.setValue(value)
    box.setSuffix(suffix)
    box.setGroupSeparatorShown(True)
    box.setSpecialValueText(lowest)
    box.setAccessibleName(name)
    pad_text(box)
    ignore_unfocused_wheel(box)
    return box


def decimal(
    low: float, high: float, value: float, suffix: str = "", *, decimals: int = 2, step: float = 0.1, lowest: str = ""
) -> QDoubleSpinBox:
    """Return a spin box for a number with so many decimals; `lowest` is the text of its lowest value."""
    box = QDoubleSpinBox()
    box.setDecimals(decimals)
    box.setRange(low, high)
    box.setSingleStep(step)
    box.setValue(value)
    box.setSuffix(suffix)
    box.setSpecialValueText(lowest)
    pad_text(box)
    ignore_unfocused_wheel(box)
    return box


def choices(entries: Iterable[tuple[str, object, str]] = (), name: str = "") -> QComboBox:
    """Return a combo box with (text, value, tooltip) of each entry."""
    box = QComboBox()
    box.setAccessibleName(name)
    ignore_unfocused_wheel(box)
    for row, (text, value, tip) in enumerate(entries):
        box.addItem(text, value)
        box.setItemData(row, tip, Qt.ItemDataRole.ToolTipRole)
    return box
