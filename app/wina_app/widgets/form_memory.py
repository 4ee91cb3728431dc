"""Values of input widgets as JSON, to be stored and restored."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSlider,
    QComboBox,
    QDoubleSpinBox,
    QLineEdit,
    QPlainTextEdit,
    QSpinBox,
    QSplitter,
    QTabWidget,
    QWidget,
)

from wina_app.widgets.segmented_control import SegmentedControl

_Read = Callable[[Any], object]
_Write = Callable[[Any, Any], object]


@runtime_checkable
class Remembering(Protocol):
    """A widget that gives its own state as JSON, such as a plot."""

    def view_state(self) -> dict[str, object]:
        """Return the state."""

    def restore_view(self, state: Mapping[str, object]) -> None:
        """Restore a state; what is impossible is ignored."""


_KINDS: tuple[tuple[type[Any], type, _Read, _Write], ...] = (
    (Remembering, dict, lambda one: one.view_state(), lambda one, state: one.restore_view(state)),
    (QAbstractButton, bool, lambda one: one.isChecked(), lambda one, on: one.setChecked(on)),
    (QSpinBox, int, lambda one: one.value(), lambda one, number: one.setValue(number)),
    (QDoubleSpinBox, float, lambda one: one.value(), lambda one, number: one.setValue(number)),
    (QAbstractSlider, int, lambda one: one.value(), lambda one, number: one.setValue(number)),
    (QLineEdit, str, lambda one: one.text(), lambda one, text: one.setText(text)),
    (QPlainTextEdit, str, lambda one: one.toPlainText(), lambda one, text: one.setPlainText(text)),
    (QTabWidget, int, lambda one: one.currentIndex(), lambda one, index: one.setCurrentIndex(index)),
    (QSplitter, list, lambda one: one.sizes(), lambda one, sizes: _set_sizes(one, sizes)),
    (SegmentedControl, str, lambda one: one.value, lambda one, key: key in one.buttons and one.choose(key)),
    (QComboBox, object, lambda one: _choice(one), lambda one, value: _choose(one, value)),
)


def values_of(widgets: Mapping[str, QWidget]) -> dict[str, object]:
    return {name: _kind(widget)[1](widget) for name, widget in widgets.items()}


def set_values(widgets: Mapping[str, QWidget], values: Mapping[str, object]) -> None:
    """Set the widgets to values of `values_of`; a value that is missing or impossible changes nothing.

    The widgets emit their signals as for any change by the program: `toggled` and `valueChanged`, but not `clicked`,
    `activated` or `textEdited`.
    """
    for name, widget in widgets.items():
        needed, read, write = _kind(widget)
        value = values.get(name)
        # The very type: for isinstance, True is an int.
        fits = name in values and (needed is object or type(value) is needed) and _is_in_range(widget, value)
        if fits and read(widget) != value:
            write(widget, value)


def _is_in_range(widget: QWidget, value: Any) -> bool:
    """Return whether a number is one of the widget's: Qt raises for numbers that no C integer holds."""
    if isinstance(widget, QSpinBox | QDoubleSpinBox | QAbstractSlider):
        return bool(widget.minimum() <= value <= widget.maximum())  # false for NaN
    return not isinstance(widget, QTabWidget) or 0 <= value < widget.count()


def _kind(widget: QWidget) -> tuple[type, _Read, _Write]:
    return next((needed, read, write) for kind, needed, read, write in _KINDS if isinstance(widget, kind))


def _choice(box: QComboBox) -> object:
    """Return the current value of a combo box, or its text if it has no simple value."""
    value = box.currentData()
    return value if isinstance(value, str | int | float) else box.currentText()


def _choose(box: QComboBox, value: object) -> None:
    # Compared with their types: 1 == True.
    is_flag = isinstance(value, bool)
    data = map(box.itemData, range(box.count()))  # findData raises for large numbers
    row = next((row for row, one in enumerate(data) if one == value and isinstance(one, bool) is is_flag), -1)
    row = row if row >= 0 or not isinstance(value, str) else box.findText(value)
    if row >= 0:
        box.setCurrentIndex(row)
    elif box.isEditable() and isinstance(value, str):
        box.setEditText(value)


def _set_sizes(splitter: QSplitter, sizes: list[object]) -> None:
    numbers = [size for size in sizes if type(size) is int and 0 <= size < 100_000]
    if len(numbers) == len(sizes) == splitter.count() and any(numbers):  # all 0: it was never shown
        splitter.setSizes(numbers)
