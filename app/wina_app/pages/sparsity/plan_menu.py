"""Menu of plans beside the one being edited, and the line that names a plan to be saved."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PySide6.QtCore import QStringListModel, Qt, Signal
from PySide6.QtGui import QAction, QKeyEvent
from PySide6.QtWidgets import QCompleter, QLineEdit, QListView, QMenu, QPushButton, QToolButton, QWidget

from wina_app.style.number_format import percent
from wina_app.style.theme import apply_stylesheet
from wina_app.widgets.boxes import hbox
from wina_app.widgets.controls import text_label

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store.rows import PlanRow, RunRow


@dataclass(frozen=True)
class PlanChoices:
    """Plans to load, delete or compare with."""

    saved: "Sequence[PlanRow]" = ()
    """Saved plans, the latest first."""
    runs: "Sequence[RunRow]" = ()
    """Runs of the current model, the latest first."""
    before: bool = False
    """True if the plan before the last change is known."""
    allocated: bool = False
    """True if a plan was allocated here."""
    possible: bool = False
    """True if there is a plan at all."""
    compared: str = ""
    """Name of the compared plan; empty for none."""


def planned_text(run: "RunRow") -> str:
    """Return a run's plan in words, for example "wina, global + heads: curves 50.0 %"."""
    return f"{run.configuration}: {run.plan} {percent(run.target_sparsity)}"


class PlanMenu(QToolButton):
    """Menu that emits the chosen plan."""

    load_chosen = Signal(str)
    delete_chosen = Signal(str)
    saved_chosen = Signal(str)
    """The name of a saved plan to compare with."""
    run_chosen = Signal(object)
    """RunRow to compare with."""

    def __init__(self) -> None:
        super().__init__()
        self.setText("Plans")
        self.setAccessibleName("Plans: saved, files, compare")
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._menu = QMenu(self)
        self._menu.setAccessibleName(self.accessibleName())
        self._menu.setToolTipsVisible(True)
        self.setMenu(self._menu)
        self._load = _submenu(self._menu, "Load")
        self._delete = _submenu(self._menu, "Delete")
        self._compare = _submenu(self._menu, "Compare with")
        self.show_choices(PlanChoices(), ())

    def add_commands(self, *commands: QAction) -> None:
        self._menu.addSeparator()
        self._menu.addActions(list(commands))

    def show_choices(self, choices: PlanChoices, comparing: tuple[QAction, ...]) -> None:
        """Fill the submenus; `comparing` has the commands that compare."""
        for menu, chosen in ((self._load, self.load_chosen), (self._delete, self.delete_chosen)):
            menu.clear()
            self._add_saved(menu, choices, chosen.emit)
        menu = self._compare
        menu.clear()
        menu.setTitle(f"Comparing with {_escaped(choices.compared)}" if choices.compared else "Compare with")
        menu.addActions(list(comparing))
        if choices.saved:
            menu.addSection("Saved plans")
            self._add_saved(menu, choices, self.saved_chosen.emit)
        if choices.runs:
            menu.addSection("Stored runs")
        for run in choices.runs:
            action = menu.addAction(_escaped(planned_text(run)))
            action.triggered.connect(lambda _=False, run=run: self.run_chosen.emit(run))

    def _add_saved(self, menu: QMenu, choices: PlanChoices, choose: Callable[[str], object]) -> None:
        for row in choices.saved:
            text = f"{row.name} ({percent(row.budget)}, {row.provenance})"
            menu.addAction(_escaped(text)).triggered.connect(lambda _=False, name=row.name: choose(name))
        if not choices.saved and menu is not self._compare:
            menu.addAction("No saved plans yet").setEnabled(False)


def _submenu(menu: QMenu, text: str) -> QMenu:
    submenu = menu.addMenu(text)
    submenu.setToolTipsVisible(True)
    return submenu


def _escaped(text: str) -> str:
    return text.replace("&", "&&")  # Qt takes a single one for a mnemonic


class PlanNameBar(QWidget):
    """Line with a name and a button; Enter saves, Esc hides it."""

    named = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._used_names: frozenset[str] = frozenset()
        self.name = QLineEdit()
        self.name.setAccessibleName("Name to save the plan under")
        self.name.setPlaceholderText("a name, for example attention first 50 %")
        self.name.setMaxLength(200)
        self._names = QStringListModel(self)
        completer = QCompleter(self._names, self)
        completer.setFilterMode(Qt.MatchFlag.MatchContains)
        completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        popup = QListView()
        completer.setPopup(popup)
        self.name.setCompleter(completer)
        apply_stylesheet(popup)  # a popup has no parent whose style sheet reaches it
        self.save = QPushButton()
        leave = QPushButton("Cancel")
        hbox(self, text_label("Save the plan as", "muted"), (self.name, 1), self.save, leave)
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
        word = "Replace" if name in self._used_names else "Save"
        self.save.setText(word)
        self.save.setAccessibleName(f"{word} the saved plan")
        self.save.setEnabled(bool(name))
        self.save.setToolTip("" if name else "Type a name first")

    def _emit_name(self) -> None:
        if name := self.name.text().strip():
            self.hide()
            self.named.emit(name)
