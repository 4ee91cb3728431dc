"""Small building blocks of the pages: labels with a role, labelled controls, grids of figures."""

from collections.abc import Collection, Iterable

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
    QScrollArea,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from wina_app.style.theme import GRID, HALF, font, method_colour, notifier
from wina_app.style.translation import tr
from wina_app.widgets.flow_layout import FlowLayout
from wina_app.widgets.help_button import HelpButton
from wina_app.widgets.plain_text import plain_tip


def text_label(text: str, role: str = "", *, wrap: bool = False, rich: bool = False) -> QLabel:
    """A label in one of the style sheet's roles: title, section, muted, figure, failed. Its text is shown to the
    letter unless it is `rich`, which is for the program's own words alone."""
    label = QLabel(text)
    label.setTextFormat(Qt.TextFormat.RichText if rich else Qt.TextFormat.PlainText)
    if role:
        label.setProperty("role", role)
    label.setWordWrap(wrap)
    return label


def rule() -> QFrame:
    """A hairline between areas."""
    frame = QFrame()
    frame.setProperty("role", "rule")
    return frame


def with_term(widget: QWidget, term: str) -> QHBoxLayout:
    """A widget, and at the end of its row what a term of the guide's glossary means."""
    return beside(widget, HelpButton(term), stretch=widget)


def labelled(text: str, control: QWidget, *, hint: str = "", term: str = "") -> QVBoxLayout:
    """The control under its label, which is also its accessible name; `hint` is small print below, `term` one of the
    guide's glossary, explained beside the label."""
    column = QVBoxLayout()
    column.setSpacing(HALF)
    label = text_label(text, wrap=True)
    label.setBuddy(control)
    if not control.accessibleName():
        control.setAccessibleName(text)
    if term:
        column.addLayout(with_term(label, term))
    else:
        column.addWidget(label)
    column.addWidget(control)
    if hint:
        small = text_label(hint, "muted", wrap=True)
        control.setAccessibleDescription(hint)
        column.addWidget(small)
    return column


def pad_text(box: QAbstractSpinBox) -> None:
    """Move a spin box's text off its border; style sheets cannot."""
    box.lineEdit().setTextMargins(HALF + 2, 0, 0, 0)


def wrap_words(edit: QPlainTextEdit) -> None:
    """Let long words be scrolled to: to break them, as Qt does otherwise, takes a time that grows with the square of
    their length, 13 s for 300,000 characters without a space."""
    edit.setWordWrapMode(QTextOption.WrapMode.WordWrap)


class ElidedLabel(QLabel):
    """One line that gives way: it ends in an ellipsis where there is no room, and has it all in its tooltip."""

    def __init__(self, role: str = "", elide: Qt.TextElideMode = Qt.TextElideMode.ElideRight) -> None:
        super().__init__()
        self._whole, self._elide = "", elide
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setProperty("role", role)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    def setText(self, text: str) -> None:
        """Show a text, as much of it as fits."""
        self._whole = text
        self.setToolTip(plain_tip(text))
        self._fit()

    def whole(self) -> str:
        """All of the text."""
        return self._whole

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit the text to the new width."""
        super().resizeEvent(event)
        self._fit()

    def _fit(self) -> None:
        super().setText(self.fontMetrics().elidedText(self._whole, self._elide, self.contentsRect().width()))


def close_together(*widgets: QWidget) -> QVBoxLayout:
    """A column of widgets that belong together, without space between."""
    column = QVBoxLayout()
    column.setSpacing(0)
    for widget in widgets:
        column.addWidget(widget)
    return column


def stacked(*widgets: QWidget) -> QWidget:
    """The same as one widget."""
    whole = QWidget()
    column = close_together(*widgets)
    column.setContentsMargins(0, 0, 0, 0)
    whole.setLayout(column)
    return whole


def in_two_columns(boxes: Collection[QWidget]) -> QGridLayout:
    """Widgets that belong together, the first half of them on the left."""
    grid = QGridLayout()
    grid.setHorizontalSpacing(GRID)
    grid.setVerticalSpacing(0)
    rows = (len(boxes) + 1) // 2
    for index, box in enumerate(boxes):
        grid.addWidget(box, index % rows, index // rows)
    grid.setColumnStretch(1, 1)
    return grid


def method_swatch(name: str) -> QIcon:
    """A square in the method's colour."""
    swatch = QPixmap(GRID + HALF, GRID + HALF)
    swatch.fill(method_colour(name))
    icon = QIcon(swatch)
    for mode in (QIcon.Mode.Selected, QIcon.Mode.Disabled):  # which Qt would tint
        icon.addPixmap(swatch, mode)
    return icon


