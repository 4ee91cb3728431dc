"""Line to name a plan to be saved."""

from collections.abc import Sequence

from PySide6.QtCore import QStringListModel, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QCompleter, QLineEdit, QListView, QPushButton, QWidget

from wina_app.style.theme import apply_stylesheet
from wina_app.style.translation import tr
from wina_app.widgets.boxes import hbox
from wina_app.widgets.controls import text_label


class PlanNameBar(QWidget):
    """Line with a name and a button; Enter saves, Esc hides it."""

    named = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._used_names: frozenset[str] = frozenset()
        self.name = QLineEdit()
        self.name.setAccessibleName(tr("Name to save the plan under"))
        self.name.setPlaceholderText(tr("a name, for example attention first 50 %"))
        self.name.setMaxLength(200)
        self._names = QStringListModel(self)
        completer = QCompleter(self._names, self)
        completer.setFilterMode(Qt.MatchFlag.MatchContains)
        completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        popup = QListView()
        completer.setPopup(popup)
        self.name.setCompleter(completer)
        apply_stylesheet(popup)
        self.save = QPushButton()
        leave = QPushButton(tr("Cancel"))
        hbox(self, text_label(tr("Save the plan as"), "muted"), (self.name, 1), self.save, leave)
        self.name.textChanged.connect(self._show_action)
        self.name.returnPressed.connect(self._emit_name)
        self.save.clicked.connect(self._emit_name)
        leave.clicked.connect(self.hide)
        self._show_action()
        self.hide()

    def ask(self) -> None:
        """Show the line with the keyboard focus."""
        self.show()
        self.name.setFocus(Qt.FocusReason.OtherFocusReason)
        self.name.selectAll()

    def show_names(self, names: Sequence[str]) -> None:
        """Set the names in use."""
        self._used_names = frozenset(names)
        self._names.setStringList(list(names))
        self._show_action()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Hide the line on Esc."""
        if event.key() == Qt.Key.Key_Escape:
            self.hide()
        else:
            super().keyPressEvent(event)

    def _show_action(self) -> None:
        name = self.name.text().strip()
        word = tr("Replace") if name in self._used_names else tr("Save")
        self.save.setText(word)
        self.save.setAccessibleName(tr("{word} the saved plan", word=word))
        self.save.setEnabled(bool(name))
        self.save.setToolTip("" if name else tr("Type a name first"))

    def _emit_name(self) -> None:
        if name := self.name.text().strip():
            self.hide()
            self.named.emit(name)
