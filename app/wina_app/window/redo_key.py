"""Ctrl+Y, which redoes in the focused text field, else on the page."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QAbstractSpinBox, QApplication, QComboBox, QLineEdit, QPlainTextEdit, QTextEdit, QWidget

KEYS = "Ctrl+Y"


def add_redo_key(window: QWidget, redo: QAction) -> QAction:
    """Let Ctrl+Y redo beside the desktop's own shortcut, the only one that Qt's text fields take."""

    def do() -> None:
        field = _text_field(QApplication.focusWidget())
        if field is not None:
            field.redo()
        else:
            redo.trigger()

    action = QAction(redo.text(), window)
    action.setShortcut(KEYS)
    action.setShortcutContext(Qt.ShortcutContext.ApplicationShortcut)
    action.triggered.connect(lambda: do())
    window.addAction(action)
    return action


def _text_field(widget: QWidget | None) -> QLineEdit | QPlainTextEdit | QTextEdit | None:
    """Return the text that is edited in a widget, None if there is none."""
    field: QWidget | None = widget
    if isinstance(widget, QAbstractSpinBox | QComboBox):
        field = widget.lineEdit()
    return field if isinstance(field, QLineEdit | QPlainTextEdit | QTextEdit) and not field.isReadOnly() else None
