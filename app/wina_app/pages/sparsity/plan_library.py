"""Plans beside the one being edited: saved, shared and compared; their commands and the menu Plans."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError
from PySide6.QtCore import QObject
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import QFileDialog, QInputDialog, QMenu

from wina_app.pages.sparsity.controller import SparsityController
from wina_app.pages.sparsity.page import SparsityPage
from wina_app.pages.sparsity.presets import PRESETS, Preset
from wina_app.pages.sparsity.stored_data import plan_study
from wina_app.services.store_thread import StoreThread
from wina_app.services.workspace import Workspace
from wina_app.shared.heatmap_tables import MAP_KEYS, map_texts
from wina_app.style.number_format import percent
from wina_app.widgets.base_page import with_shortcut
from wina_app.widgets.file_dialogs import save_as
from wina_core.errors import WinaError, explain
from wina_core.files.user_file import LIMITS
from wina_core.specs.plans import SparsityPlan, same_table
from wina_core.specs.quantization import PlanPair, load_pair
from wina_core.studies.expand import save_study_file

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import PlanRow, Store
    from wina_core.store.rows import RunRow

_MAP_KEYS = ("Alt+1", "Alt+2", "Alt+3", "Alt+4", "Alt+5", "Alt+6", "Alt+7", "Alt+8", "Alt+9", "Alt+0", "Ctrl+B")
_FIRST_PRESET = 4
"""First digit of presets; the digits below choose the appearance."""
_PLANS = "Sparsity plan (*.json)"
_NO_MODEL = "Open a model first"


class PlanLibrary(QObject):
    """Library of other plans. Every replacement of the plan is one undo step."""

    def __init__(
        self, workspace: Workspace, store: StoreThread, view: SparsityPage, sparsity: SparsityController
    ) -> None:
        super().__init__()
        self._workspace, self._store, self._view = workspace, store, view
        self._sparsity, self._editing = sparsity, sparsity.editing
        self.saved: Sequence[PlanRow] = ()
        """Saved plans, the latest first."""
        self.runs: Sequence[RunRow] = ()
        """Runs of the current model, the latest first."""
        self.compared = ""
        """Name of the compared plan; empty for none."""
        self._plan: SparsityPlan | None = workspace.plan
        self._before: SparsityPlan | None = None
        self._allocated: SparsityPlan | None = None
        self._shown: object = None
        self._tips: dict[QAction, str] = {}
        self._menu = QMenu(view.plan_menu)
        self._menu.setAccessibleName(view.plan_menu.accessibleName())
        self._menu.setToolTipsVisible(True)
        view.plan_menu.setMenu(self._menu)
        self._load, self._delete, self._compare_menu = map(self._menu.addMenu, ("Load", "Delete", "Compare with"))
        self._add_commands()
        view.toolbar.preset_chosen.connect(self.use_preset)
        workspace.plan_changed.connect(self._plan_changed)
        workspace.model_changed.connect(self._model_changed)
        self._editing.settled.connect(self._plan_changed)
        store.changed.connect(self.refresh)

    def refresh(self) -> None:
        """Read the saved plans and stored runs."""
        self._show()
        source = self._workspace.source
        if source is not None:
            self._store.ask(
                lambda store: (store.list_plans(), store.planned_runs(source)), self._set_stored, self._view.show_error
            )

    def use_preset(self, preset: Preset, budget: float) -> None:
        plan = self._workspace.plan
        if plan is None:
            return
        try:
            new_plan = preset.make(plan.layout, self._workspace.method, budget)
        except WinaError as error:
            self._view.show_error(str(error))
            return
        text = f"preset {preset.name.lower()}, {percent(budget)}"
        self._editing.replace_plan(PlanPair(plan=new_plan), text)

    def save(self, name: str) -> None:
        """Save the plan in the database under a name, replacing an earlier one."""
        pair, name = self._editing.pair, name.strip()
        if pair is None:
            return
        if not name:
            self._view.show_error("A saved plan needs a name; type one.")
            return
        self._store.write(lambda store: store.save_plan(name, pair.plan, pair.quantization), self._view.show_error)

    def load(self, name: str) -> None:
        self._read_plan(
            lambda store: store.load_plan(name), lambda pair: self._editing.replace_plan(pair, f"load {name}")
        )

    def delete(self, name: str) -> None:
        self._store.write(lambda store: store.delete_plan(name), self._view.show_error)

    def text(self) -> str:
        """Return the plan as text; empty without a plan."""
        pair = self._editing.pair
        return "" if pair is None else pair.text()

    def paste(self, text: str) -> None:
        """Replace the plan by one copied as text."""
        try:
            self._editing.replace_plan(_parse_plan(text), "paste a plan")
        except WinaError as error:
            self._view.show_error(str(error))

    def save_study(self, path: Path) -> None:
        """Write a study of the plan under the current rotation and method."""
        subject = self._sparsity.subject
        if subject is None:
            return
        study = plan_study(path.stem, subject)
        self._store.ask(
            lambda _store: save_study_file(study, path),
            lambda _: self._view.show_saved(path, f"{path.name}; run it on the Studies page or with `wina study run`"),
            self._view.show_error,
        )

    def compare_saved(self, name: str) -> None:
        self._read_plan(lambda store: store.load_plan(name), lambda pair: self.compare(pair.plan, name))

    def compare_run(self, run: "RunRow") -> None:
        layout = None if self._workspace.plan is None else self._workspace.plan.layout
        if layout is not None:
            self._read_plan(
                lambda store: store.run_plan(run.run, layout), lambda pair: self.compare(pair.plan, _planned_text(run))
            )

    def compare(self, other: SparsityPlan | None, name: str = "") -> None:
        """Compare with a plan of this name; None ends the comparison."""
        plan = self._workspace.plan
        if plan is None:
            return
        try:
            if other is not None:
                other.for_layout(plan.layout)
        except WinaError as error:
            self._view.show_error(str(error))
            return
        self.compared = "" if other is None else f"{name}, {percent(other.budget)}"
        self._sparsity.compare(other)
        self._show()

    def remember_allocated(self, plan: SparsityPlan) -> None:
        self._allocated = plan
        self._show()

    def _read_plan(self, question: "Callable[[Store], PlanPair]", answer: Callable[[PlanPair], None]) -> None:
        self._store.ask(question, answer, self._view.show_error)

    def _set_stored(self, stored: "tuple[list[PlanRow], list[RunRow]]") -> None:
        self.saved, self.runs = stored
        self._show()

    def _plan_changed(self) -> None:
        """Remember the plan before the last change; a drag counts as one."""
        plan = self._workspace.plan
        if self._editing.in_gesture or plan is None or same_table(self._plan, plan):
            return
        fits = self._plan is not None and self._plan.layout == plan.layout
        self._before, self._plan = self._plan if fits else None, plan
        if not fits:
            self.compared = ""
        self._show()

    def _model_changed(self) -> None:
        self._allocated = self._before = None
        self.refresh()

    def _add_commands(self) -> None:
        view, clipboard = self._view, QGuiApplication.clipboard()
        self._menu.addSeparator()
        self._add("Save the plan under a name…", self._ask_name, "Ctrl+Shift+S")
        self._menu.addSeparator()
        self._add("Open a plan from a file…", self._open, "Ctrl+Alt+P")
        self._add("Save the plan as a file…", self._save, "Ctrl+Alt+F")
        tip = "A file for the Studies page and the command line"
        self._add("Save a study of the plan…", self._save_study, "Ctrl+Alt+S", tip)
        self._menu.addSeparator()
        self._add("Copy the plan as text", lambda: clipboard.setText(self.text()), "Ctrl+Alt+C")
        self._add("Paste a plan copied as text", lambda: self.paste(clipboard.text()), "Ctrl+Alt+V")
        before, last, compare = "the plan before the last change", "the last allocation", self.compare
        self._with_before = view.add_command(
            f"Compare with {before}", lambda: compare(self._before, "the plan before"), "Ctrl+E"
        )
        self._with_allocated = view.add_command(
            f"Compare with {last}", lambda: compare(self._allocated, last), "Ctrl+Alt+A"
        )
        self._with_file = self._add("Compare with a plan in a file…", self._compare_file, "Ctrl+Alt+E", in_menu=False)
        self._stop = view.add_command("Stop comparing", lambda: compare(None), "Ctrl+Shift+E")
        for key, keys in zip(MAP_KEYS, _MAP_KEYS, strict=True):
            texts, show = map_texts(key), partial(self._sparsity.show, key)
            self._add(f"Show: {texts.name}", show, keys, texts.explanation, in_menu=False)
        for number, preset in enumerate(PRESETS, start=_FIRST_PRESET):
            choose, keys = partial(view.toolbar.choose_preset, preset), f"Ctrl+Alt+{number}"
            self._add(f"Preset: {preset.name}", choose, keys, preset.explanation, in_menu=False)

    def _add(self, text: str, do: Callable[[], object], keys: str, tip: str = "", *, in_menu: bool = True) -> QAction:
        """Add a command that needs a plan, to the menu Plans unless said otherwise by `in_menu`."""
        action = self._view.add_command(text, do, keys, tip)
        self._tips[action] = with_shortcut(tip or text, keys)
        if in_menu:
            self._menu.addAction(action)
        return action

    def _show(self) -> None:
        """Fill the menu with the plans that can be chosen, and enable what is possible."""
        has_plan = self._workspace.plan is not None
        comparisons = self._before is not None, self._allocated is not None, bool(self.compared)
        shown = self.saved, self.runs, self.compared, has_plan, comparisons
        if shown == self._shown:  # most edits change none, and the menus are not filled anew
            return
        self._shown = shown
        self._view.plan_menu.setEnabled(has_plan)
        self._view.plan_menu.setToolTip("" if has_plan else _NO_MODEL)
        for action, tip in self._tips.items():
            action.setEnabled(has_plan)
            action.setToolTip(tip if has_plan else _NO_MODEL)
        reasons = "The plan has not changed yet", "Nothing was allocated here yet", "No plan is compared"
        comparing = self._with_before, self._with_allocated, self._stop
        for action, possible, reason in zip(comparing, comparisons, reasons, strict=True):
            action.setEnabled(possible)
            action.setToolTip(with_shortcut(action.text() if possible else reason, action.shortcut().toString()))
        for menu, choose in ((self._load, self.load), (self._delete, self.delete)):
            menu.clear()
            self._add_saved(menu, choose)
            if not self.saved:
                menu.addAction("No saved plans yet").setEnabled(False)
        menu = self._compare_menu
        menu.clear()
        menu.setTitle(f"Comparing with {_escaped(self.compared)}" if self.compared else "Compare with")
        menu.addActions([self._with_before, self._with_allocated, self._with_file, self._stop])
        if self.saved:
            menu.addSection("Saved plans")
            self._add_saved(menu, self.compare_saved)
        if self.runs:
            menu.addSection("Stored runs")
        for run in self.runs:
            menu.addAction(_escaped(_planned_text(run))).triggered.connect(
                lambda _=False, run=run: self.compare_run(run)
            )

    def _add_saved(self, menu: QMenu, choose: Callable[[str], object]) -> None:
        for row in self.saved:
            action = menu.addAction(_escaped(f"{row.name} ({percent(row.budget)}, {row.provenance})"))
            action.triggered.connect(lambda _=False, name=row.name: choose(name))

    def _ask_name(self) -> None:
        label = "Name of the plan; one of a saved plan replaces that:"
        names = [row.name for row in self.saved]
        name, accepted = QInputDialog.getItem(self._view, "Save the plan", label, ["", *names])
        if accepted:
            self.save(name)

    def _open(self) -> None:
        if name := self._choose_file("Open sparsity plan"):
            self._sparsity.open_plan(Path(name))

    def _save(self) -> None:
        if path := save_as(self._view, "Save sparsity plan", "plan.wina.json", _PLANS):
            self._sparsity.save_plan(path)

    def _save_study(self) -> None:
        if path := save_as(self._view, "Save study", "plan study.wina.toml", "Study (*.toml *.json)"):
            self.save_study(path)

    def _compare_file(self) -> None:
        if name := self._choose_file("Compare with a sparsity plan"):
            path = Path(name)
            self._read_plan(lambda _store: load_pair(path), lambda pair: self.compare(pair.plan, path.name))

    def _choose_file(self, title: str) -> str:
        kinds = _PLANS + ";;R-Sparse's searched shares (*.npy)"
        return QFileDialog.getOpenFileName(self._view, title, "", kinds)[0]


def _planned_text(run: "RunRow") -> str:
    """Return a run's plan in words, for example "wina, global + heads: curves 50.0 %"."""
    return f"{run.configuration}: {run.plan} {percent(run.target_sparsity)}"


def _escaped(text: str) -> str:
    return text.replace("&", "&&")  # Qt takes a single one for a mnemonic


def _parse_plan(text: str) -> PlanPair:
    hint = "copy one with Copy the plan as text, or the whole content of a plan's file"
    if not text.strip():
        raise WinaError(f"The clipboard holds no text; {hint}.")
    if len(text) > LIMITS["plan"]:
        raise WinaError(f"The clipboard holds more than {LIMITS['plan'] // 2**20} MiB; {hint}.")
    try:
        return PlanPair.parse(text)
    except ValidationError as error:
        reason = explain(error).rstrip(".")
        raise WinaError(f"The text on the clipboard is no sparsity plan ({reason}); {hint}.") from error
