"""Strip of a plan's figures under the heatmap."""

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QLabel, QWidget

from wina_app.pages.sparsity.plan_maps import CONTEXT, FigureKey, PlanFigures
from wina_app.plots.colour_maps import signed_points, three_digits
from wina_app.style.number_format import percent, size
from wina_app.style.theme import GRID, HALF, font, notifier, tokens
from wina_app.widgets.controls import side_by_side, stacked, text_label
from wina_app.widgets.flow_layout import FlowLayout
from wina_app.widgets.help_button import HelpButton
from wina_app.widgets.plain_text import plain_tip

_STRIP: tuple[FigureKey, ...] = (
    "budget", "gated", "net", "gated_saving", "net_saving", "read", "held", "predicted", "kl", "measured",
)  # fmt: skip
"""Figures of the strip; the bits are beside the map of bits."""
UNKNOWN = "\N{EN DASH}"
_SPARE_WIDTH = 2 * GRID
"""Pixels by which a read-out may be narrower than its room."""
_DIGITS_AS_ZERO = str.maketrans("0123456789", "0000000000")
"""Makes texts of the same width equal: digits are equally wide."""


@dataclass(frozen=True)
class FigureTexts:
    """Texts of a figure: caption, explanation, formats, and its term in the glossary if it has one."""

    caption: str
    explanation: str
    text: Callable[[float], str]
    difference: Callable[[float], str]
    term: str = ""


def _share(caption: str, explanation: str, term: str = "") -> FigureTexts:
    return FigureTexts(caption, explanation, percent, signed_points, term)


def _number(caption: str, explanation: str) -> FigureTexts:
    return FigureTexts(caption, explanation, three_digits, _signed)


def _signed_size(value: float) -> str:
    return ("+" if value >= 0 else "\N{MINUS SIGN}") + size(abs(value))


def _signed(value: float) -> str:
    return f"{value:+.2g}".replace("-", "\N{MINUS SIGN}")


_TEXTS: dict[FigureKey, FigureTexts] = {
    "budget": _share("Budget", "Mean target over all cells, weighted by their numbers of weights.", "Budget"),
    "gated": _share(
        "Sparsity",
        (
            "Gated sparsity: fraction of the gated weights not read. Masks keep whole inputs, "
            "and low-rank parts count as read. From the plan and the model's sizes."
        ),
        "Gated sparsity",
    ),
    "net": _share(
        "Net sparsity",
        (
            "The sparsity with everything else read counted as weights: the rotation's residual "
            "shortcuts, column norms of the masks, calibrated values and biases. May be negative."
        ),
        "Net sparsity",
    ),
    "gated_saving": _share(
        "FLOPs saved",
        (
            "Saved share of the dense model's operations for one generated token, as the paper counts them: "
            "gated matrices, low-rank parts and LM head."
        ),
    ),
    "net_saving": _share(
        "of all FLOPs",
        (
            f"Saved share of all operations for one generated token that attends to {CONTEXT:,} positions: "
            "attention, norms, gating and residual shortcuts too."
        ),
    ),
    "read": FigureTexts(
        "Read",
        (
            f"Bytes read for one generated token that attends to {CONTEXT:,} positions: kept weights, scales "
            "and zeros, the head, norms, values of the masks, shortcuts and KV cache."
        ),
        size,
        _signed_size,
    ),
    "held": FigureTexts(
        "Held",
        (
            "Bytes of memory held by all weights, with scales and zeros, values of the masks, shortcuts, and "
            f"the KV cache of {CONTEXT:,} positions."
        ),
        size,
        _signed_size,
    ),
    "bits_read": _number(
        "Bits read",
        (
            "Bits read of the gated matrices for one token, scales and zeros included, over their weights. Of "
            "weights in planes it is an estimate, for normal weights and scores."
        ),
    ),
    "bits_held": _number(
        "Bits held",
        "Bits held of the gated matrices, scales and zeros included, over their weights.",
    ),
    "predicted": _number(
        "Pred. error",
        (
            "Relative output error of every matrix at its target, read off the calibration's curves, as a mean "
            "weighted by numbers of weights. Each matrix is taken alone, with the dense model's inputs; "
            "the curves are measured with each token's own top k, whatever the selection."
        ),
    ),
    "kl": _number(
        "Pred. KL (nats)",
        (
            "Sum over all cells of the KL divergence from dense, in nats per token, that each causes alone at "
            "its target, read off the stored curves: an estimate that takes the cells' errors as independent. "
            "The curves are measured with each token's own top k, whatever the selection."
        ),
    ),
    "measured": _share(
        "Measured",
        "Dropped fraction of the gated weights, counted from the masks of the latest run with this plan.",
    ),
}


