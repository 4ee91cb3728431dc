"""The text of the log, which follows its end until it is scrolled up."""

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QPlainTextEdit

from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.controls import push_button, wrap_words


class LogText(QPlainTextEdit):
    """Lines to be read and copied. A button that leads back to the end lies over them while they do not follow it."""

    def __init__(self) -> None:
        super().__init__()
        wrap_words(self)
        self.setProperty("role", "plain")
        self.setReadOnly(True)
        self.setAccessibleName(tr("Log"))
        self.follows = True
        tip = tr("Go to the end and stay there as lines arrive")
        self.follow = push_button(tr("Follow"), self.go_to_end, name=tr("Follow the end of the log"), tip=tip)
        self.follow.setParent(self)
        self.follow.hide()
        bar = self.verticalScrollBar()
        bar.valueChanged.connect(self._on_scrolled)
        bar.rangeChanged.connect(self._on_range)

    def go_to_end(self) -> None:
        """Show the last line, and every later one."""
        self._set_follows(True)
        bar = self.verticalScrollBar()
        bar.setValue(bar.maximum())

    def _on_range(self) -> None:
        """Stay at the end as lines arrive or the dock is resized."""
        if self.follows:
            self.go_to_end()

    def _on_scrolled(self, value: int) -> None:
        self._set_follows(value >= self.verticalScrollBar().maximum())

    def _set_follows(self, on: bool) -> None:
        self.follows = on
        self.follow.setVisible(not on)
        self._place()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the button in its corner."""
        super().resizeEvent(event)
        self._place()

    def _place(self) -> None:
        if self.follow.isVisible():
            self.follow.adjustSize()
            area = self.viewport().geometry()
            size = self.follow.size()
            self.follow.move(area.right() - size.width() - GRID, area.bottom() - size.height() - GRID)
            self.follow.raise_()
