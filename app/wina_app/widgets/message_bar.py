"""Errors and notices over a page, which never move its content."""

import logging
from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QRect, Qt
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QKeyEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QSizePolicy, QWidget

from wina_app.style.theme import GRID, HALF
from wina_app.style.translation import tr
from wina_app.widgets.boxes import hbox
from wina_app.widgets.controls import push_button, text_label
from wina_app.widgets.expiry import Expiry
from wina_app.widgets.plain_text import plain_tip

_LONGEST = 500
"""Letters shown; the tooltip and the log have the whole text."""


class MessageBar(QFrame):
    """One error or notice over a widget, which can be selected and dismissed.

    An error stays until it is dismissed or withdrawn, a notice expires. Both are in the log, too.
    """

    def __init__(self, owner: QWidget, room: Callable[[], QRect], source: str) -> None:
        """Show messages over `owner`, within the width and from the top of `room()`; log them as `source`."""
        super().__init__(owner)
        self._room = room
        self._log = logging.getLogger(f"wina_app.{source}")
        self._retry: Callable[[], object] | None = None
        self.text = ""
        """The whole text of the last message."""
        self.expiry = Expiry(self, self.hide)
        self._word = text_label("", "section")
        self.label = text_label("", wrap=True)
        self.label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.label.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        tip = tr("Compute what is missing; stored results are kept")
        self.retry = push_button(tr("Retry"), self._do_retry, name=tr("Retry the failed job"), tip=tip)
        cross, name = "\N{MULTIPLICATION SIGN}", tr("Dismiss message")
        dismiss = push_button(cross, self.hide, name=name, tip=tr("Dismiss message (Esc)"), role="link")
        hbox(self, self._word, (self.label, 1), self.retry, dismiss, margins=(GRID, 1, HALF, 1))
        owner.installEventFilter(self)
        self.hide()

    def show_message(
        self, kind: str, text: str, retry: Callable[[], object] | None = None, *, stays: bool = False
    ) -> None:
        """Show a message of kind "error" or "notice", with a button that calls `retry` if given.

        A notice that `stays` does not expire.
        """
        is_new = self.isHidden() or text != self.text
        self._retry, self.text = retry, text
        self.retry.setVisible(retry is not None)
        self.setProperty("role", kind)
        self._word.setText(tr("Error") if kind == "error" else tr("Note"))
        self.label.setText(
            text if len(text) <= _LONGEST else tr("{start}… The full text is in the log.", start=text[:_LONGEST])
        )
        self.label.setToolTip(plain_tip(text) if len(text) > _LONGEST else "")
        self.setAccessibleName(f"{self._word.text()}: {text}")
        if is_new:
            self._log.log(logging.ERROR if kind == "error" else logging.INFO, "%s", text)
        if kind == "error" or stays:
            self.expiry.stop()
        else:
            self.expiry.start_for(text)
        self.style().unpolish(self)
        self.style().polish(self)
        self.show()
        self.raise_()
        self.arrange()
        if is_new and self.isVisible():
            self._announce()

    def withdraw(self, text: str) -> None:
        """Hide the message if this is its text."""
        if self.text == text:
            self.hide()

    def dismiss(self) -> None:
        """Hide the message."""
        self.hide()

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
        """Dismiss the message by Esc."""
        if event.key() == Qt.Key.Key_Escape:
            self.hide()
        else:
            super().keyPressEvent(event)

    def _announce(self) -> None:
        said = QAccessibleAnnouncementEvent(self, self.accessibleName())
        if self.property("role") == "error":
            said.setPoliteness(QAccessible.AnnouncementPoliteness.Assertive)
        QAccessible.updateAccessibility(said)

    def _do_retry(self) -> None:
        self.hide()
        if self._retry is not None:
            self._retry()
