"""A scroll area that never shrinks its content below the size that it needs."""

from PySide6.QtCore import QEvent, QObject, QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QScrollArea, QWidget


class ScrollPage(QScrollArea):
    """A scroll area around the content of a page. Unlike Qt's own, it gives the content its minimum height for the
    present width, not its preferred height."""

    def __init__(self, content: QWidget) -> None:
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        if not content.property("role"):
            content.setProperty("role", "surface")
            content.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setWidget(content)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow the needs of the content, which Qt's scroll area watches already."""
        if event.type() == QEvent.Type.LayoutRequest and watched is self.widget():
            self._fit()
        return super().eventFilter(watched, event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def minimumSizeHint(self) -> QSize:
        """Return (0, 0), since everything can be scrolled to."""
        return QSize(0, 0)

    def _fit(self) -> None:
        content, room = self.widget(), self.maximumViewportSize()
        if content is None:
            return
        bar = self.verticalScrollBar().sizeHint().width()
        needed = _minimum(content, room.width())
        if needed.width() > room.width():
            room.setHeight(room.height() - bar)
        if needed.height() > room.height():
            room.setWidth(room.width() - bar)
            needed = _minimum(content, room.width())
        content.resize(room.expandedTo(needed))


def _minimum(content: QWidget, width: int) -> QSize:
    """Return the minimum size at a width, which may be less than the content needs."""
    size = content.minimumSizeHint().expandedTo(content.minimumSize())
    layout = content.layout()
    width = max(width, size.width())
    if layout is not None and layout.hasHeightForWidth():
        size.setHeight(max(size.height(), layout.minimumHeightForWidth(width)))
    elif content.hasHeightForWidth():
        size.setHeight(content.heightForWidth(width))
    return size
