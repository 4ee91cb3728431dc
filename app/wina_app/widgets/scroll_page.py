"""What a page shows, with scroll bars once the window has less room than it needs."""

from PySide6.QtCore import QEvent, QObject, QSize, Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QScrollArea, QWidget


class ScrollPage(QScrollArea):
    """Fills its room with the content, which never gets smaller than it can be: large texts beside an open dock in a
    small window are scrolled to, not cut off. Unlike Qt's own, it asks for the least height, not for the one wished."""

    def __init__(self, content: QWidget) -> None:
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        if not content.property("role"):
            content.setProperty("role", "surface")
            content.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setWidget(content)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow what the content needs; Qt's scroll area watches it already."""
        if event.type() == QEvent.Type.LayoutRequest and watched is self.widget():
            self._fit()
        return super().eventFilter(watched, event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit the content to the room."""
        super().resizeEvent(event)
        self._fit()

    def minimumSizeHint(self) -> QSize:
        """What does not fit is scrolled to."""
        return QSize(0, 0)

    def _fit(self) -> None:
        room, bar = self.maximumViewportSize(), self.verticalScrollBar().sizeHint().width()
        needed = self._least(room.width())
        if needed.width() > room.width():
            room.setHeight(room.height() - bar)
        if needed.height() > room.height():
            room.setWidth(room.width() - bar)
            needed = self._least(room.width())
        self.widget().resize(room.expandedTo(needed))

    def _least(self, width: int) -> QSize:
        """The least size at a width, which may be less than the content needs."""
        content = self.widget()
        least = content.minimumSizeHint().expandedTo(content.minimumSize())
        layout = content.layout()
        width = max(width, least.width())
        if layout is not None and layout.hasHeightForWidth():
            least.setHeight(max(least.height(), layout.minimumHeightForWidth(width)))
        elif content.hasHeightForWidth():
            least.setHeight(content.heightForWidth(width))
        return least