class SidePanel(QScrollArea):
    """A column of controls that scrolls when the window is low; `column` is the layout to fill.

    It is as wide as asked for, or as its widest control needs, so that nothing is cut off at its side.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self._width = width
        content = QWidget()
        content.setProperty("role", "surface")
        content.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.column = QVBoxLayout(content)
        self.column.setContentsMargins(GRID * 2, GRID * 2, GRID * 2, GRID * 2)
        self.column.setSpacing(GRID)
        self.setFixedWidth(width)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(content)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow what the controls need; Qt's scroll area watches its content already."""
        if event.type() == QEvent.Type.LayoutRequest and watched is self.widget():
            needed = self.widget().minimumSizeHint().width() + self.verticalScrollBar().sizeHint().width()
            self.setFixedWidth(max(self._width, needed))
        return super().eventFilter(watched, event)


def beside(*widgets: QWidget, stretch: QWidget | None = None) -> QLayout:
    """Widgets in a row, which goes on in the next line where it must; or one of them takes what the others leave."""
    if stretch is None:
        lines = FlowLayout()
        for widget in widgets:
            lines.addWidget(widget)
        return lines
    row = QHBoxLayout()
    row.setSpacing(GRID)
    for widget in widgets:
        row.addWidget(widget, 1 if widget is stretch else 0)
    return row


def captioned(text: str, control: QWidget) -> QWidget:
    """The control after a small label, as one."""
    label = text_label(text, "muted")
    label.setBuddy(control)
    return side_by_side(label, control)


def side_by_side(*widgets: QWidget, spacing: int = GRID) -> QWidget:
    """Widgets in one row that stay together."""
    whole = QWidget()
    row = QHBoxLayout(whole)
    row.setContentsMargins(0, 0, 0, 0)
    row.setSpacing(spacing)
    for widget in widgets:
        row.addWidget(widget)
    return whole


class CollapsibleSection(QWidget):
    """Controls that few need, under a heading that opens and closes them; `column` is the layout to fill."""

    def __init__(self, title: str = tr("More")) -> None:
        super().__init__()
        self._title = title
        self.heading = QToolButton()
        self.heading.setCheckable(True)
        self.heading.setProperty("role", "collapsible")
        self.heading.setAccessibleName(tr("Show or hide: {heading}", heading=title))
        self._content = QWidget()
        self.column = QVBoxLayout(self._content)
        self.column.setContentsMargins(0, 0, 0, 0)
        self.column.setSpacing(GRID)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(GRID)
        whole.addWidget(self.heading)
        whole.addWidget(self._content)
        self.heading.toggled.connect(self.open)
        self.open(False)

    def open(self, on: bool) -> None:
        """Show or hide the controls."""
        self.heading.setChecked(on)
        mark = "\N{BLACK DOWN-POINTING SMALL TRIANGLE}" if on else "\N{BLACK RIGHT-POINTING SMALL TRIANGLE}"
        self.heading.setText(f"{mark} {self._title}")
        self._content.setVisible(on)


def explain_disabled(control: QWidget, *, enabled: bool, reason: str, explanation: str = "") -> None:
    """Enable a control, or disable it with the reason in its tooltip."""
    control.setEnabled(enabled)
    control.setToolTip(plain_tip(explanation if enabled else reason))


class Readouts(QWidget):
    """Read-outs: a small caption over a number with its unit, in as many columns as asked for."""

    def __init__(self, columns: int = 4) -> None:
        super().__init__()
        self._columns = columns
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(GRID * 4)
        self._grid.setVerticalSpacing(GRID * 2)
        self._grid.setColumnStretch(columns, 1)
        self._numbers: list[QLabel] = []
        notifier().changed.connect(self._restyle)

    def show_figures(self, figures: Iterable[tuple[str, str, str]]) -> None:
        """(caption, number with unit, explanation for the tooltip) of each."""
        while (item := self._grid.takeAt(0)) is not None:
            item.widget().deleteLater()
        self._numbers = []
        for index, (caption, number, explanation) in enumerate(figures):
            cell = QWidget()
            cell.setToolTip(plain_tip(explanation))
            cell.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Maximum)
            column = QVBoxLayout(cell)
            column.setContentsMargins(0, 0, 0, 0)
            column.setSpacing(0)
            value = text_label(number, "figure")
            value.setFont(font("title", tabular=True))
            value.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            value.setAccessibleName(f"{caption}: {number}")
            column.addWidget(text_label(caption, "muted"))
            column.addWidget(value)
            self._numbers.append(value)
            self._grid.addWidget(cell, index // self._columns, index % self._columns)

    def texts(self) -> list[str]:
        """The numbers shown, in order."""
        return [label.text() for label in self._numbers]

    def _restyle(self) -> None:
        for label in self._numbers:
            label.setFont(font("title", tabular=True))
