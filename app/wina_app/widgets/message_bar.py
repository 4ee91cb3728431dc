"""Errors and notices over a page, which never move its content."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import QEvent, QObject, QRect, Qt, QTimer
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QKeyEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QSizePolicy, QWidget

from wina_app.style.theme import GRID, HALF
from wina_app.widgets.boxes import hbox
from wina_app.widgets.controls import push_button, text_label
from wina_app.widgets.plain_text import plain_tip

_LEAST_MS = 6_000
_LETTER_MS = 50
"""Time to read a letter, slowly."""

_LONGEST = 500
"""Letters shown; the tooltip and the log have the whole text."""

Kind = Literal["error", "notice", "lasting"]
"""An error, a notice that expires, or a notice that holds until it is withdrawn."""
_ORDER: tuple[Kind, ...] = ("error", "notice", "lasting")
"""Most urgent kind first."""


class Expiry(QTimer):
    """A timer that calls `end` once a text can have been read, but not while the pointer or the focus is on it."""

    def __init__(self, overlay: QWidget, end: Callable[[], object]) -> None:
        super().__init__(overlay, singleShot=True)
        self._overlay, self._end = overlay, end
        self.timeout.connect(self._on_timeout)

    def start_for(self, text: str) -> None:
        self.start(_LEAST_MS + _LETTER_MS * len(text))

    def _on_timeout(self) -> None:
        focused = self._overlay.window().focusWidget()
        if self._overlay.underMouse() or (focused is not None and self._overlay.isAncestorOf(focused)):
            self.start()
        else:
            self._end()


@dataclass(frozen=True)
class _Message:
    kind: Kind
    text: str
    retry: Callable[[], object] | None = None


class MessageBar(QFrame):
    """The most urgent of an error and notices over a widget, which can be selected and dismissed.

    A message replaces one of its own kind. An error stays until it is dismissed or withdrawn; notices wait behind it.
    All messages are in the log, too.
    """

    def __init__(self, owner: QWidget, room: Callable[[], QRect], source: str) -> None:
        """Show messages over `owner`, within the width and from the top of `room()`; log them as `source`."""
        super().__init__(owner)
        self._room = room
        self._log = logging.getLogger(f"wina_app.{source}")
        self._messages: dict[Kind, _Message] = {}
        self.expiry = Expiry(self, self.dismiss)
        self._word = text_label("", "section")
        self.label = text_label("", wrap=True)
        self.label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.label.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        tip = "Compute what is missing; stored results are kept"
        self.retry = push_button("Retry", self._do_retry, name="Retry the failed job", tip=tip)
        cross, name = "\N{MULTIPLICATION SIGN}", "Dismiss message"
        dismiss = push_button(cross, self.dismiss, name=name, tip="Dismiss message (Esc)", role="link")
        hbox(self, self._word, (self.label, 1), self.retry, dismiss, margins=(GRID, 1, HALF, 1))
        owner.installEventFilter(self)
        self.hide()

    @property
    def text(self) -> str:
        return self._first.text if self._first else ""

    @property
    def _first(self) -> _Message | None:
        return next((self._messages[kind] for kind in _ORDER if kind in self._messages), None)

    def show_message(self, kind: Kind, text: str, retry: Callable[[], object] | None = None) -> None:
        """Show a message, once nothing more urgent is shown, with a button that calls `retry` if given."""
        if kind not in self._messages or self._messages[kind].text != text:
            self._log.log(logging.ERROR if kind == "error" else logging.INFO, "%s", text)
        before = self._first
        if kind == "error":
            self._messages.pop("notice", None)  # it has been seen
        self._messages[kind] = _Message(kind, text, retry)
        self._show_first(before)

    def withdraw(self, text: str) -> None:
        """Remove the messages with this text, which no longer holds."""
        before = self._first
        self._messages = {kind: message for kind, message in self._messages.items() if message.text != text}
        self._show_first(before)

    def dismiss(self) -> None:
        """Remove the message shown, and show the next one if there is one."""
        if (before := self._first) is not None:
            del self._messages[before.kind]
            self._show_first(before)

    def clear(self) -> None:
        self._messages.clear()
        self._show_first(None)

    @property
    def error(self) -> str:
        return self._messages["error"].text if "error" in self._messages else ""

    def _show_first(self, before: _Message | None) -> None:
        """Show the most urgent message, and say it unless its text was shown `before`."""
        message = self._first
        self.expiry.stop()
        if message is None:
            self.hide()
            return
        text, is_error = message.text, message.kind == "error"
        self.retry.setVisible(message.retry is not None)
        self.setProperty("role", "error" if is_error else "notice")
        self._word.setText("Error" if is_error else "Note")
        self.label.setText(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… The full text is in the log.")
        self.label.setToolTip(plain_tip(text) if len(text) > _LONGEST else "")
        self.setAccessibleName(f"{self._word.text()}: {text}")
        if message.kind == "notice":
            self.expiry.start_for(text)
        self.style().unpolish(self)
        self.style().polish(self)
        self.show()
        self.raise_()
        self.arrange()
        if self.isVisible() and (before is None or before.text != text):
            self._announce()

    def arrange(self) -> None:
        """Take the place that the owner leaves, and the height that the text needs."""
        layout = self.layout()
        if layout is not None and not self.isHidden():
            room = self._room()
            height = layout.totalHeightForWidth(room.width())
            above = max(0, (room.height() - height) // 2)
            self.setGeometry(room.left(), room.top() + above, room.width(), height)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow the owner's size."""
        if event.type() in (QEvent.Type.Resize, QEvent.Type.LayoutRequest):
            self.arrange()
        return super().eventFilter(watched, event)

    def event(self, event: QEvent) -> bool:
        """Follow another text size."""
        if event.type() == QEvent.Type.LayoutRequest:
            self.arrange()
        return super().event(event)

    def showEvent(self, event: QShowEvent) -> None:
        """Say an error of a page that was not shown before."""
        super().showEvent(event)
        if not event.spontaneous():
            self.arrange()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.dismiss()
        else:
            super().keyPressEvent(event)

    def _announce(self) -> None:
        announcement = QAccessibleAnnouncementEvent(self, self.accessibleName())
        if self.property("role") == "error":
            announcement.setPoliteness(QAccessible.AnnouncementPoliteness.Assertive)
        QAccessible.updateAccessibility(announcement)

    def _do_retry(self) -> None:
        message = self._first
        self.dismiss()  # before the retry, which may show a message of its own
        if message is not None and message.retry is not None:
            message.retry()
