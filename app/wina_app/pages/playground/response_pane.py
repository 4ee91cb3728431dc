"""Pane of one side of the Playground: heading, read-outs, and a completion with its tokens coloured by divergence."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import Literal

from PySide6.QtCore import QEvent, QMimeData, QPoint, Qt, Signal
from PySide6.QtGui import QColor, QGuiApplication, QMouseEvent, QResizeEvent, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QLabel, QPlainTextEdit, QSizePolicy, QWidget

from wina_app.plots.colour_maps import HIGHLIGHT, ColourScale
from wina_app.style.number_format import percent, plural
from wina_app.style.theme import GRID, HALF, font, notifier, scaled, text_on
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.controls import ElidedLabel, explain_disabled, method_swatch, push_button, stacked, text_label
from wina_app.widgets.flow_layout import FlowLayout
from wina_app.widgets.plain_text import plain_tip
from wina_core.jobs.completion import Completion
from wina_core.records.completions import LEAST_TOKENS, CompletionToken, rate_text

Side = Literal["dense", "sparse"]
SIDES: tuple[Side, Side] = ("dense", "sparse")
_MIN_LOG10, _MAX_LOG10 = -3.0, 1.0
_BREAK = "\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}\n"


def _nats(log10: float) -> str:
    return f"{10**log10:.3g}"


DIVERGENCE = ColourScale("KL(dense ‖ sparse)", "nats, log", _MIN_LOG10, _MAX_LOG10, _nats, HIGHLIGHT)
"""Fixed scale over log10 of the divergence; below its low end there is no colour."""


def divergence_colour(divergence: float | None) -> QColor | None:
    """Return a token's background; None on the dense side and for small divergences."""
    if divergence is None or divergence < 10**_MIN_LOG10:
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
        return divergence_colour(self._tokens[position].divergence)

    def token_at(self, point: QPoint) -> int | None:
        """Return the position of the token under a point of the viewport, or None."""
        cursor = self.cursorForPosition(point)
        # Qt returns the nearest gap between two characters, which may be right of the character under the point.
        position, box = cursor.position(), self.cursorRect(cursor)
        if not box.adjusted(-box.height(), 0, box.height(), 0).contains(point):
            return None
        return self._token_of(position - 1 if box.left() > point.x() and position else position)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
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
        self.setFont(font("body", tabular=True))
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()  # laid out once
        for position in range(len(self._tokens)):
            if self.colour_of(position) is not None:  # the others take the palette's
                self._paint(position)
        cursor.endEditBlock()

    def _paint(self, position: int) -> None:
        if position >= len(self._tokens):
            return
        # A document counts the end of its last paragraph as a character.
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


_SWATCH = GRID + HALF
_MIN_WIDTH = 28 * GRID
_READOUTS: dict[str, tuple[str, str]] = {
    "decode": (
        "Decoding",
        (
            "From the median time of the passes that read one token each. Beside a sparse completion the dense rate is "
            "that of the dense model's passes over the sparse text, taken in turn: the speed-up is the ratio of both"
        ),
    ),
    "first": (
        "Time to first token",
        "Duration of the one pass that read the prompt, without waiting, loading and preparing",
    ),
    "prefill": ("Prefill", "The prompt's tokens over the time of the one pass that read them"),
    "tokens": ("Tokens", "Tokens of the completion so far"),
    "speedup": (
        "Speed-up",
        f"The sparse rate over the dense rate of the same passes; stated from {LEAST_TOKENS} tokens on",
    ),
    "sparsity": (
        "Sparsity",
        "Fraction of the gated weights not read for the completion, counted from the masks",
    ),
    "divergence": ("Mean KL", "Mean KL divergence of the completion's tokens"),
}
_OF_SIDE: dict[Side, tuple[str, ...]] = {
    "dense": ("decode", "first", "prefill", "tokens"),
    "sparse": ("decode", "speedup", "first", "prefill", "sparsity", "divergence"),
}
_EMPTY = "The completion appears here."
_NOTHING = "\N{EN DASH}"


