"""The settings dialog, with one row for each field of `Preferences`."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, cast, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QLabel,
    QLineEdit,
    QTabWidget,
    QWidget,
)

from wina_app.services.settings import Preferences
from wina_app.style.theme import GRID, HALF, scaled
from wina_app.widgets.boxes import vbox
from wina_app.widgets.controls import text_label
from wina_app.widgets.fields import choices, whole_number
from wina_app.widgets.scroll_page import ScrollPage

_OF_SCREEN = 0.9


class SettingsDialog(QDialog):
    """Every change takes effect at once, so that there is nothing to apply; it never blocks the window."""

    changed = Signal(object)
    """Preferences."""

    def __init__(
        self,
        parent: QWidget,
        preferences: Preferences,
        fixed: Mapping[str, str] | None = None,
        machines: QWidget | None = None,
    ) -> None:
        """Show preferences; `fixed` are reasons why some of them have no effect now, by name.

        `machines` is the page beside them.
        """
        super().__init__(parent)
        self.setWindowTitle("Settings")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._preferences, self._fixed = preferences, fixed or {}
        self.controls: dict[str, QWidget] = {}
        self._setters: dict[str, Callable[[Any], None]] = {}
        self._notes: dict[str, QLabel] = {}
        """Description of each preference, or the problem with what was typed."""
        self._refused: set[str] = set()
        """Preferences whose controls show a value that was refused."""
        content = QWidget()
        content.setProperty("role", "form")  # keeps the background of the dialog
        form = QGridLayout(content)
        form.setContentsMargins(0, 0 if machines is None else GRID * 2, GRID, 0)
        form.setHorizontalSpacing(GRID * 3)
        form.setVerticalSpacing(HALF)
        form.setColumnStretch(1, 1)
        for row, (name, field) in enumerate(Preferences.model_fields.items()):
            control, self._setters[name] = self._control(name, field)
            title, description = field.title or name, self._description(name)
            control.setAccessibleName(title)
            control.setAccessibleDescription(description)
            control.setToolTip(description)
            self.controls[name] = control
            label = text_label("" if isinstance(control, QCheckBox) else title)
            label.setBuddy(control)
            form.addWidget(label, 2 * row, 0)
            form.addWidget(control, 2 * row, 1)
            self._notes[name] = text_label(description, "muted", wrap=True)
            form.addWidget(self._notes[name], 2 * row + 1, 1)
            control.setEnabled(name not in self._fixed)
        buttons = QDialogButtonBox()
        self._restore = restore = buttons.addButton("Restore defaults", QDialogButtonBox.ButtonRole.ResetRole)
        restore.clicked.connect(lambda: self.show_preferences(Preferences()))
        close = buttons.addButton("Close", QDialogButtonBox.ButtonRole.AcceptRole)
        close.clicked.connect(self.accept)
        margins = (GRID * 3, GRID * 3, GRID * 3, GRID * 2)
        self._pages = QTabWidget()
        self._pages.tabBar().setAccessibleName("Pages of the settings")
        self._pages.addTab(ScrollPage(content), "General")
        if machines is not None:
            self._pages.addTab(machines, "Machines")
        self._pages.tabBar().setVisible(machines is not None)
        self._pages.currentChanged.connect(lambda page: self._restore.setVisible(page == 0))
        vbox(self, (self._pages, 1), buttons, margins=margins, spacing=GRID * 3)
        self.show_preferences(preferences)
        wide = scaled(GRID * (70 if machines is None else 108))
        self.resize(QSize(wide, scaled(GRID * 90)).boundedTo(self.screen().availableSize() * _OF_SCREEN))

    def accept(self) -> None:
        """Close, or focus a control whose value was refused."""
        if self._refused:
            self._pages.setCurrentIndex(0)
            self.controls[min(self._refused)].setFocus()
        else:
            super().accept()

    def reject(self) -> None:
        """Close, or restore the values in place of those that were refused."""
        if self._refused:
            self.show_preferences(self._preferences)
        else:
            super().reject()

    def show_machines(self) -> None:
        self._pages.setCurrentIndex(1)

    def show_preferences(self, preferences: Preferences) -> None:
        """Show preferences, and emit them if they are new."""
        for name, show in self._setters.items():
            show(getattr(preferences, name))

    def _control(self, name: str, field: FieldInfo) -> tuple[QWidget, Callable[[Any], None]]:
        """Return the control of a field, and a function that shows a value in it."""
        kind, extra = field.annotation, cast(dict[str, Any], field.json_schema_extra or {})
        if get_origin(kind) is Literal:
            box = choices()
            names = extra.get("names", {})
            for value in get_args(kind):
                box.addItem(names.get(value, str(value).capitalize()), value)
            box.currentIndexChanged.connect(lambda: self._set(name, box.currentData()))
            return box, lambda value: box.setCurrentIndex(box.findData(value))
        if kind is bool:
            switch = QCheckBox(field.title)
            switch.toggled.connect(lambda on: self._set(name, on))
            return switch, switch.setChecked
        if kind is int:
            spin = whole_number(0, 99, 0, step=extra.get("step", 1))
            spin.setKeyboardTracking(False)  # each typed digit would take effect
            for bound in field.metadata:
                match bound:
                    case Ge():
                        spin.setMinimum(cast(int, bound.ge))
                    case Le():
                        spin.setMaximum(cast(int, bound.le))
            spin.valueChanged.connect(lambda value: self._set(name, value))
            return spin, spin.setValue
        line = QLineEdit()
        line.editingFinished.connect(lambda: self._set(name, line.text().strip()))

        def show(text: str) -> None:
            line.setText(text)  # emits no editingFinished, so that the check below is called
            self._set(name, text)

        return line, show

    def _set(self, name: str, value: Any) -> None:
        try:
            new = Preferences.model_validate(self._preferences.model_dump() | {name: value})
        except ValidationError as error:
            self._refused.add(name)
            self._show_note(name, _problem(error), "problem")
            return
        self._refused.discard(name)
        self._show_note(name, self._description(name), "muted")
        if new != self._preferences:
            self._preferences = new
            self.changed.emit(new)

    def _description(self, name: str) -> str:
        return self._fixed.get(name) or Preferences.model_fields[name].description or ""

    def _show_note(self, name: str, text: str, role: str) -> None:
        note = self._notes.get(name)
        if note is not None and note.text() != text:
            note.setText(text)
            note.setProperty("role", role)
            # Qt reads a changed property of a style sheet only when it polishes the widget.
            note.style().unpolish(note)
            note.style().polish(note)


def _problem(error: ValidationError) -> str:
    """Return the sentence of a validator, or else pydantic's."""
    first = error.errors()[0]
    return str(first.get("ctx", {}).get("error") or first["msg"])
