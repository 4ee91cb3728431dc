"""The command that presses the primary button of the current page."""

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject
from PySide6.QtGui import QAction

from wina_app.style.translation import tr
from wina_app.widgets.base_page import Page

_CHANGES = (QEvent.Type.EnabledChange, QEvent.Type.ShowToParent, QEvent.Type.HideToParent)


class PrimaryAction(QObject):
    """Keeper of an action that is enabled while the button of the current page is."""

    def __init__(self, action: QAction, page: Callable[[], Page]) -> None:
        super().__init__(action)
        self._action, self._page = action, page
        action.setAutoRepeat(False)  # held down, it would start and cancel in turns

    def follow(self, page: Page) -> None:
        """Follow the button of a page."""
        page.primary.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Update the action once the button can be pressed, or cannot any more."""
        if event.type() in _CHANGES:
            self.update()
        return super().eventFilter(watched, event)

    def update(self) -> None:
        """Take text and state of the current page's button."""
        button = self._page().primary
        self._action.setText(button.text() or tr("No action on this page"))
        self._action.setEnabled(button.isEnabled() and not button.isHidden())
