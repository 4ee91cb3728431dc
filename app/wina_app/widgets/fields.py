"""Spin boxes and combo boxes made in one call, and the problem of an input field."""

from collections.abc import Callable, Iterable
from typing import cast

from PySide6.QtCore import QEvent, QObject, QPoint, Qt
from PySide6.QtWidgets import QApplication, QComboBox, QDoubleSpinBox, QLabel, QSpinBox, QWidget

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


class FieldProblem(QLabel):
    """Sentence right below a field while it has the focus, over its neighbours, which stay in their places.

    Below a field that cannot take the focus it is always shown.
    """

    def __init__(self, field: QWidget, room: Callable[[], QWidget | None]) -> None:
        """Show sentences on top of the widget that `room` returns, an ancestor of the field; None for none yet."""
        super().__init__(field)
        self._field, self._room = field, room
        self.setProperty("role", "problem")
        self.setWordWrap(True)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.hide()
        field.installEventFilter(self)
        cast(QApplication, QApplication.instance()).focusChanged.connect(self._place)

    def show_text(self, text: str) -> None:
        self.setText(text)
        self._place()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow the field."""
        if event.type() in (QEvent.Type.Move, QEvent.Type.Resize):
            self._place()
        return super().eventFilter(watched, event)

    def _place(self) -> None:
        field = self._field
        if not self.text():
            self.hide()
            return
        room, inside = self._room(), [field, *field.findChildren(QWidget)]
        can_focus = any(widget.focusPolicy() != Qt.FocusPolicy.NoFocus for widget in inside)
        if room is None or (can_focus and field.window().focusWidget() not in inside):
            self.hide()
            return
        if self.parentWidget() is not room:
            self.setParent(room)
        corner = field.mapTo(room, QPoint(0, field.height()))
        self.setGeometry(corner.x(), corner.y(), field.width(), self.heightForWidth(field.width()))
        self.show()
        self.raise_()
