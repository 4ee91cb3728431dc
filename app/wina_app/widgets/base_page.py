"""What every page has in common: header with breadcrumb and one primary action, inline messages, empty state."""

from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QHideEvent, QKeySequence, QShowEvent, QUndoStack
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QPushButton,
    QSizePolicy,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from wina_app.style.theme import GRID, HALF, notifier, scaled
from wina_app.style.translation import tr
from wina_app.widgets.breadcrumb import Breadcrumb
from wina_app.widgets.controls import text_label
from wina_app.widgets.flow_layout import FlowLayout
from wina_app.widgets.plain_text import plain_tip
from wina_app.widgets.scroll_page import ScrollPage

PRIMARY_KEYS = "Ctrl+Return"
"""Presses the button at the top right of whichever page is shown."""


def with_shortcut(tip: str, keys: str) -> str:
    """A tooltip that ends in the shortcut, where there is one."""
    native = QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText)
    return f"{plain_tip(tip)} ({native})" if native else plain_tip(tip)


class EmptyState(QWidget):
    """Says what a page shows, and offers the one button that fills it."""

    triggered = Signal()

    def __init__(self, title: str, text: str, button: str = "") -> None:
        super().__init__()
        self.title = title
        self.heading = text_label(title, "title")
        self._text = text_label(text, wrap=True)
        self.button = QPushButton(button)
        self.button.setAccessibleName(button)
        if not button:  # showing it before it lies in something would open a window
            self.button.hide()
        self.button.clicked.connect(self.triggered)
        column = QVBoxLayout()
        column.setSpacing(GRID)
        column.addWidget(self.heading)
        column.addWidget(self._text)
        column.addSpacing(GRID)
        column.addWidget(self.button, alignment=Qt.AlignmentFlag.AlignLeft)
        centred = QHBoxLayout(self)
        centred.addStretch(1)
        holder = QVBoxLayout()
        holder.addStretch(2)
        holder.addLayout(column)
        holder.addStretch(3)
        centred.addLayout(holder)
        centred.addStretch(1)
        notifier().changed.connect(self._restyle)
        self._restyle()

    def _restyle(self) -> None:
        self._text.setMinimumWidth(scaled(40 * GRID))
        self._text.setMaximumWidth(scaled(65 * GRID))


class MessageBar(QFrame):
    """One line above a page's content: an error or a notice, selectable, dismissable."""

    def __init__(self) -> None:
        super().__init__()
        self._again: Callable[[], object] | None = None
        self._word = text_label("", "section")
        self.label = text_label("", wrap=True)
        self.label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.label.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.retry = QPushButton(tr("Retry"))
        self.retry.setAccessibleName(tr("Retry what failed"))
        self.retry.setToolTip(tr("Does what is missing; what was stored is kept"))
        self.retry.clicked.connect(self._do_again)
        dismiss = QPushButton(tr("Dismiss"))
        dismiss.setAccessibleName(tr("Dismiss message"))
        dismiss.clicked.connect(self.hide)
        row = QHBoxLayout(self)
        row.setContentsMargins(GRID * 2, HALF, GRID * 2, HALF)
        row.setSpacing(GRID)
        row.addWidget(self._word)
        row.addWidget(self.label, 1)
        row.addWidget(self.retry)
        row.addWidget(dismiss)
        self.hide()

    def show_message(self, kind: str, text: str, retry: Callable[[], object] | None = None) -> None:
        """`kind` is "error" or "notice"; `retry` does again what failed."""
        self._again = retry
        self.retry.setVisible(retry is not None)
        self.setProperty("role", kind)
        self._word.setText(tr("Error") if kind == "error" else tr("Note"))
        self.label.setText(text)
        self.setAccessibleName(f"{self._word.text()}: {text}")
        self.style().unpolish(self)
        self.style().polish(self)
        self.show()

    def withdraw(self, text: str) -> None:
        """Hide it if this is what it says."""
        if self.label.text() == text:
            self.hide()

    def _do_again(self) -> None:
        self.hide()
        if self._again is not None:
            self._again()


