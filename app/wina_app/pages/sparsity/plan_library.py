"""Controller and commands of plans beside the one being edited: saved, shared and compared."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError
from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import QFileDialog

from wina_app.pages.sparsity.controller import SparsityController
from wina_app.pages.sparsity.page import SparsityPage
from wina_app.pages.sparsity.plan_menu import PlanChoices, planned_text
from wina_app.pages.sparsity.presets import PRESETS, Preset
from wina_app.pages.sparsity.stored_data import plan_study
from wina_app.pages.sparsity.toolbar import SparsityToolbar
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


class PlanLibrary(QObject):
    """Library of other plans. Every replacement of the plan is one undo step."""

    choices_changed = Signal(PlanChoices)

    def __init__(
        self, workspace: Workspace, store: StoreThread, view: SparsityPage, sparsity: SparsityController
    ) -> None:
        super().__init__()
        self._workspace, self._store, self._view = workspace, store, view
        self._sparsity, self._editing = sparsity, sparsity.editing
        self._choices = PlanChoices()
        self._shown_choices: PlanChoices | None = None
        self._plan: SparsityPlan | None = workspace.plan
        self._before: SparsityPlan | None = None
        self._allocated: SparsityPlan | None = None
        self._compared = ""
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
                lambda store: (store.list_plans(), store.planned_runs(source)), self._set_choices, self._view.show_error
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
        self._read_plan(lambda store: store.load_plan(name), lambda pair: self._compare(pair.plan, name))

    def compare_run(self, run: "RunRow") -> None:
        layout = None if self._workspace.plan is None else self._workspace.plan.layout
        if layout is not None:
            self._read_plan(
                lambda store: store.run_plan(run.run, layout), lambda pair: self._compare(pair.plan, planned_text(run))
            )

    def compare_file(self, path: Path) -> None:
        self._read_plan(lambda _store: load_pair(path), lambda pair: self._compare(pair.plan, path.name))

    def compare_before(self) -> None:
        if self._before is not None:
            self._compare(self._before, "the plan before")

    def compare_allocated(self) -> None:
        if self._allocated is not None:
            self._compare(self._allocated, "the last allocation")

    def stop_comparing(self) -> None:
        self._compared = ""
        self._sparsity.compare(None)
        self._show()

    def remember_allocated(self, plan: SparsityPlan) -> None:
        self._allocated = plan
        self._show()

    def _read_plan(self, question: "Callable[[Store], PlanPair]", answer: Callable[[PlanPair], None]) -> None:
        self._store.ask(question, answer, self._view.show_error)

    def _compare(self, other: SparsityPlan, name: str) -> None:
        plan = self._workspace.plan
        if plan is None:
            return
        try:
            other.for_layout(plan.layout)
        except WinaError as error:
            self._view.show_error(str(error))
            return
        self._compared = f"{name}, {percent(other.budget)}"
        self._sparsity.compare(other)
        self._show()

    def _set_choices(self, stored: "tuple[list[PlanRow], list[RunRow]]") -> None:
        self._choices = PlanChoices(*stored)
        self._show()

    def _plan_changed(self) -> None:
        """Remember the plan before the last change; a drag counts as one."""
        plan = self._workspace.plan
        if self._editing.in_gesture or plan is None or same_table(self._plan, plan):
            return
        fits = self._plan is not None and self._plan.layout == plan.layout
        self._before, self._plan = self._plan if fits else None, plan
        if not fits:
            self._compared = ""
        self._show()

    def _model_changed(self) -> None:
        self._allocated = self._before = None
        self.refresh()

    def _show(self) -> None:
        choices = replace(
            self._choices,
            before=self._before is not None,
            allocated=self._allocated is not None,
            possible=self._workspace.plan is not None,
            compared=self._compared,
        )
        if choices != self._shown_choices:  # most edits change none, and the menus are not filled anew
            self._shown_choices = choices
            self.choices_changed.emit(choices)


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


_MAP_KEYS = ("Alt+1", "Alt+2", "Alt+3", "Alt+4", "Alt+5", "Alt+6", "Alt+7", "Alt+8", "Alt+9", "Alt+0", "Ctrl+B")
_FIRST_PRESET = 4
"""First digit of presets; the digits below choose the appearance."""
_PLANS = "Sparsity plan (*.json)"


class PlanCommands(QObject):
    """Commands of the page for whole plans, connected to their controllers; they live as long as the page."""

    def __init__(self, page: SparsityPage, library: PlanLibrary, sparsity: SparsityController) -> None:
        super().__init__(page)
        self._page, self._library, self._sparsity = page, library, sparsity
        self._menu, self._name_bar = page.plan_menu, page.plan_name
        self._tips: dict[QAction, str] = {}
        self._add_sharing()
        self._add_comparing()
        self._add_maps_and_presets(page.toolbar)
        self._menu.load_chosen.connect(library.load)
        self._menu.delete_chosen.connect(library.delete)
        self._menu.saved_chosen.connect(library.compare_saved)
        self._menu.run_chosen.connect(library.compare_run)
        self._name_bar.named.connect(library.save)
        page.toolbar.preset_chosen.connect(library.use_preset)
        library.choices_changed.connect(self.show_choices)
        self.show_choices(PlanChoices())

    def show_choices(self, choices: PlanChoices) -> None:
        """Show the plans that can be chosen, and enable what is possible."""
        self._menu.setEnabled(choices.possible)
        self._menu.setToolTip("" if choices.possible else "Open a model first")
        for action, tip in self._tips.items():
            action.setEnabled(choices.possible)
            action.setToolTip(tip if choices.possible else "Open a model first")
        self._name_bar.show_names([row.name for row in choices.saved])
        self._menu.show_choices(choices, (self._before, self._allocated, self._file, self._stop))
        for action, possible, reason in (
            (self._before, choices.before, "The plan has not changed yet"),
            (self._allocated, choices.allocated, "Nothing was allocated here yet"),
            (self._stop, bool(choices.compared), "No plan is compared"),
        ):
            action.setEnabled(possible)
            action.setToolTip(with_shortcut(action.text() if possible else reason, action.shortcut().toString()))

    def _add_sharing(self) -> None:
        library = self._library
        save = self._add("Save the plan under a name…", self._name_bar.ask, "Ctrl+Shift+S")
        open_file = self._add("Open a plan from a file…", self._open, "Ctrl+Alt+P")
        save_file = self._add("Save the plan as a file…", self._save, "Ctrl+Alt+F")
        tip = "A file for the Studies page and the command line"
        study = self._add("Save a study of the plan…", self._save_study, "Ctrl+Alt+S", tip)
        clipboard = QGuiApplication.clipboard()
        copy = self._add("Copy the plan as text", lambda: clipboard.setText(library.text()), "Ctrl+Alt+C")
        paste = self._add("Paste a plan copied as text", lambda: library.paste(clipboard.text()), "Ctrl+Alt+V")
        self._menu.add_commands(save)
        self._menu.add_commands(open_file, save_file, study)
        self._menu.add_commands(copy, paste)

    def _add_comparing(self) -> None:
        library, page = self._library, self._page
        self._before = page.add_command(
            "Compare with the plan before the last change", library.compare_before, "Ctrl+E"
        )
        self._allocated = page.add_command("Compare with the last allocation", library.compare_allocated, "Ctrl+Alt+A")
        self._file = self._add("Compare with a plan in a file…", self._compare_file, "Ctrl+Alt+E")
        self._stop = page.add_command("Stop comparing", library.stop_comparing, "Ctrl+Shift+E")

    def _add_maps_and_presets(self, toolbar: SparsityToolbar) -> None:
        for key, keys in zip(MAP_KEYS, _MAP_KEYS, strict=True):
            texts = map_texts(key)
            self._add(f"Show: {texts.name}", partial(self._sparsity.show, key), keys, texts.explanation)
        for number, preset in enumerate(PRESETS, start=_FIRST_PRESET):
            choose, keys = partial(toolbar.choose_preset, preset), f"Ctrl+Alt+{number}"
            self._add(f"Preset: {preset.name}", choose, keys, preset.explanation)

    def _add(self, text: str, do: Callable[[], object], keys: str = "", tip: str = "") -> QAction:
        action = self._page.add_command(text, do, keys, tip)
        self._tips[action] = with_shortcut(tip or text, keys)
        return action

    def _open(self) -> None:
        if name := self._choose_file("Open sparsity plan"):
            self._sparsity.open_plan(Path(name))

    def _save(self) -> None:
        if path := save_as(self._page, "Save sparsity plan", "plan.wina.json", _PLANS):
            self._sparsity.save_plan(path)

    def _save_study(self) -> None:
        if path := save_as(self._page, "Save study", "plan study.wina.toml", "Study (*.toml *.json)"):
            self._library.save_study(path)

    def _compare_file(self) -> None:
        if name := self._choose_file("Compare with a sparsity plan"):
            self._library.compare_file(Path(name))

    def _choose_file(self, title: str) -> str:
        kinds = _PLANS + ";;R-Sparse's searched shares (*.npy)"
        return QFileDialog.getOpenFileName(self._page, title, "", kinds)[0]