class SparsityFigures(QWidget):
    """Captions over numbers, with differences to another plan."""

    def __init__(self) -> None:
        super().__init__()
        self._labels: list[tuple[FigureKey, QLabel, QLabel]] = []
        self._figures: PlanFigures | None = None
        self._other: PlanFigures | None = None
        self.setAccessibleName("Figures of the plan")
        row = FlowLayout(self, spacing=2 * GRID)
        for key in _STRIP:
            texts = _TEXTS[key]
            caption, number = text_label(texts.caption, "muted"), text_label(UNKNOWN)
            number.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            heading = side_by_side(caption, HelpButton(texts.term), spacing=HALF) if texts.term else caption
            row.addWidget(stacked(heading, number))
            self._labels.append((key, caption, number))
        self.copy_action = QAction("Copy the read-outs", self)
        self.copy_action.setShortcut(QKeySequence(QKeySequence.StandardKey.Copy))
        self.copy_action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        self.copy_action.triggered.connect(self.copy)
        self.addAction(self.copy_action)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        self._restyle()
        notifier().changed.connect(self._restyle)

    def show_figures(self, figures: PlanFigures, other: PlanFigures | None) -> None:
        """Show a plan's figures, and their differences to another's."""
        self._figures, self._other = figures, other
        values, other_values = dict(figures.readouts()), {} if other is None else dict(other.readouts())
        for key, caption, number in self._labels:
            texts, value = _TEXTS[key], values[key]
            _set_text(number, _text(texts, value, other_values.get(key)))
            tip = texts.explanation
            if value is None:
                tip += f"\n\nUnknown: {figures.reasons.get(key, '')}"
            for label in (caption, number):
                label.setToolTip(plain_tip(tip))
            number.setAccessibleName(f"{texts.caption}: {number.text()}")

    def as_text(self) -> str:
        """Return all figures as tab-separated lines of name, value and the other plan's value."""
        if self._figures is None:
            return ""
        other_values = {} if self._other is None else dict(self._other.readouts())
        lines = []
        for key, value in self._figures.readouts():
            texts = _TEXTS[key]
            cells = [texts.caption, UNKNOWN if value is None else texts.text(value)]
            if self._other is not None:
                other = other_values[key]
                cells.append(UNKNOWN if other is None else texts.text(other))
            lines.append("\t".join(cells))
        return "\n".join(lines)

    def copy(self) -> None:
        QGuiApplication.clipboard().setText(self.as_text())

    def text(self, key: FigureKey) -> str:
        return next(number.text() for figure, _, number in self._labels if figure == key)

    def tip(self, key: FigureKey) -> str:
        return next(number.toolTip() for figure, _, number in self._labels if figure == key)

    def _restyle(self) -> None:
        for _, caption, number in self._labels:
            caption.setMinimumHeight(tokens().small + HALF)  # that of the marks beside some of them
            number.setFont(font("body", bold=True, tabular=True))
            number.setFixedSize(number.sizeHint())


def _set_text(number: QLabel, text: str) -> None:
    """Set a label's text without changing its size if it fits: Qt lays out the page again for every text of a label
    without a fixed size."""
    before = number.text()
    if text == before:
        return
    number.setText(text)
    # To ask for a size takes longer than to paint it.
    if text.translate(_DIGITS_AS_ZERO) == before.translate(_DIGITS_AS_ZERO):
        return
    hint, room = number.sizeHint(), number.minimumSize()
    if not room.width() - _SPARE_WIDTH <= hint.width() <= room.width() or hint.height() != room.height():
        number.setFixedSize(hint)


def _text(texts: FigureTexts, value: float | None, other: float | None) -> str:
    if value is None:
        return UNKNOWN
    text = texts.text(value)
    return text if other is None else f"{text} ({texts.difference(value - other)})"
