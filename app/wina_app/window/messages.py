"""Messages over the pages of a window: errors and notices, and toasts at its lower edge."""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, QRect, Qt, QUrl
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QDesktopServices, QKeyEvent
from PySide6.QtWidgets import QFrame, QMainWindow, QStackedWidget, QWidget

from wina_app.jobs.job_entry import JobEntry
from wina_app.jobs.texts import page_of
from wina_app.services.workbench import Workbench
from wina_app.style.number_format import duration, plural
from wina_app.style.theme import GRID, scaled
from wina_app.widgets.base_page import Page
from wina_app.widgets.boxes import hbox
from wina_app.widgets.controls import push_button, text_label
from wina_app.widgets.message_bar import Expiry, MessageBar
from wina_app.widgets.plain_text import plain_tip
from wina_app.window.focus import controls

_log = logging.getLogger("wina_app.window")
_MAX_TOASTS = 3
_WIDTH = GRID * 56
_LONGEST = 300
"""Letters shown; the tooltip and the log have the whole text."""

LONG_SECONDS = 5.0
"""Shorter jobs end without a toast."""
_BUTTONS = {
    "model": "Show model",
    "rotation": "Show rotation",
    "sparsity": "Show plan",
    "results": "Show results",
    "latency": "Show latency",
    "studies": "Show study",
}


class Toasts(QObject):
    """The toasts over a window, the latest at the bottom; the oldest closes when there are too many."""

    def __init__(self, window: QWidget, above: Callable[[], int]) -> None:
        """Place toasts at `above()` pixels from the lower edge of the window."""
        super().__init__(window)
        self._window, self._above = window, above
        self.open: list[Toast] = []
        window.installEventFilter(self)

    def say(
        self, word: str, text: str, button: str = "", do: Callable[[], object] | None = None, *, stays: bool = False
    ) -> "Toast":
        """Show `text` after `word` in bold, with a button that calls `do`; one that `stays` waits to be closed."""
        toast = Toast(self._window, word, text, button, do)
        if not stays:
            toast.expiry.start_for(f"{word}{text}{button}")
        toast.gone = lambda: self.remove(toast)
        self.open.append(toast)
        for old in self.open[:-_MAX_TOASTS]:
            self.remove(old)
        self.arrange()
        toast.show()
        _log.info("%s: %s", word, text)
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self._window, f"{word}: {text}"))
        return toast

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow the window's size."""
        if event.type() == QEvent.Type.Resize:
            self.arrange()
        return super().eventFilter(watched, event)

    def remove(self, toast: "Toast") -> None:
        """Close a toast, unless it is closed already."""
        if toast in self.open:
            self.open.remove(toast)
            toast.hide()
            toast.deleteLater()
            self.arrange()

    def arrange(self) -> None:
        """Place the toasts above each other and over everything else."""
        if not self.open:  # docks report being hidden even while the window is deleted
            return
        bottom = self._window.height() - self._above() - GRID
        for toast in reversed(self.open):
            width = min(scaled(_WIDTH), self._window.width() - 2 * GRID)
            toast.resize(width, toast.heightForWidth(width))
            bottom -= toast.height()
            toast.move(self._window.width() - toast.width() - 2 * GRID, bottom)
            toast.raise_()
            bottom -= GRID


