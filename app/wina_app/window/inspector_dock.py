"""The Inspector dock: details of the selection on the current page."""

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QStackedWidget

from wina_app.style.theme import GRID


class InspectorView(QStackedWidget):
    """The inspector of the current page; the dock is hidden on a page without one."""

    def sizeHint(self) -> QSize:
        """Return a size for a small plot."""
        return QSize(GRID * 45, GRID * 60)

    def minimumSizeHint(self) -> QSize:
        """Return a small size, since every inspector scrolls."""
        return QSize(GRID * 30, GRID * 20)
