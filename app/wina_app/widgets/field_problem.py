"""Problem of an input field, which moves nothing."""

from collections.abc import Callable
from typing import cast

from PySide6.QtCore import QEvent, QObject, QPoint, Qt
from PySide6.QtWidgets import QApplication, QLabel, QWidget


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
        """Show a sentence; hide if it is empty."""
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
