"""The settings dialog: one row for each field of `Preferences`, made from the field alone."""

from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge, Le
from pydantic.fields import FieldInfo
from PySide6.QtCore import QSize, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QLineEdit,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from wina_app.services.preferences import Preferences
from wina_app.style.theme import GRID, HALF, notifier, scaled
from wina_app.style.translation import tr
from wina_app.widgets.controls import pad_text, text_label
from wina_app.widgets.scroll_page import ScrollPage

_OF_SCREEN = 0.9


class SettingsDialog(QDialog):
    """Every change takes effect at once, so that there is nothing to apply; it never blocks the window."""

    changed = Signal(object)
    """Preferences."""

    def __init__(self, parent: QWidget, preferences: Preferences) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Settings"))
        self._preferences = preferences
        self.controls: dict[str, QWidget] = {}
        self._setters: dict[str, Callable[[Any], None]] = {}
        content = QWidget()
        content.setProperty("role", "form")  # on the dialog's own ground
        form = QGridLayout(content)
        form.setContentsMargins(0, 0, GRID, 0)
        form.setHorizontalSpacing(GRID * 3)
        form.setVerticalSpacing(HALF)
        form.setColumnStretch(1, 1)
        for row, (name, field) in enumerate(Preferences.model_fields.items()):
            control, self._setters[name] = self._control(name, field)
            control.setAccessibleName(field.title)
            control.setAccessibleDescription(field.description)
            control.setToolTip(field.description)
            self.controls[name] = control
            label = text_label("" if isinstance(control, QCheckBox) else field.title)
            label.setBuddy(control)
            form.addWidget(label, 2 * row, 0)
            form.addWidget(control, 2 * row, 1)
            form.addWidget(text_label(field.description, "muted", wrap=True), 2 * row + 1, 1)
        buttons = QDialogButtonBox()
        restore = buttons.addButton(tr("Restore defaults"), QDialogButtonBox.ButtonRole.ResetRole)
        restore.clicked.connect(lambda: self.show_preferences(Preferences()))
        close = buttons.addButton(tr("Close"), QDialogButtonBox.ButtonRole.AcceptRole)
        close.clicked.connect(self.accept)
        column = QVBoxLayout(self)
        column.setContentsMargins(GRID * 3, GRID * 3, GRID * 3, GRID * 2)
        column.setSpacing(GRID * 3)
        self._form = ScrollPage(content)
        column.addWidget(self._form, 1)
        column.addWidget(buttons)
        self.show_preferences(preferences)
        notifier().changed.connect(self._fit)
        self._fit()

    def _fit(self) -> None:
        """Resize to what the texts and controls need, as far as the screen reaches."""
        layout, margins = self._form.widget().layout(), self.layout().contentsMargins()
        beside = margins.left() + margins.right()
        bar = self._form.verticalScrollBar().sizeHint().width() + 2 * self._form.frameWidth()
        width = max(scaled(GRID * 70), layout.totalMinimumSize().width() + beside + bar)
        form = layout.totalHeightForWidth(width - beside)
        rest = self.layout().sizeHint().height() - self._form.sizeHint().height()
        self.resize(QSize(width, form + rest).boundedTo(self.screen().availableSize() * _OF_SCREEN))

    def show_preferences(self, preferences: Preferences) -> None:
        """Show, and thereby set, these."""
        for name, show in self._setters.items():
            show(getattr(preferences, name))

    def _control(self, name: str, field: FieldInfo) -> tuple[QWidget, Callable[[Any], None]]:
        """The control of a field, and how a value is shown in it."""
        kind = field.annotation
        if get_origin(kind) is Literal:
            box = QComboBox()
            names = (field.json_schema_extra or {}).get("names", {})
            for value in get_args(kind):
                box.addItem(names.get(value, str(value).capitalize()), value)
            box.currentIndexChanged.connect(lambda: self._set(name, box.currentData()))
            return box, lambda value: box.setCurrentIndex(box.findData(value))
        if kind is bool:
            switch = QCheckBox(field.title)
            switch.toggled.connect(lambda on: self._set(name, on))
            return switch, switch.setChecked
        if kind is int:
            spin = QSpinBox()
            pad_text(spin)
            spin.setKeyboardTracking(False)
            spin.setSingleStep((field.json_schema_extra or {}).get("step", 1))
            for bound in field.metadata:
                match bound:
                    case Ge():
                        spin.setMinimum(bound.ge)
                    case Le():
                        spin.setMaximum(bound.le)
            spin.valueChanged.connect(lambda value: self._set(name, value))
            return spin, spin.setValue
        line = QLineEdit()
        line.editingFinished.connect(lambda: self._set(name, line.text().strip()))
        return line, lambda value: (line.setText(value), self._set(name, value))

    def _set(self, name: str, value: Any) -> None:
        if getattr(self._preferences, name) != value:
            self._preferences = self._preferences.model_copy(update={name: value})
            self.changed.emit(self._preferences)
