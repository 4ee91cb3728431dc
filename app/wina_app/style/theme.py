"""The current appearance: colours, sizes and fonts of the window. No other module names any.

Widgets that paint themselves read `tokens()` while painting and repaint on `notifier().changed`. All others follow the
palette, and the style sheet of their window (`apply_stylesheet`).
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal
from weakref import WeakMethod

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QFontInfo, QPalette
from PySide6.QtWidgets import QApplication, QWidget

from wina_app.style.stylesheet import DARK, LIGHT, Tokens, stylesheet
from wina_core.specs import methods

Mode = Literal["light", "dark", "system"]
MODES: tuple[Mode, ...] = ("system", "light", "dark")

GRID = 8
"""Unit of all layouts in pixels; half of it inside controls."""
HALF = GRID // 2


class _Current(QObject):
    """The current appearance and the signal of its change."""

    changed = Signal()
    tokens = LIGHT
    mode: Mode = "system"
    styled: QApplication | None = None
    """The application that has its style already."""
    text_scale = 1.0
    magnitudes = "viridis"


_current = _Current()


def notifier() -> _Current:
    """Return the object whose signal `changed` follows every change of appearance."""
    return _current


def tokens() -> Tokens:
    return _current.tokens


def current_mode() -> Mode:
    """Return the chosen mode; "system" follows the desktop."""
    return _current.mode


def text_scale() -> float:
    """Return the chosen scale of texts, relative to the desktop's."""
    return _current.text_scale


def magnitude_map() -> str:
    """Return the name of the colour map for quantities that start at zero."""
    return _current.magnitudes


def apply_theme(
    app: QApplication, mode: Mode = "system", text_scale: float | None = None, magnitudes: str | None = None
) -> None:
    """Set style, palette, fonts, plots and style sheets of the application; None keeps a value."""
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
    for sheet in list(_sheets):  # before anything measures a widget
        sheet.follow()
    _current.changed.emit()


def apply_stylesheet(window: QWidget) -> None:
    """Give a window, or a part of one, a style sheet that follows the appearance while it is shown.

    The application has none: Qt would style each widget anew at every step of its way into the window, which took more
    than half of the time that making the pages took. Nor has the main window: Qt takes a quarter of a millisecond for
    each widget below a changed style sheet, most of them on pages that are not shown.
    """
    if not window.property("styled"):
        window.setProperty("styled", True)
        sheet = _WhenShown(window, lambda: _update_sheet(window))
        _sheets.add(sheet)  # Qt's own widgets, such as the menu bar, keep no Python object
        window.destroyed.connect(partial(_sheets.discard, sheet))
        _update_sheet(window)


def _update_sheet(owner: QWidget) -> None:
    sheet = stylesheet(_current.tokens)
    if owner.styleSheet() != sheet:
        owner.setStyleSheet(sheet)


def restyle_when_shown(owner: QWidget, restyle: Callable[[], None]) -> None:
    """Call a method of the owner after every change of appearance, at once or before the owner is shown again."""
    # The notifier lives as long as the program, and must not keep the owner alive.
    method = WeakMethod(restyle)

    def call() -> None:
        if (bound := method()) is not None:
            bound()

    notifier().changed.connect(_WhenShown(owner, call).follow)


class _WhenShown(QObject):
    """A function that follows the appearance while the owner is shown."""

    def __init__(self, owner: QWidget, do: Callable[[], None]) -> None:
        super().__init__(owner)
        self._owner, self._do = owner, do
        self._waits = False

    def follow(self) -> None:
        """Call the function now, or before the owner is shown."""
        if self._owner.isVisible():
            self._do()
        elif not self._waits:
            self._waits = True
            self._owner.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Call the function before the owner is shown."""
        if event.type() in (QEvent.Type.Show, QEvent.Type.Polish):
            self._owner.removeEventFilter(self)
            self._waits = False
            self._do()
        return super().eventFilter(watched, event)


_sheets: set[_WhenShown] = set()


def _font_scale() -> float:
    """Return the size of the system's font relative to 13 px at 96 dpi, between 1 and 2."""
    system = QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont)
    return max(1.0, min(2.0, QFontInfo(system).pixelSize() / 13))


def scaled(pixels: int) -> int:
    """Scale a width in pixels that is given for the default size of texts to the current size."""
    return round(pixels * tokens().body / LIGHT.body)


def font(size: Literal["small", "body", "title"] = "body", *, bold: bool = False, tabular: bool = False) -> QFont:
    """Return the system font in one of the three sizes; with `tabular` figures for tables and read-outs."""
    result = QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont)
    result.setPixelSize(getattr(tokens(), size))
    if bold:
        result.setWeight(QFont.Weight.DemiBold)
    if tabular:
        result.setFeature(QFont.Tag("tnum"), 1)
    return result


def monospace(size: Literal["small", "body"] = "small") -> QFont:
    """Return the fixed-width font for logs, paths and code."""
    result = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    result.setPixelSize(getattr(tokens(), size))
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
    """Return the colour of a method; dense is neutral, and so is a stored method that is not installed."""
    if name == "dense":
        return QColor(tokens().dense)
    return QColor(methods.method_colour(name) or tokens().muted)


def state_colour(state: str) -> QColor:
    """Return the colour of a state: queued, running, done, failed or cancelled. Put a word or icon beside it."""
    t = tokens()
    return QColor(
        {"running": t.running, "done": t.done, "failed": t.failed, "cancelled": t.warning}.get(state, t.muted)
    )


def contrast(a: QColor, b: QColor) -> float:
    """Return the WCAG contrast ratio, 1 to 21."""
    high, low = sorted((_luminance(a), _luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: QColor) -> float:
    def linear(c: float) -> float:
        # Relative luminance of sRGB as in WCAG 2, and so is the 0.05 above.
        return c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4

    return 0.2126 * linear(colour.redF()) + 0.7152 * linear(colour.greenF()) + 0.0722 * linear(colour.blueF())


def text_on(background: QColor) -> QColor:
    """Return black or white, whichever has the higher contrast with the background: at least 4.5:1."""
    candidates = (QColor("#000000"), QColor("#ffffff"))
    return max(candidates, key=lambda c: contrast(c, background))
