"""Menu of plans: saved ones, files, clipboard and comparison."""

from collections.abc import Callable

from PySide6.QtCore import Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QToolButton

from wina_app.pages.sparsity.plan_choices import PlanChoices, planned_text
from wina_app.style.number_format import percent
from wina_app.style.translation import tr


class PlanMenu(QToolButton):
    """Menu that emits the chosen plan."""

    load_chosen = Signal(str)
    delete_chosen = Signal(str)
    saved_chosen = Signal(str)
    """The name of a saved plan to compare with."""
    run_chosen = Signal(object)
    """PlannedRun to compare with."""

    def __init__(self) -> None:
        super().__init__()
        self.setText(tr("Plans"))
        self.setAccessibleName(tr("Plans: saved, files, compare"))
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._menu = QMenu(self)
        self._menu.setAccessibleName(self.accessibleName())
        self._menu.setToolTipsVisible(True)
        self.setMenu(self._menu)
        self._load = _submenu(self._menu, tr("Load"))
        self._delete = _submenu(self._menu, tr("Delete"))
        self._compare = _submenu(self._menu, tr("Compare with"))
        self.show_choices(PlanChoices(), ())

    def offer(self, *commands: QAction) -> None:
        """Add a group of commands to the menu."""
        self._menu.addSeparator()
        self._menu.addActions(list(commands))

    def show_choices(self, choices: PlanChoices, comparing: tuple[QAction, ...]) -> None:
        """Fill the submenus; `comparing` has the commands that compare."""
        for menu, chosen in ((self._load, self.load_chosen), (self._delete, self.delete_chosen)):
            menu.clear()
            self._add_saved(menu, choices, chosen.emit)
        menu = self._compare
        menu.clear()
        menu.setTitle(
            tr("Comparing with {name}", name=_escaped(choices.compared)) if choices.compared else tr("Compare with")
        )
        menu.addActions(list(comparing))
        if choices.saved:
            menu.addSection(tr("Saved plans"))
            self._add_saved(menu, choices, self.saved_chosen.emit)
        if choices.runs:
            menu.addSection(tr("Stored runs"))
        for run in choices.runs:
            action = menu.addAction(_escaped(planned_text(run)))
            action.triggered.connect(lambda _=False, run=run: self.run_chosen.emit(run))

    def _add_saved(self, menu: QMenu, choices: PlanChoices, choose: Callable[[str], object]) -> None:
        for row in choices.saved:
            text = tr(
                "{name} ({budget}, {provenance})", name=row.name, budget=percent(row.budget), provenance=row.provenance
            )
            menu.addAction(_escaped(text)).triggered.connect(lambda _=False, name=row.name: choose(name))
        if not choices.saved and menu is not self._compare:
            menu.addAction(tr("No saved plans yet")).setEnabled(False)


def _submenu(menu: QMenu, text: str) -> QMenu:
    submenu = menu.addMenu(text)
    submenu.setToolTipsVisible(True)
    return submenu


def _escaped(text: str) -> str:
    """Escape ampersands, which mark mnemonics."""
    return text.replace("&", "&&")
