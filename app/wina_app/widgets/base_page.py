"""The base of all pages: header with breadcrumb, primary action and messages, and the empty state."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from PySide6.QtCore import QRect, QSize, Qt, Signal
from PySide6.QtGui import QAction, QHideEvent, QKeySequence, QResizeEvent, QShowEvent, QUndoStack
from PySide6.QtWidgets import QLayout, QPushButton, QSizePolicy, QStackedWidget, QVBoxLayout, QWidget

from wina_app.style.theme import GRID, HALF, notifier, scaled
from wina_app.widgets.boxes import STRETCH, hbox, vbox
from wina_app.widgets.controls import push_button, text_label
from wina_app.widgets.flow_layout import FlowLayout
from wina_app.widgets.form_memory import set_values, values_of
from wina_app.widgets.message_bar import MessageBar
from wina_app.widgets.plain_text import plain_tip
from wina_app.widgets.question import ComputeQuestion, ask_compute
from wina_app.widgets.scroll_page import ScrollPage
from wina_app.widgets.start_button import StartButton

_LEAST = "mmm\N{HORIZONTAL ELLIPSIS}"

PRIMARY_KEYS = "Ctrl+Return"
"""Shortcut of the button at the top right of the current page."""
_MESSAGE = 55 * GRID
"""Least width of a message in the header, at 100 % text size."""


class Breadcrumb(QWidget):
    """A row of links that fills its line; links end in an ellipsis if there is little room."""

    def __init__(self, go_to: Callable[[str], object]) -> None:
        super().__init__()
        self._go_to = go_to
        self._links: list[tuple[str, str]] = []
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self._row = hbox(self, spacing=0)
        self._row.setSizeConstraint(QLayout.SizeConstraint.SetMinimumSize)  # buttons beside it wrap before it vanishes

    def show_links(self, links: Sequence[tuple[str, str]]) -> None:
        """Show links given as (page key, text)."""
        if list(links) == self._links:  # every page hears of every change
            return
        self._links = list(links)
        while (item := self._row.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.hide()  # until it is deleted
                widget.deleteLater()
        for index, (key, text) in enumerate(links):
            if index:
                self._row.addWidget(text_label("/", "muted"))
            crumb = _Crumb(text)
            crumb.setAccessibleName(f"Go to {key}: {text}")
            crumb.clicked.connect(lambda _=False, key=key: self._go_to(key))
            self._row.addWidget(crumb)
        self._row.addStretch(1)


class _Crumb(QPushButton):
    """A link with its whole text in the tooltip."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._whole = text
        self.setProperty("role", "link")
        self.setToolTip(plain_tip(text))
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        text = self.fontMetrics().horizontalAdvance(self._whole) + 1  # a width that is rounded must not cost a letter
        return QSize(self._frame() + text, super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        few = QSize(self._frame() + self.fontMetrics().horizontalAdvance(_LEAST), self.sizeHint().height())
        return few.boundedTo(self.sizeHint())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        room = self.width() - self._frame()
        self.setText(self.fontMetrics().elidedText(self._whole, Qt.TextElideMode.ElideRight, room))

    def _frame(self) -> int:
        """Return the width that the style adds to the text."""
        return super().sizeHint().width() - self.fontMetrics().horizontalAdvance(self.text())


def with_shortcut(tip: str, keys: str) -> str:
    native = QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText)
    return f"{plain_tip(tip)} ({native})" if native else plain_tip(tip)


OtherWay = tuple[str, Callable[[], object]]
"""Text and command of a second button."""


class EmptyState(QWidget):
    """A short description of an empty page, with the button that fills it."""

    triggered = Signal()

    def __init__(self, title: str, text: str, button: str = "", other: OtherWay | None = None) -> None:
        """`other` is a second way to fill the page."""
        super().__init__()
        self.title = title
        self.heading = text_label(title, "title")
        self._text = text_label(text, wrap=True)
        self.button = StartButton(button)
        self.button.setAccessibleName(button)
        if not button:  # setVisible(True) without a parent would open a window
            self.button.hide()
        self.button.clicked.connect(self.triggered)
        column = QVBoxLayout()
        column.setSpacing(GRID)
        column.addStretch(2)
        column.addWidget(self.heading)
        column.addWidget(self._text)
        column.addSpacing(GRID)
        column.addWidget(self.button, alignment=Qt.AlignmentFlag.AlignLeft)
        if other is not None:
            column.addWidget(push_button(*other, role="link"), alignment=Qt.AlignmentFlag.AlignLeft)
        column.addStretch(3)
        hbox(self, STRETCH, column, STRETCH, margins=(GRID, GRID, GRID, GRID))
        notifier().changed.connect(self._restyle)
        self._restyle()

    def _restyle(self) -> None:
        self._text.setMinimumWidth(scaled(40 * GRID))
        self._text.setMaximumWidth(scaled(65 * GRID))