class CompletionPane(QWidget):
    """Completion of one side; `pointed` carries the token's position under mouse or caret, or None."""

    pointed = Signal(object)

    def __init__(self, side: Side, title: str) -> None:
        super().__init__()
        self._title = title
        self._completion: Completion | None = None
        self._swatch = QLabel()
        self._swatch.setFixedSize(_SWATCH, _SWATCH)
        self._heading = ElidedLabel("section")
        self._state = text_label("", "muted")
        self.copy = push_button("Copy", self.copy_completion, name=f"Copy the {side} completion")
        heading = hbox(None, self._swatch, (self._heading, 1), self._state, self.copy)
        self.text = TokenText(f"{title} completion")
        self.text.pointed.connect(self.pointed)
        self._numbers: dict[str, QLabel] = {}
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)  # both as wide as each other
        column = vbox(self, heading, (self.text, 1), margins=(2 * GRID, GRID, 2 * GRID, GRID))
        self.readouts = QWidget()
        lines = vbox(self.readouts, self._readouts(side))
        lines.addStretch(1)  # the other side may take more lines
        column.addWidget(self.readouts)
        notifier().changed.connect(self._restyle)
        self.show_waiting("")
        self.show_completion(None)

    def _readouts(self, side: Side) -> FlowLayout:
        lines = FlowLayout(spacing=2 * GRID)
        for name in _OF_SIDE[side]:
            caption, explanation = _READOUTS[name]
            above, number = text_label(caption, "muted"), text_label(_NOTHING)
            for label in (above, number):
                label.setToolTip(plain_tip(explanation))
            number.setFont(font("body", tabular=True))
            lines.addWidget(stacked(above, number))
            self._numbers[name] = number
        return lines

    def show_completion(self, completion: Completion | None) -> None:
        """Show a completion so far; None clears it."""
        self._completion = completion
        label = self._title
        if completion is not None and not completion.spec.is_dense:
            label = f"{self._title}: {completion.spec.label}"
        self._heading.setText(label)
        self.text.show_tokens(completion.tokens if completion else ())
        self._restyle()
        self._show_state()

    def add_token(self, token: CompletionToken) -> None:
        self.text.add(token)
        if not self.copy.isEnabled():
            self._show_state()

    def show_waiting(self, text: str) -> None:
        """Say in place of a completion that has not begun what it waits for; empty if for nothing."""
        self.text.setPlaceholderText(text or _EMPTY)
        if self._completion is not None and not self._completion.tokens:
            self._state.setText("" if text else ending(self._completion))
            self._fit_heading()

    def show_figures(self, figures: dict[str, str]) -> None:
        """Show the read-outs; missing ones are unknown."""
        for name, number in self._numbers.items():
            text = figures.get(name) or _NOTHING
            number.setText(text)
            number.setAccessibleName(f"{_READOUTS[name][0]}: {text}")
        self._show_state()

    def copy_completion(self) -> None:
        if self._completion is not None:
            QGuiApplication.clipboard().setText(self._completion.text)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit_heading()

    def _fit_heading(self) -> None:
        """Hide the state where the heading needs its room; the heading's tooltip has both."""
        heading, state = self._heading.whole(), self._state.text()
        texts = self._heading.fontMetrics().horizontalAdvance(heading), self._state.sizeHint().width()
        room = self.width() - 8 * GRID - _SWATCH - self.copy.sizeHint().width()
        self._state.setVisible(bool(state) and sum(texts) <= room)
        self._heading.setToolTip(plain_tip(": ".join(filter(None, (heading, state)))))

    def _show_state(self) -> None:
        completion = self._completion
        self._state.setText("" if completion is None else ending(completion))
        self._fit_heading()
        explain_disabled(
            self.copy,
            enabled=completion is not None and bool(completion.tokens),
            reason="There is no completion yet",
        )

    def _restyle(self) -> None:
        method = "dense" if self._completion is None else self._completion.spec.method.name
        self.setMinimumWidth(scaled(_MIN_WIDTH))
        self._swatch.setPixmap(method_swatch(method).pixmap(_SWATCH, _SWATCH))
        for number in self._numbers.values():
            number.setFont(font("body", tabular=True))


def figures(completion: Completion | None, other: Completion | None = None) -> dict[str, str]:
    """Return a side's read-outs by name; empty if there is no completion.

    `other` is the sparse completion beside a dense one. The dense rate is then that of the passes over its text, by
    which its speed-up is computed.
    """
    if completion is None or not completion.tokens:
        return {}
    readouts = {"tokens": f"{len(completion.tokens):,}"}
    if completion.prefill is not None:
        read, seconds = completion.prefill
        readouts["prefill"] = f"{read / seconds:,.0f} tokens/s" if seconds > 0 else ""
        readouts["first"] = _time(seconds)
    speed = completion.speed
    paired = other.speed.dense_rate if other is not None and completion.spec.is_dense else None
    rate = paired or speed.rate
    if rate is not None:
        readouts["decode"] = f"{rate_text(rate)} tokens/s"
    if speed.speedup is not None:
        readouts["speedup"] = f"{speed.speedup:.2f} \N{MULTIPLICATION SIGN}"
    elif speed.dense_rate is not None:
        readouts["speedup"] = f"from {LEAST_TOKENS} tokens on"
    if completion.divergence is not None:
        readouts["divergence"] = f"{completion.divergence:.3g} nats"
    if completion.ended is not None and completion.ended.sparsity is not None:
        readouts["sparsity"] = percent(completion.ended.sparsity)
    return readouts


def ending(completion: Completion) -> str:
    """Return how a completion ended, in words."""
    if completion.ended is None:
        return "generating"
    return {"end": "reached end of text", "length": "reached max length", "stopped": "stopped"}[completion.ended.end]


def token_readout(side: Side, position: int, token: CompletionToken, other: CompletionToken | None) -> str:
    """Return a token's read-out. `other` is the other side's same token after the same prefix, if there is one: it has
    the other model's probability."""
    gated = token if side == "sparse" else other
    dense = token.log_probability if side == "dense" else token.dense_log_probability
    sparse = None if gated is None else gated.log_probability
    divergence = None if gated is None else gated.divergence
    texts = [
        f"token {position + 1}: {token.text!r} (id {token.id})",
        f"p dense {_probability(dense)}",
        f"p sparse {_probability(sparse)}",
    ]
    if divergence is not None:
        texts.append(f"KL {divergence:.3g} nats")
    if token.read:  # else it was read with the prompt
        texts.append(_time(token.seconds))
    return "   ".join(texts)


def divergence_text(dense: Completion | None, sparse: Completion | None, at: int | None) -> str:
    """Return where the two completions diverge, as a sentence."""
    if dense is None or sparse is None or not dense.tokens or not sparse.tokens:
        return ""
    if at is None:
        same = min(len(dense.tokens), len(sparse.tokens))
        return f"The completions agree so far, for {plural(same, 'tokens', 'token')}."
    words = tuple(
        repr(completion.tokens[at].text) if at < len(completion.tokens) else "the end" for completion in (dense, sparse)
    )
    return f"The completions diverge at token {at + 1}: {words[0]} against {words[1]}."


def _probability(log: float | None) -> str:
    return "\N{EN DASH}" if log is None else f"{math.exp(log):.3g}"


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:,.2f} s"
    return f"{1000.0 * seconds:.3g} ms"
