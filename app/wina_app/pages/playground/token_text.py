"""Text of a completion, its tokens coloured by their KL divergence from dense."""

import math
from bisect import bisect_right
from collections.abc import Sequence

from PySide6.QtCore import QEvent, QMimeData, QPoint, Qt, Signal
from PySide6.QtGui import QColor, QMouseEvent, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QPlainTextEdit

from wina_app.plots.colour_maps import HIGHLIGHT, ColourScale
from wina_app.style.theme import font, monospace, notifier, text_on
from wina_app.style.translation import tr
from wina_core.records.completions import CompletionToken

_LEAST, _MOST = -3.0, 1.0
_BREAK = "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}\n"


def _nats(log10: float) -> str:
    return f"{10**log10:.3g}"


DIVERGENCE = ColourScale(tr("KL(dense ‖ sparse)"), tr("nats, log"), _LEAST, _MOST, _nats, HIGHLIGHT)
"""Fixed scale over log10 of the divergence; below its low end there is no colour."""


def divergence_colour(divergence: float | None) -> QColor | None:
    """Return a token's background; None on the dense side and for small divergences."""
    if divergence is None or divergence < 10**_LEAST:
        return None
    return DIVERGENCE.colour(math.log10(divergence))


class TokenText(QPlainTextEdit):
    """Read-only text; `pointed` carries the token's position under mouse or caret, or None."""

    pointed = Signal(object)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.setReadOnly(True)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setAccessibleName(name)
        self.setMouseTracking(True)
        self.setTabChangesFocus(True)
        self._tokens: list[CompletionToken] = []
        self._starts: list[int] = []
        self._marked: int | None = None
        self._monospaced = False
        self.cursorPositionChanged.connect(self._on_caret)
        notifier().changed.connect(self._restyle)
        self._restyle()

    def show_tokens(self, new_tokens: Sequence[CompletionToken]) -> None:
        """Replace all tokens, and show their beginning."""
        self._tokens, self._starts, self._marked = [], [], None
        self.clear()
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()  # laid out once
        for token in new_tokens:
            self.add(token)
        cursor.endEditBlock()
        self.verticalScrollBar().setValue(0)

    def add(self, token: CompletionToken) -> None:
        """Append a token, and scroll to it if the end was visible."""
        bar = self.verticalScrollBar()
        at_end = bar.value() == bar.maximum()
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        self._tokens.append(token)
        self._starts.append(cursor.position())
        cursor.insertText(token.text.replace("\n", _BREAK), self._format(len(self._tokens) - 1))
        if at_end:
            bar.setValue(bar.maximum())

    def set_monospaced(self, on: bool) -> None:
        """Show the text in a monospaced or in the usual font."""
        self._monospaced = on
        self._restyle()

    def mark(self, position: int | None) -> None:
        """Mark the token where the completions diverge, now or when it arrives."""
        before, self._marked = self._marked, position
        if before != position:
            for changed in (before, position):
                if changed is not None:
                    self._paint(changed)

    def go_to_mark(self) -> None:
        """Move caret and keyboard focus to the mark."""
        if self._marked is not None and self._marked < len(self._starts):
            self.setFocus(Qt.FocusReason.ShortcutFocusReason)
            cursor = self.textCursor()
            cursor.setPosition(self._starts[self._marked])
            self.setTextCursor(cursor)
            self.ensureCursorVisible()

    def colour_of(self, position: int) -> QColor | None:
        """Return a token's background, or None."""
        return divergence_colour(self._tokens[position].divergence)

    def token_at(self, point: QPoint) -> int | None:
        """Return the position of the token under a point of the viewport, or None."""
        cursor = self.cursorForPosition(point)
        position, box = cursor.position(), self.cursorRect(cursor)
        if not box.adjusted(-box.height(), 0, box.height(), 0).contains(point):
            return None
        return self._token_of(position - 1 if box.left() > point.x() and position else position)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Emit the token under the mouse."""
        super().mouseMoveEvent(event)
        self.pointed.emit(self.token_at(event.position().toPoint()))

    def leaveEvent(self, event: QEvent) -> None:
        """Emit the caret's token if the text has the focus."""
        super().leaveEvent(event)
        self.pointed.emit(self._token_of(self.textCursor().position()) if self.hasFocus() else None)

    def createMimeDataFromSelection(self) -> QMimeData:
        """Copy the text without the marks at its line ends."""
        data = super().createMimeDataFromSelection()
        data.setText(data.text().replace(_BREAK, "\n"))
        return data

    def _on_caret(self) -> None:
        if self.hasFocus():
            self.pointed.emit(self._token_of(self.textCursor().position()))

    def _token_of(self, position: int) -> int | None:
        token = bisect_right(self._starts, position) - 1
        return token if token >= 0 else None

    def _restyle(self) -> None:
        self.setFont(monospace("body") if self._monospaced else font("body", tabular=True))
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()  # laid out once
        for position in range(len(self._tokens)):
            if self.colour_of(position) is not None:  # the others take the palette's
                self._paint(position)
        cursor.endEditBlock()

    def _paint(self, position: int) -> None:
        if position >= len(self._tokens):
            return
        end = self._starts[position + 1] if position + 1 < len(self._starts) else self.document().characterCount() - 1
        cursor = QTextCursor(self.document())
        cursor.setPosition(self._starts[position])
        cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
        cursor.setCharFormat(self._format(position))

    def _format(self, position: int) -> QTextCharFormat:
        text_format = QTextCharFormat()
        colour = self.colour_of(position)
        if colour is not None:
            text_format.setBackground(colour)
            text_format.setForeground(text_on(colour))
        if position == self._marked:
            text_format.setFontWeight(700)
            text_format.setUnderlineStyle(QTextCharFormat.UnderlineStyle.WaveUnderline)
        return text_format