class Page(QWidget):
    """Base of all pages: a subclass passes its widget to `set_content` and sets the primary action."""

    primary_triggered = Signal()
    """The button at the top right was pressed."""
    crumb_clicked = Signal(str)
    """Key of the page that a part of the breadcrumb links to."""
    empty_triggered = Signal()
    """The button of the empty state was pressed."""
    visible_changed = Signal(bool)
    """A page that is not shown need not read or compute anything."""
    saved = Signal(object, str)
    """Path of a file or folder that was written, and a text about it, perhaps empty."""

    def __init__(self, key: str, title: str) -> None:
        super().__init__()
        self.start: QWidget | None = None
        """First widget to get the focus; None for the first control of the body."""
        self.inspector: QWidget | None = None
        """Content of the Inspector dock while this page is shown."""
        self.undo_stack: QUndoStack | None = None
        """Stack of undo and redo while this page is shown."""
        self.commands: list[QAction] = []
        """Actions of the page's menu and of the command palette."""
        self.remembered: dict[str, QWidget] = {}
        """Input widgets by the name under which `view_state` stores their values."""
        self.key = key
        self.title = title
        self.setProperty("role", "surface")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName(f"{title} page")
        self._heading = text_label(title, "title")
        self._crumbs = Breadcrumb(self.crumb_clicked.emit)
        self.primary = StartButton()
        self.primary.setProperty("role", "primary")
        self.primary.hide()
        self.primary.clicked.connect(self.primary_triggered)
        self.header = QWidget()
        self.header.setProperty("role", "header")
        self.header.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.header_actions = FlowLayout(right=True)
        margins, spacing = (GRID * 2, HALF, GRID * 2, HALF), GRID * 2
        row = (self._heading, (self._crumbs, 1), self.header_actions, self.primary)
        hbox(self.header, *row, margins=margins, spacing=spacing)
        self.header.setMinimumHeight(GRID * 5)
        self.message = MessageBar(self, self._message_room, key)
        self.body = QStackedWidget()
        """The content or the empty state."""
        self._empty: EmptyState | None = None
        self._wants_model = False
        vbox(self, self.header, (self.body, 1), spacing=0)
        self.header.installEventFilter(self.message)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.visible_changed.emit(True)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.visible_changed.emit(False)

    def _message_room(self) -> QRect:
        """Return the place of messages: over the breadcrumb, or below the header if that is too narrow."""
        left = self._heading.geometry().right() + 2 * GRID
        right = left + self._crumbs.width()
        if right - left >= scaled(_MESSAGE):
            return QRect(left, HALF, right - left, self.header.height() - 2 * HALF)
        return QRect(2 * GRID, self.header.height(), self.width() - 4 * GRID, 0)

    def set_content(self, content: QWidget) -> None:
        """Set the widget that is shown unless the page is empty."""
        self._content = ScrollPage(content)
        self.body.addWidget(self._content)
        self.body.setCurrentWidget(self._content)

    def show_empty(
        self, title: str, text: str, button: str = "", *, wants_model: bool = False, other: OtherWay | None = None
    ) -> None:
        """Replace the content by an empty state, perhaps because no model is open."""
        self.show_content()
        self._empty, self._wants_model = EmptyState(title, text, button, other), wants_model
        self._empty.triggered.connect(self.empty_triggered)
        self.body.addWidget(self._empty)
        self.body.setCurrentWidget(self._empty)

    def show_awaited_model(self, name: str, breadcrumb: list[tuple[str, str]]) -> None:
        """Say in an empty state without a model that one is being loaded, if `name` is not empty."""
        if self._empty is not None and self._wants_model:
            loading = f"{name} is being loaded…"
            self._empty.heading.setText(loading if name else self._empty.title)
            self.set_breadcrumb(breadcrumb)

    def show_content(self) -> None:
        """Replace the empty state by the content."""
        if self._empty is not None:
            self.body.removeWidget(self._empty)
            self._empty.deleteLater()
            self._empty = None
        self.body.setCurrentWidget(self._content)

    @property
    def is_empty(self) -> bool:
        return self._empty is not None

    def view_state(self) -> dict[str, object]:
        """Return what the next start restores, as JSON: the values of the `remembered` widgets.

        A page with more to remember extends this and `restore_view`.
        """
        return values_of(self.remembered)

    def restore_view(self, state: Mapping[str, object]) -> None:
        """Restore a state of `view_state`, perhaps of an older version or damaged: what is impossible is ignored.

        Called once, when the page has been added; the model of the last session is loaded later.
        """
        set_values(self.remembered, state)

    def set_primary(self, text: str, *, enabled: bool = True, reason: str = "") -> None:
        """Set the text of the primary action, or the reason why it is disabled, for the tooltip."""
        self.primary.setText(text)
        self.primary.setAccessibleName(text)
        self.primary.setEnabled(enabled)
        self.primary.setToolTip(with_shortcut(text, PRIMARY_KEYS) if enabled else plain_tip(reason))
        self.primary.setVisible(True)

    def header_buttons(self) -> list[QPushButton]:
        """Return the buttons beside the primary action."""
        items = map(self.header_actions.itemAt, range(self.header_actions.count()))
        widgets = [item.widget() for item in items if item is not None]
        return [widget for widget in widgets if isinstance(widget, QPushButton)]

    def set_breadcrumb(self, links: list[tuple[str, str]]) -> None:
        """Show links given as (page key, text)."""
        self._crumbs.show_links(links)

    def add_command(self, text: str, do: Callable[[], object], keys: str = "", tip: str = "") -> QAction:
        """Add an action to the page's menu and to the command palette.

        Its shortcut works while the page is shown. Disable the action while it is impossible, with the reason in its
        tooltip.
        """
        action = QAction(text, self)
        action.setShortcut(QKeySequence(keys))
        action.setToolTip(with_shortcut(tip or text, keys))
        action.triggered.connect(lambda: do())
        self.addAction(action)
        self.commands.append(action)
        return action

    def show_error(self, text: str, retry: Callable[[], object] | None = None) -> None:
        """Show an error over the header until it is withdrawn, with a button that calls `retry` if given."""
        self.message.show_message("error", text, retry)

    def show_notice(self, text: str) -> None:
        self.message.show_message("notice", text)

    def show_saved(self, path: Path, text: str = "") -> None:
        """Report a saved file or folder by its name, or by `text`, with a button that opens its folder."""
        self.saved.emit(path, text)

    def ask_compute(self, question: ComputeQuestion) -> bool:
        return ask_compute(self, question)

    def clear_message(self) -> None:
        self.message.clear()
