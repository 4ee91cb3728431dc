"""Building blocks of the pages: labels, buttons, rows and columns, collapsible sections, read-outs."""

from collections.abc import Callable, Collection, Iterable

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtGui import QIcon, QPixmap, QResizeEvent, QTextOption
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QLayout,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from wina_app.style.theme import GRID, HALF, font, method_colour, notifier
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.flow_layout import FlowLayout
from wina_app.widgets.help_button import HelpButton
from wina_app.widgets.plain_text import plain_tip


def text_label(text: str, role: str = "", *, wrap: bool = False, rich: bool = False) -> QLabel:
    """Return a label with a role of the style sheet: title, section, muted, figure, failed.

    Text from outside must not be `rich`, since Qt would render its HTML.
    """
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.RichText if rich else Qt.TextFormat.PlainText)
    if role:
        label.setProperty("role", role)
    label.setWordWrap(wrap)
    return label


def push_button(text: str, do: Callable[[], object], *, name: str = "", tip: str = "", role: str = "") -> QPushButton:
    """Return a button that calls `do`; its accessible name is its text without an ellipsis, unless `name` is given."""
    button = QPushButton(text)
    button.setAccessibleName(name or text.rstrip("…"))
    button.setToolTip(tip)
    button.setProperty("role", role)
    button.clicked.connect(lambda: do())
    return button


def rule() -> QFrame:
    """Return a hairline between areas."""
    frame = QFrame()
    frame.setProperty("role", "rule")
    return frame


def with_term(widget: QWidget, term: str) -> QHBoxLayout:
    return hbox(None, (widget, 1), HelpButton(term))


def labelled(text: str, control: QWidget, *, hint: str = "", term: str = "") -> QVBoxLayout:
    """Put a control below its label, which also names it for screen readers.

    `hint` is small print below the control; `term` names an entry of the glossary, explained beside the label.
    """
    label = text_label(text, wrap=True)
    label.setBuddy(control)
    if not control.accessibleName():
        control.setAccessibleName(text)
    if hint:
        control.setAccessibleDescription(hint)
    small_print = [text_label(hint, "muted", wrap=True)] if hint else []
    return vbox(None, with_term(label, term) if term else label, control, *small_print, spacing=HALF)


def pad_text(box: QAbstractSpinBox) -> None:
    box.lineEdit().setTextMargins(HALF + 2, 0, 0, 0)  # away from the border, which a style sheet cannot do


class _WheelFilter(QObject):
    """Event filter that passes the wheel to the panel behind a control without the focus."""

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Ignore the wheel, so that Qt offers it to the parent."""
        if event.type() == QEvent.Type.Wheel and isinstance(watched, QWidget) and not watched.hasFocus():
            event.ignore()
            return True
        return False


def ignore_unfocused_wheel(control: QWidget) -> None:
    """Let the wheel change a control only while it has the focus, so that scrolling a panel changes no setting."""
    control.setFocusPolicy(Qt.FocusPolicy.StrongFocus)  # the wheel gives no focus
    control.installEventFilter(_WheelFilter(control))


def wrap_words(edit: QPlainTextEdit) -> None:
    # Qt breaks long words in quadratic time: 13 s for 300,000 characters.
    edit.setWordWrapMode(QTextOption.WrapMode.WordWrap)


class ElidedLabel(QLabel):
    """A line of text that ends in an ellipsis if there is no room, with the whole text in its tooltip."""

    def __init__(self, role: str = "", elide: Qt.TextElideMode = Qt.TextElideMode.ElideRight) -> None:
        super().__init__()
        self._whole, self._elide = "", elide
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setProperty("role", role)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    def setText(self, text: str) -> None:
        """Show as much of a text as fits."""
        self._whole = text
        self.setToolTip(plain_tip(text))
        self._fit()

    def whole(self) -> str:
        return self._whole

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        super().setText(self.fontMetrics().elidedText(self._whole, self._elide, self.contentsRect().width()))


def close_together(*widgets: QWidget) -> QVBoxLayout:
    return vbox(None, *widgets, spacing=0)


def stacked(*widgets: QWidget) -> QWidget:
    """Put widgets below each other without space between, as one widget."""
    whole = QWidget()
    whole.setLayout(close_together(*widgets))
    return whole


def in_two_columns(boxes: Collection[QWidget]) -> QGridLayout:
    """Put widgets into two columns, the first half at the left."""
    grid = QGridLayout()
    grid.setHorizontalSpacing(GRID)
    grid.setVerticalSpacing(0)
    rows = (len(boxes) + 1) // 2
    for index, box in enumerate(boxes):
        grid.addWidget(box, index % rows, index // rows)
    grid.setColumnStretch(1, 1)
    return grid


def method_swatch(name: str) -> QIcon:
    """Return a square in the colour of a method."""
    swatch = QPixmap(GRID + HALF, GRID + HALF)
    swatch.fill(method_colour(name))
    icon = QIcon(swatch)
    for mode in (QIcon.Mode.Selected, QIcon.Mode.Disabled):  # Qt would tint these
        icon.addPixmap(swatch, mode)
    return icon


class SidePanel(QScrollArea):
    """A column of controls that scrolls vertically, at least as wide as its widest control; fill `column`."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self._width = width
        content = QWidget()
        content.setProperty("role", "surface")
        content.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.column = vbox(content, margins=(GRID * 2, GRID * 2, GRID * 2, GRID * 2))
        self.setFixedWidth(width)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(content)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow the width that the controls need; Qt's scroll area watches its content already."""
        content = self.widget()
        if event.type() == QEvent.Type.LayoutRequest and content is not None and watched is content:
            needed = content.minimumSizeHint().width() + self.verticalScrollBar().sizeHint().width()
            self.setFixedWidth(max(self._width, needed))
        return super().eventFilter(watched, event)


