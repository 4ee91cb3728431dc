"""The Inspector dock: details of the selection on the current page."""

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QStackedWidget, QWidget

from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.controls import text_label


class InspectorView(QStackedWidget):
    """The inspector of the current page, or a sentence if it has none."""

    def __init__(self) -> None:
        super().__init__()
        self._nothing = text_label(tr("Nothing to inspect on this page."), "muted", wrap=True)
        self._nothing.setContentsMargins(GRID * 2, GRID * 2, GRID * 2, GRID * 2)
        self.addWidget(self._nothing)

    def show_inspector(self, inspector: QWidget | None) -> None:
        """Show the inspector of a page, or None."""
        self.setCurrentWidget(inspector or self._nothing)

    def sizeHint(self) -> QSize:
        """Return a size for a small plot."""
        return QSize(GRID * 45, GRID * 60)

    def minimumSizeHint(self) -> QSize:
        """Return a small size, since every inspector scrolls."""
        return QSize(GRID * 30, GRID * 20)