class Page(QWidget):
    """Base of all pages. Subclasses hand their widget to `set_content`, set the primary action, and emit.

    Signals: `primary_triggered` for the button at the top right; `crumb_clicked(key)` with the key of the page that
    a part of the breadcrumb stands for ("model", "rotation", "sparsity"); `visible_changed` since nothing needs to be
    read or counted for a page that is not shown.
    """

    primary_triggered = Signal()
    crumb_clicked = Signal(str)
    empty_triggered = Signal()
    visible_changed = Signal(bool)

    def __init__(self, key: str, title: str) -> None:
        super().__init__()
        self.start: QWidget | None = None
        """Where the keyboard starts; None for the first control of the body."""
        self.inspector: QWidget | None = None
        """What the Inspector dock shows while this page is shown."""
        self.undo_stack: QUndoStack | None = None
        """What undo and redo of the Edit menu work on while this page is shown."""
        self.commands: list[QAction] = []
        """What can be done on this page: its menu, and its part of the command palette."""
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
        row = QHBoxLayout(header)
        row.setContentsMargins(GRID * 2, GRID, GRID * 2, GRID)
        row.setSpacing(GRID * 2)
        row.addWidget(heading)
        row.addWidget(self._crumbs, 1)
        self.header_actions = FlowLayout(right=True)
        row.addLayout(self.header_actions)
        row.addWidget(self.primary)
        header.setMinimumHeight(GRID * 6)
        self.message = MessageBar()
        self.body = QStackedWidget()
        """The content or the empty state, whichever is shown."""
        self._empty: EmptyState | None = None
        self._wants_model = False
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(header)
        column.addWidget(self.message)
        column.addWidget(self.body, 1)

    def showEvent(self, event: QShowEvent) -> None:
        """Tell that the page is shown."""
        super().showEvent(event)
        self.visible_changed.emit(True)

    def hideEvent(self, event: QHideEvent) -> None:
        """Tell that it is not."""
        super().hideEvent(event)
        self.visible_changed.emit(False)

    def set_content(self, content: QWidget) -> None:
        """The page's own widget, shown unless the empty state is."""
        self._content = ScrollPage(content)
        self.body.addWidget(self._content)
        self.body.setCurrentWidget(self._content)

    def show_empty(self, title: str, text: str, button: str = "", *, wants_model: bool = False) -> None:
        """Replace the content by an empty state, perhaps for want of a model; its button emits `empty_triggered`."""
        self.show_content()
        self._empty, self._wants_model = EmptyState(title, text, button), wants_model
        self._empty.triggered.connect(self.empty_triggered)
        self.body.addWidget(self._empty)
        self.body.setCurrentWidget(self._empty)

    def show_awaited_model(self, name: str, breadcrumb: list[tuple[str, str]]) -> None:
        """Where a model is wanted, say that the one of this name is on its way; empty for none."""
        if self._empty is not None and self._wants_model:
            loading = tr("{name} is being loaded…", name=name)
            self._empty.heading.setText(loading if name else self._empty.title)
            self.set_breadcrumb(breadcrumb)

    def show_content(self) -> None:
        """Back from the empty state."""
        if self._empty is not None:
            self.body.removeWidget(self._empty)
            self._empty.deleteLater()
            self._empty = None
        self.body.setCurrentWidget(self._content)

    @property
    def is_empty(self) -> bool:
        """Whether the empty state is shown."""
        return self._empty is not None

    def set_primary(self, text: str, *, enabled: bool = True, reason: str = "") -> None:
        """Name the one primary action; when it is impossible, `reason` says why in the tooltip."""
        self.primary.setText(text)
        self.primary.setAccessibleName(text)
        self.primary.setEnabled(enabled)
        self.primary.setToolTip(with_shortcut(text, PRIMARY_KEYS) if enabled else plain_tip(reason))
        self.primary.setVisible(True)

    def set_breadcrumb(self, parts: list[tuple[str, str]]) -> None:
        """(page key, text) of each part, in order; clicking one emits `crumb_clicked`."""
        self._crumbs.show_parts(parts)

    def add_command(self, text: str, do: Callable[[], object], keys: str = "", tip: str = "") -> QAction:
        """Offer something in the page's menu and in the command palette, with its shortcut in menu and tooltip.

        The shortcut works while the page is shown, wherever the keyboard is. Disable the action while it is not
        possible, with the reason in its tooltip.
        """
        action = QAction(text, self)
        action.setShortcut(QKeySequence(keys))
        action.setToolTip(with_shortcut(tip or text, keys))
        action.triggered.connect(lambda: do())
        self.addAction(action)
        self.commands.append(action)
        return action

    def show_error(self, text: str, retry: Callable[[], object] | None = None) -> None:
        """Show an error inline, above the content, until it is dismissed or cleared; of a job, with a button that does
        it again."""
        self.message.show_message("error", text, retry)

    def show_notice(self, text: str) -> None:
        """Show a remark inline."""
        self.message.show_message("notice", text)

    def clear_message(self) -> None:
        """Take the inline message away."""
        self.message.hide()
