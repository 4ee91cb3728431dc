"""The base of all pages: header with breadcrumb and primary action, inline messages, empty state."""

from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QHideEvent, QKeySequence, QShowEvent, QUndoStack
from PySide6.QtWidgets import (
    QFrame,
    QPushButton,
    QSizePolicy,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from wina_app.style.theme import GRID, HALF, notifier, scaled
from wina_app.style.translation import tr
from wina_app.widgets.boxes import STRETCH, hbox, vbox
from wina_app.widgets.breadcrumb import Breadcrumb
from wina_app.widgets.controls import push_button, text_label
from wina_app.widgets.flow_layout import FlowLayout
from wina_app.widgets.plain_text import plain_tip
from wina_app.widgets.scroll_page import ScrollPage

PRIMARY_KEYS = "Ctrl+Return"
"""Shortcut of the button at the top right of the current page."""


def with_shortcut(tip: str, keys: str) -> str:
    """Return a tooltip that ends in the shortcut, if there is one."""
    native = QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText)
    return f"{plain_tip(tip)} ({native})" if native else plain_tip(tip)


class EmptyState(QWidget):
    """A short description of an empty page, with the button that fills it."""

    triggered = Signal()

    def __init__(self, title: str, text: str, button: str = "") -> None:
        super().__init__()
        self.title = title
        self.heading = text_label(title, "title")
        self._text = text_label(text, wrap=True)
        self.button = QPushButton(button)
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
        column.addStretch(3)
        hbox(self, STRETCH, column, STRETCH, margins=(GRID, GRID, GRID, GRID))
        notifier().changed.connect(self._restyle)
        self._restyle()

    def _restyle(self) -> None:
        self._text.setMinimumWidth(scaled(40 * GRID))
        self._text.setMaximumWidth(scaled(65 * GRID))


class MessageBar(QFrame):
    """An error or notice above the content of a page, which can be selected and dismissed."""

    def __init__(self) -> None:
        super().__init__()
        self._retry: Callable[[], object] | None = None
        self._word = text_label("", "section")
        self.label = text_label("", wrap=True)
        self.label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.label.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        tip = tr("Compute what is missing; stored results are kept")
        self.retry = push_button(tr("Retry"), self._do_retry, name=tr("Retry the failed job"), tip=tip)
        dismiss = push_button(tr("Dismiss"), self.hide, name=tr("Dismiss message"))
        hbox(self, self._word, (self.label, 1), self.retry, dismiss, margins=(GRID * 2, HALF, GRID * 2, HALF))
        self.hide()

    def show_message(self, kind: str, text: str, retry: Callable[[], object] | None = None) -> None:
        """Show a message of kind "error" or "notice", with a button that calls `retry` if given."""
        self._retry = retry
        self.retry.setVisible(retry is not None)
        self.setProperty("role", kind)
        self._word.setText(tr("Error") if kind == "error" else tr("Note"))
        self.label.setText(text)
        self.setAccessibleName(f"{self._word.text()}: {text}")
        self.style().unpolish(self)
        self.style().polish(self)
        self.show()

    def withdraw(self, text: str) -> None:
        """Hide the message if this is its text."""
        if self.label.text() == text:
            self.hide()

    def _do_retry(self) -> None:
        self.hide()
        if self._retry is not None:
            self._retry()


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
        self.key = key
        self.title = title
        self.setProperty("role", "surface")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setAccessibleName(tr("{page} page", page=title))
        heading = text_label(title, "title")
        self._crumbs = Breadcrumb(self.crumb_clicked.emit)
        self.primary = QPushButton()
        self.primary.setProperty("role", "primary")
        self.primary.hide()
        self.primary.clicked.connect(self.primary_triggered)
        header = QWidget()
        header.setProperty("role", "header")
        header.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.header_actions = FlowLayout(right=True)
        margins = (GRID * 2, GRID, GRID * 2, GRID)
        hbox(header, heading, (self._crumbs, 1), self.header_actions, self.primary, margins=margins, spacing=GRID * 2)
        header.setMinimumHeight(GRID * 6)
        self.message = MessageBar()
        self.body = QStackedWidget()
        """The content or the empty state."""
        self._empty: EmptyState | None = None
        self._wants_model = False
        vbox(self, header, self.message, (self.body, 1), spacing=0)

    def showEvent(self, event: QShowEvent) -> None:
        """Emit `visible_changed`."""
        super().showEvent(event)
        self.visible_changed.emit(True)

    def hideEvent(self, event: QHideEvent) -> None:
        """Emit `visible_changed`."""
        super().hideEvent(event)
        self.visible_changed.emit(False)

    def set_content(self, content: QWidget) -> None:
        """Set the widget that is shown unless the page is empty."""
        self._content = ScrollPage(content)
        self.body.addWidget(self._content)
        self.body.setCurrentWidget(self._content)

    def show_empty(self, title: str, text: str, button: str = "", *, wants_model: bool = False) -> None:
        """Replace the content by an empty state, perhaps because no model is open."""
        self.show_content()
        self._empty, self._wants_model = EmptyState(title, text, button), wants_model
        self._empty.triggered.connect(self.empty_triggered)
        self.body.addWidget(self._empty)
        self.body.setCurrentWidget(self._empty)

    def show_awaited_model(self, name: str, breadcrumb: list[tuple[str, str]]) -> None:
        """Say in an empty state without a model that one is being loaded, if `name` is not empty."""
        if self._empty is not None and self._wants_model:
            loading = tr("{name} is being loaded…", name=name)
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
        """True while the empty state is shown."""
        return self._empty is not None

    def set_primary(self, text: str, *, enabled: bool = True, reason: str = "") -> None:
        """Set the text of the primary action, or the reason why it is disabled, for the tooltip."""
        self.primary.setText(text)
        self.primary.setAccessibleName(text)
        self.primary.setEnabled(enabled)
        self.primary.setToolTip(with_shortcut(text, PRIMARY_KEYS) if enabled else plain_tip(reason))
        self.primary.setVisible(True)

    def set_breadcrumb(self, parts: list[tuple[str, str]]) -> None:
        """Show links given as (page key, text)."""
        self._crumbs.show_parts(parts)

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
        """Show an error above the content, with a button that calls `retry` if given."""
        self.message.show_message("error", text, retry)

    def show_notice(self, text: str) -> None:
        """Show a notice above the content."""
        self.message.show_message("notice", text)

    def clear_message(self) -> None:
        """Hide the message."""
        self.message.hide()
