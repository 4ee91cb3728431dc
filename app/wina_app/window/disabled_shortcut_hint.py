"""A hint for the shortcut of a disabled command, which Qt ignores silently."""

from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject
from PySide6.QtGui import QKeyEvent, QKeySequence

if TYPE_CHECKING:
    from wina_app.window.main_window import MainWindow


class DisabledShortcutHint(QObject):
    """Event filter for keys that no widget of the window has accepted."""

    def __init__(self, window: "MainWindow") -> None:
        super().__init__(window)
        self._window = window
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Show the tooltip of a disabled command, which has the reason, on its page."""
        if event.type() == QEvent.Type.KeyPress and isinstance(event, QKeyEvent):
            page, pressed = self._window.current_page, QKeySequence(event.keyCombination())
            docks = (dock.toggleViewAction() for dock in self._window.docks.values())
            for command in (*page.commands, *docks):
                if command.shortcut() == pressed and not command.isEnabled():
                    page.show_notice(command.toolTip())
                    return True
        return super().eventFilter(watched, event)