class Toast(QFrame):
    """A message that stays while the pointer or the focus is on it; Esc closes it."""

    def __init__(self, window: QWidget, word: str, text: str, button: str, do: Callable[[], object] | None) -> None:
        super().__init__(window)
        self.gone: Callable[[], object] = self.hide
        self.setProperty("role", "overlay")
        self.setAccessibleName(f"{word}: {text}")
        self.expiry = Expiry(self, lambda: self.gone())  # looked up late: `Toasts.say` sets it
        self._label = text_label("", wrap=True)
        self.set_text(text)
        row = hbox(self, text_label(word, "section"), (self._label, 1), margins=(GRID * 2, GRID, GRID, GRID))
        self.button = push_button(button, do or (lambda: None))
        self.button.clicked.connect(lambda: self.gone())
        if not button:
            self.button.hide()
        cross, name = "\N{MULTIPLICATION SIGN}", "Dismiss message"
        dismiss = push_button(cross, lambda: self.gone(), name=name, tip="Dismiss message (Esc)", role="link")
        row.addWidget(self.button)
        row.addWidget(dismiss, 0, Qt.AlignmentFlag.AlignVCenter)

    def set_text(self, text: str) -> None:
        self._label.setText(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")
        self._label.setToolTip(plain_tip(text) if len(text) > _LONGEST else "")

    def dismiss(self) -> None:
        self.gone()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.gone()
        else:
            super().keyPressEvent(event)


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
        for button in controls(self.messages[:1])[:1]:
            button.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Dismiss the most urgent message by Esc where nothing else needs the key."""
        if event.key() == Qt.Key.Key_Escape and self.messages:
            self.messages[0].dismiss()
        else:
            super().keyPressEvent(event)

    def show_failure(self, text: str) -> None:
        self.message.show_message("error", text)

    def clear_failure(self) -> None:
        """Hide the error, and the same error on pages."""
        if text := self.message.error:
            for bar in (self.message, *(page.message for page in self.pages.values())):
                bar.withdraw(text)

    def show_notice(self, text: str) -> None:
        self.message.show_message("notice", text)

    def show_unwritable(self, reason: str) -> None:
        """Show why nothing can be stored, until it can."""
        self.message.withdraw(self._unwritable)
        self._unwritable = f"Nothing can be stored now, but stored results can be read. {reason}" if reason else ""
        if reason:
            self.message.show_message("lasting", self._unwritable)

    def say(self, word: str, text: str, button: str, do: Callable[[], object]) -> None:
        self.toasts.say(word, text, button, do)

    def show_progress(self, word: str, text: str, cancel: Callable[[], object]) -> None:
        """Show how far work in the background is, in a toast with a button that cancels it; none once dismissed."""
        if self._progress is None:
            self._progress = self.toasts.say(word, text, "Cancel", cancel, stays=True)
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
            note = f"{path.name} was saved on another machine; its job's log says how to copy it."
            self.show_notice(note)
            return
        folder = path if path.is_dir() else path.parent
        show = partial(QDesktopServices.openUrl, QUrl.fromLocalFile(str(folder.absolute())))
        self.say("Saved", text or path.name, "Open folder", show)


class JobNotices(QObject):
    """Controller of a toast for each job that ends."""

    def __init__(
        self,
        workbench: Workbench,
        toasts: Toasts,
        show_page: Callable[[str], object],
        show_log: Callable[[str], object],
    ) -> None:
        """`show_page` shows the page with a key, and `show_log` the log of the job with an id."""
        super().__init__()
        self._workbench, self._toasts, self._show_page, self._show_log = workbench, toasts, show_page, show_log
        workbench.jobs.ended.connect(self._on_ended)

    def _on_ended(self, job_id: str) -> None:
        entry = self._workbench.jobs[job_id]
        if not self._workbench.settings.preferences.notify or entry.phase == "cancelled":
            return
        if entry.is_interactive and entry.phase != "failed":  # it is watched as it comes
            return
        page = page_of(entry.job)
        if entry.phase == "failed":
            self._toasts.say("Failed", f"{entry.title}: {entry.failure}", "Show log", partial(self._show_log, job_id))
        elif entry.seconds >= LONG_SECONDS:
            self._toasts.say("Done", _outcome(entry), _BUTTONS[page], partial(self._show_page, page))


def _outcome(entry: JobEntry) -> str:
    time = duration(entry.seconds)
    if not entry.units_stored:
        return f"{entry.title} took {time}"
    results = plural(entry.units_stored, "results", "result")
    return f"{entry.title} took {time}, {results} stored"
