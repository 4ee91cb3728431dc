"""The Inspector dock: details of what is selected on the page that is shown."""

from PySide6.QtCore import QSize
from PySide6.QtWidgets import QStackedWidget, QWidget

from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.controls import text_label


class InspectorView(QStackedWidget):
    """Shows the inspector of one page at a time, or a sentence where a page has none."""

    def __init__(self) -> None:
        super().__init__()
        self._nothing = text_label(tr("Nothing to inspect on this page."), "muted", wrap=True)
        self._nothing.setContentsMargins(GRID * 2, GRID * 2, GRID * 2, GRID * 2)
        self.addWidget(self._nothing)

    def show_inspector(self, inspector: QWidget | None) -> None:
        """Show a page's inspector; None for a page without."""
        self.setCurrentWidget(inspector or self._nothing)

    def sizeHint(self) -> QSize:
        """Room for a small plot."""
        return QSize(GRID * 45, GRID * 60)

    def minimumSizeHint(self) -> QSize:
        """Not that of the largest inspector, which would push the pages aside: each one scrolls."""
        return QSize(GRID * 30, GRID * 20)
