"""The breadcrumb of a page: model, rotation and method, each a link to the page where it is chosen."""

from collections.abc import Callable, Sequence

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLayout, QPushButton, QSizePolicy, QWidget

from wina_app.style.translation import tr
from wina_app.widgets.boxes import hbox
from wina_app.widgets.controls import text_label
from wina_app.widgets.plain_text import plain_tip

_LEAST = "mmm\N{HORIZONTAL ELLIPSIS}"


class Breadcrumb(QWidget):
    """A row of links that fills its line; links end in an ellipsis if there is little room."""

    def __init__(self, go_to: Callable[[str], object]) -> None:
        super().__init__()
        self._go_to = go_to
        self._links: list[tuple[str, str]] = []
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._row = hbox(self, spacing=0)
        self._row.setSizeConstraint(QLayout.SizeConstraint.SetMinimumSize)  # buttons beside it wrap before it vanishes

    def show_links(self, links: Sequence[tuple[str, str]]) -> None:
        """Show links given as (page key, text)."""
        if list(links) == self._links:  # every page hears of every change
            return
        self._links = list(links)
        while (item := self._row.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.hide()  # until it is deleted
                widget.deleteLater()
        for index, (key, text) in enumerate(links):
            if index:
                self._row.addWidget(text_label("/", "muted"))
            crumb = _Crumb(text)
            crumb.setAccessibleName(tr("Go to {page}: {choice}", page=key, choice=text))
            crumb.clicked.connect(lambda _=False, key=key: self._go_to(key))
            self._row.addWidget(crumb)
        self._row.addStretch(1)


class _Crumb(QPushButton):
    """A link with its whole text in the tooltip."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._whole = text
        self.setProperty("role", "link")
        self.setToolTip(plain_tip(text))
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        """Return the size of the whole text."""
        text = self.fontMetrics().horizontalAdvance(self._whole) + 1  # a width that is rounded must not cost a letter
        return QSize(self._frame() + text, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        """Return the size of a few letters."""
        few = QSize(self._frame() + self.fontMetrics().horizontalAdvance(_LEAST), self.sizeHint().height())
        return few.boundedTo(self.sizeHint())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit the text to the new width."""
        super().resizeEvent(event)
        room = self.width() - self._frame()
        self.setText(self.fontMetrics().elidedText(self._whole, Qt.TextElideMode.ElideRight, room))

    def _frame(self) -> int:
        """Return the width that the style adds to the text."""
        return super().sizeHint().width() - self.fontMetrics().horizontalAdvance(self.text())
