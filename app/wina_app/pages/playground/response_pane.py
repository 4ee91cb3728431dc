"""Pane of one side of the Playground: heading, completion and read-outs."""

from PySide6.QtCore import Signal
from PySide6.QtGui import QGuiApplication, QResizeEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from wina_app.pages.playground.form_state import Side, ending
from wina_app.pages.playground.token_text import TokenText
from wina_app.style.theme import GRID, HALF, font, notifier, scaled
from wina_app.style.translation import tr
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.controls import ElidedLabel, explain_disabled, method_swatch, push_button, stacked, text_label
from wina_app.widgets.flow_layout import FlowLayout
from wina_app.widgets.plain_text import plain_tip
from wina_core.jobs.completion import Completion
from wina_core.records.completions import LEAST_TOKENS, CompletionToken

_SWATCH = GRID + HALF
_LEAST = 28 * GRID
_READOUTS: dict[str, tuple[str, str]] = {
    "decode": (
        tr("Decoding"),
        tr(
            "From the median time of the passes that read one token each. Beside a sparse completion the dense rate is "
            "that of the dense model's passes over the sparse text, taken in turn: the speed-up is the ratio of both"
        ),
    ),
    "first": (
        tr("Time to first token"),
        tr("Duration of the one pass that read the prompt, without waiting, loading and preparing"),
    ),
    "prefill": (tr("Prefill"), tr("The prompt's tokens over the time of the one pass that read them")),
    "tokens": (tr("Tokens"), tr("Tokens of the completion so far")),
    "speedup": (
        tr("Speed-up"),
        tr("The sparse rate over the dense rate of the same passes; stated from {n} tokens on", n=LEAST_TOKENS),
    ),
    "sparsity": (
        tr("Sparsity"),
        tr("Fraction of the gated weights not read for the completion, counted from the masks"),
    ),
    "divergence": (tr("Mean KL"), tr("Mean KL divergence of the completion's tokens")),
}
_OF_SIDE: dict[Side, tuple[str, ...]] = {
    "dense": ("decode", "first", "prefill", "tokens"),
    "sparse": ("decode", "speedup", "first", "prefill", "sparsity", "divergence"),
}
_EMPTY = tr("The completion appears here.")
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
        self.copy = push_button(tr("Copy"), self.copy_completion, name=tr("Copy the {side} completion", side=side))
        heading = hbox(None, self._swatch, (self._heading, 1), self._state, self.copy)
        self.text = TokenText(tr("{side} completion", side=title))
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
        if completion is not None and (completion.title or not completion.spec.is_dense):
            label = completion.title or f"{self._title}: {completion.spec.label}"
        self._heading.setText(label)
        self.text.show_tokens(completion.tokens if completion else ())
        self._restyle()
        self._show_state()

    def add_token(self, token: CompletionToken) -> None:
        """Append a token."""
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
        """Copy the completion."""
        if self._completion is not None:
            QGuiApplication.clipboard().setText(self._completion.text)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the heading legible."""
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
            reason=tr("There is no completion yet"),
        )

    def _restyle(self) -> None:
        method = "dense" if self._completion is None else self._completion.spec.method.name
        self.setMinimumWidth(scaled(_LEAST))
        self._swatch.setPixmap(method_swatch(method).pixmap(_SWATCH, _SWATCH))
        for number in self._numbers.values():
            number.setFont(font("body", tabular=True))
