"""Every colour, size and font of the window, light and dark. Nothing else names one.

`tokens()` gives the current values; widgets that paint themselves read them while painting and repaint on
`notifier().changed`. Ordinary widgets need nothing: palette and style sheet reach them in a window that was dressed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QFontInfo, QPalette
from PySide6.QtWidgets import QApplication, QWidget

from wina_app.style.palette import DARK, LIGHT, Tokens
from wina_app.style.stylesheet import stylesheet
from wina_core.methods.colours import METHOD_COLOURS

Mode = Literal["light", "dark", "system"]
MODES: tuple[Mode, ...] = ("system", "light", "dark")

GRID = 8
"""The layout's unit in pixels; inside a control half of it."""
HALF = GRID // 2


class _Current(QObject):
    """The appearance in force and the signal of its change."""

    changed = Signal()
    tokens = LIGHT
    mode: Mode = "system"
    styled: QApplication | None = None
    """Which application has got its style."""
    text_scale = 1.0
    magnitudes = "viridis"


_current = _Current()


def notifier() -> _Current:
    """Its signal `changed` fires after every change of appearance; connect to it where you paint yourself."""
    return _current


def tokens() -> Tokens:
    """The appearance in force."""
    return _current.tokens


@contextmanager
def appearance(look: Tokens) -> Iterator[None]:
    """`tokens()` are these meanwhile, for what is drawn into files: nothing that is shown may be drawn within."""
    before, _current.tokens = _current.tokens, look
    try:
        yield
    finally:
        _current.tokens = before


def current_mode() -> Mode:
    """What was asked for; "system" follows the desktop."""
    return _current.mode


def text_scale() -> float:
    """How much larger than the desktop's texts ours were asked for."""
    return _current.text_scale


def magnitude_map() -> str:
    """Name of the colour map for quantities that start at zero."""
    return _current.magnitudes


def apply_theme(
    app: QApplication, mode: Mode = "system", text_scale: float | None = None, magnitudes: str | None = None
) -> None:
    """Give the whole application one appearance: style, palette, fonts, plots, and the style sheet of windows that were
    dressed. What is None stays."""
    _current.text_scale = text_scale or _current.text_scale
    _current.magnitudes = magnitudes or _current.magnitudes
    desktop_is_dark = app.styleHints().colorScheme() == Qt.ColorScheme.Dark
    base = DARK if mode == "dark" or (mode == "system" and desktop_is_dark) else LIGHT
    scale = _font_scale() * _current.text_scale
    current = replace(
        base, small=round(base.small * scale), body=round(base.body * scale), title=round(base.title * scale)
    )
    _current.tokens, _current.mode = current, mode
    if _current.styled is not app:  # setting it again costs every widget a quarter of a millisecond
        app.setStyle("Fusion")
        _current.styled = app
    app.setFont(font())
    app.setPalette(_palette(current))
    _current.changed.emit()


def apply_stylesheet(window: QWidget) -> None:
    """Give a window, or another widget without a parent, the style sheet, and with it all that is put into it; it
    follows the appearance.

    The application has none of its own: with one, Qt styles each widget anew at every step of its way into the window,
    which took more than half of the time that making the pages took.
    """
    _Dress(window)


class _Dress(QObject):
    """Keeps its owner's style sheet that of the appearance in force."""

    def __init__(self, owner: QWidget) -> None:
        super().__init__(owner)
        self._owner = owner
        _current.changed.connect(self._dress)
        self._dress()

    def _dress(self) -> None:
        self._owner.setStyleSheet(stylesheet(_current.tokens))


def _font_scale() -> float:
    """How much larger the user set the system's font than 13 px at 96 dpi; never below 1."""
    system = QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont)
    return max(1.0, min(2.0, QFontInfo(system).pixelSize() / 13))


def scaled(pixels: int) -> int:
    """A width that holds text, given for the usual size of it, at the size in force."""
    return round(pixels * tokens().body / LIGHT.body)


def font(size: Literal["small", "body", "title"] = "body", *, bold: bool = False, tabular: bool = False) -> QFont:
    """The system font in one of the three sizes; `tabular` figures for tables and read-outs."""
    result = QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont)
    result.setPixelSize(getattr(tokens(), size))
    if bold:
        result.setWeight(QFont.Weight.DemiBold)
    if tabular:
        result.setFeature(QFont.Tag("tnum"), 1)
    return result


def monospace() -> QFont:
    """For the log and for paths."""
    result = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    result.setPixelSize(tokens().small)
    return result


def _palette(t: Tokens) -> QPalette:
    role = QPalette.ColorRole
    palette = QPalette()
    for roles, colour in {
        (role.Window,): t.window,
        (role.Base, role.ToolTipBase): t.surface,
        (role.AlternateBase,): t.raised,
        (role.Button,): t.raised,
        (role.WindowText, role.Text, role.ButtonText, role.ToolTipText, role.BrightText): t.text,
        (role.PlaceholderText,): t.muted,
        (role.Highlight, role.Link, role.Accent): t.accent,
        (role.HighlightedText,): t.on_accent,
        (role.Light, role.Midlight): t.line,
        (role.Mid, role.Dark, role.Shadow): t.border,
    }.items():
        for one in roles:
            palette.setColor(one, QColor(colour))
    for one in (role.WindowText, role.Text, role.ButtonText):
        palette.setColor(QPalette.ColorGroup.Disabled, one, QColor(t.disabled))
    palette.setColor(QPalette.ColorGroup.Disabled, role.Highlight, QColor(t.line))
    return palette


def method_colour(name: str) -> QColor:
    """One colour per method, everywhere; dense is neutral, and so is a stored method that this version lacks."""
    if name == "dense":
        return QColor(tokens().dense)
    return QColor(METHOD_COLOURS.get(name, tokens().muted))


def state_colour(state: str) -> QColor:
    """Of a run or job: queued, running, done, failed, cancelled. Always put a word or icon beside it."""
    t = tokens()
    return QColor(
        {"running": t.running, "done": t.done, "failed": t.failed, "cancelled": t.warning}.get(state, t.muted)
    )


def contrast(a: QColor, b: QColor) -> float:
    """WCAG contrast ratio, 1 to 21."""
    high, low = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: QColor) -> float:
    def linear(c: float) -> float:
        return c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4

    return 0.2126 * linear(colour.redF()) + 0.7152 * linear(colour.greenF()) + 0.0722 * linear(colour.blueF())


def text_on(background: QColor) -> QColor:
    """Black or white, whichever reads better on the colour, at least 4.5:1; for values inside heatmap cells."""
    candidates = (QColor("#000000"), QColor("#ffffff"))  # any grey in their place would fall short on mid-tones
    return max(candidates, key=lambda c: contrast(c, background))


def readable(colour: QColor, background: QColor | None = None) -> QColor:
    """The same hue moved towards the text colour until it reads 4.5:1; for labels in a method's colour."""
    background = background or QColor(tokens().surface)
    towards = QColor(tokens().text)
    for step in range(11):
        k = step / 10
        mixed = QColor.fromRgbF(*(a + (b - a) * k for a, b in zip(_rgb(colour), _rgb(towards), strict=True)))
        if contrast(mixed, background) >= 4.5:
            return mixed
    return towards


def _rgb(colour: QColor) -> tuple[float, float, float]:
    return colour.redF(), colour.greenF(), colour.blueF()
