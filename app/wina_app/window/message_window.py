"""A window that shows errors and notices over its pages, and toasts at its lower edge."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QRect, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QKeyEvent
from PySide6.QtWidgets import QMainWindow, QStackedWidget, QWidget

from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.base_page import Page
from wina_app.widgets.message_bar import MessageBar
from wina_app.window.focus_order import controls
from wina_app.window.toast import Toast, Toasts


class MessageWindow(QMainWindow):
    """The base of the main window: its pages, and all that it says without moving them."""

    def __init__(self) -> None:
        super().__init__()
        self.pages: dict[str, Page] = {}
        self.central, self.stack = QWidget(), QStackedWidget()
        self.message = MessageBar(self.central, self._message_room, "window")
        """Messages about the whole window; each page has its own."""
        self.toasts = Toasts(self, above=lambda: self.height() - self.central.geometry().bottom())
        self._unwritable = ""
        self._progress: Toast | None = None

    def _message_room(self) -> QRect:
        """Return the place below the page's header, which has the messages of the page."""
        page = self.stack.currentWidget()
        header = page.header.height() if isinstance(page, Page) else 0
        left = self.stack.x() + 2 * GRID
        return QRect(left, self.stack.y() + header, self.stack.width() - 4 * GRID, 0)

    @property
    def messages(self) -> list[MessageBar | Toast]:
        """The messages shown, the most urgent first."""
        page = self.stack.currentWidget()
        bars = [self.message, *([page.message] if isinstance(page, Page) else [])]
        return [*(bar for bar in bars if bar.isVisible()), *reversed(self.toasts.open)]

    def focus_message(self) -> None:
        """Move the focus to a button of the most urgent message."""
        for button in controls(self.messages[:1])[:1]:
            button.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Dismiss the most urgent message by Esc where nothing else needs the key."""
        if event.key() == Qt.Key.Key_Escape and self.messages:
            self.messages[0].dismiss()
        else:
            super().keyPressEvent(event)

    def show_failure(self, text: str) -> None:
        """Show an error that concerns the whole window."""
        self.message.show_message("error", text)

    def clear_failure(self) -> None:
        """Hide the error, and the same error on pages."""
        if text := self.message.error:
            for bar in (self.message, *(page.message for page in self.pages.values())):
                bar.withdraw(text)

    def show_notice(self, text: str) -> None:
        """Show a notice that concerns the whole window."""
        self.message.show_message("notice", text)

    def show_waiting(self, results: int, reason: str) -> None:
        """Show that nothing can be stored and why, until it can; with the number of results that wait."""
        text = ""
        if results:
            text = tr("Results wait in memory until they can be stored, and jobs continue. {reason}", reason=reason)
        elif reason:
            text = tr("Nothing can be stored now, but stored results can be read. {reason}", reason=reason)
        if text == self._unwritable:
            return
        self.message.withdraw(self._unwritable)
        self._unwritable = text
        if text:
            self.message.show_message("lasting", text)

    def say(self, word: str, text: str, button: str, do: Callable[[], object]) -> None:
        """Show a toast with a button."""
        self.toasts.say(word, text, button, do)

    def show_progress(self, word: str, text: str, cancel: Callable[[], object]) -> None:
        """Show how far work in the background is, in a toast with a button that cancels it; none once dismissed."""
        if self._progress is None:
            self._progress = self.toasts.say(word, text, tr("Cancel"), cancel, stays=True)
        elif self._progress in self.toasts.open:
            self._progress.set_text(text)

    def end_progress(self) -> None:
        """Hide the toast of `show_progress`."""
        if self._progress is not None:
            self.toasts.remove(self._progress)
            self._progress = None

    def say_saved(self, path: Path, text: str = "") -> None:
        """Show a toast on a saved file or folder, with a button that opens its folder."""
        if not path.exists():
            note = tr("{name} was saved on another machine; its job's log says how to copy it.", name=path.name)
            self.show_notice(note)
            return
        folder = path if path.is_dir() else path.parent
        show = partial(QDesktopServices.openUrl, QUrl.fromLocalFile(str(folder.absolute())))
        self.say(tr("Saved"), text or path.name, tr("Open folder"), show)