def beside(*widgets: QWidget, stretch: QWidget | None = None) -> QLayout:
    """Put widgets into a row that wraps; or into one line in which `stretch` takes the remaining width."""
    if stretch is not None:
        return hbox(None, *((widget, int(widget is stretch)) for widget in widgets))
    row = FlowLayout()
    for widget in widgets:
        row.addWidget(widget)
    return row


def captioned(text: str, control: QWidget) -> QWidget:
    """Put a control after a small label, as one widget."""
    label = text_label(text, "muted")
    label.setBuddy(control)
    return side_by_side(label, control)


def side_by_side(*widgets: QWidget, spacing: int = GRID) -> QWidget:
    """Put widgets into one line that never wraps, as one widget."""
    whole = QWidget()
    hbox(whole, *widgets, spacing=spacing)
    return whole


class CollapsibleSection(QWidget):
    """Controls that few users need, below a heading that shows and hides them; fill `column`."""

    def __init__(self, title: str = "More") -> None:
        super().__init__()
        self._title = title
        self.heading = QToolButton()
        self.heading.setCheckable(True)
        self.heading.setProperty("role", "collapsible")
        self.heading.setAccessibleName(f"Show or hide: {title}")
        self._content = QWidget()
        self.column = vbox(self._content)
        vbox(self, self.heading, self._content)
        self.heading.toggled.connect(self.open)
        self.open(False)

    def open(self, on: bool) -> None:
        self.heading.setChecked(on)
        mark = "\N{BLACK DOWN-POINTING SMALL TRIANGLE}" if on else "\N{BLACK RIGHT-POINTING SMALL TRIANGLE}"
        self.heading.setText(f"{mark} {self._title}")
        self._content.setVisible(on)


def explain_disabled(control: QWidget, *, enabled: bool, reason: str, explanation: str = "") -> None:
    control.setEnabled(enabled)
    control.setToolTip(plain_tip(explanation if enabled else reason))


class Readouts(QWidget):
    """Read-outs in a grid, or in rows that wrap without `columns`: a small caption above a number with its unit."""

    def __init__(self, columns: int = 4) -> None:
        super().__init__()
        self._columns = columns
        self._cells: QGridLayout | FlowLayout = QGridLayout(self) if columns else FlowLayout(self)
        self._cells.setContentsMargins(0, 0, 0, 0)
        if isinstance(self._cells, QGridLayout):
            self._cells.setHorizontalSpacing(GRID * 4)
            self._cells.setVerticalSpacing(GRID * 2)
            self._cells.setColumnStretch(columns, 1)
        self._numbers: list[QLabel] = []
        notifier().changed.connect(self._restyle)

    def show_figures(self, figures: Iterable[tuple[str, str, str]]) -> None:
        """Show figures given as (caption, number with unit, tooltip)."""
        for cell in self.findChildren(QWidget, options=Qt.FindChildOption.FindDirectChildrenOnly):
            self._cells.removeWidget(cell)
            cell.deleteLater()
        self._numbers = []
        for index, (caption, number, tip) in enumerate(figures):
            value = text_label(number, "figure")
            cell = stacked(text_label(caption, "muted"), value)
            cell.setToolTip(plain_tip(tip))
            cell.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Maximum)
            value.setFont(font("title", tabular=True))
            value.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            value.setAccessibleName(f"{caption}: {number}")
            self._numbers.append(value)
            if isinstance(self._cells, QGridLayout):
                self._cells.addWidget(cell, index // self._columns, index % self._columns)
            else:
                cell.setContentsMargins(0, 0, 3 * GRID, 0)
                self._cells.addWidget(cell)

    def texts(self) -> list[str]:
        return [label.text() for label in self._numbers]

    def _restyle(self) -> None:
        for label in self._numbers:
            label.setFont(font("title", tabular=True))
