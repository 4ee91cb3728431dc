"""Controller of plans beside the one being edited: saved, shared and compared."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

from wina_app.pages.sparsity import plan_files, presets
from wina_app.pages.sparsity.controller import SparsityController
from wina_app.pages.sparsity.plan_choices import PlanChoices, planned_text
from wina_app.services.store_thread import StoreThread
from wina_app.services.workspace import Workspace
from wina_app.shared.message_view import MessageView
from wina_app.style.number_format import percent
from wina_app.style.translation import tr
from wina_core.errors import WinaError
from wina_core.specs.plans import SparsityPlan, same_table
from wina_core.specs.quantization import PlanPair, load_pair
from wina_core.studies.expand import save_study_file

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store import PlanRow, Store
    from wina_core.store.rows import PlannedRun


class PlanLibrary(QObject):
    """Library of other plans. Every replacement of the plan is one undo step."""

    choices_changed = Signal(PlanChoices)

    def __init__(
        self, workspace: Workspace, store: StoreThread, view: MessageView, sparsity: SparsityController
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

    def use_preset(self, preset: presets.Preset, budget: float) -> None:
        """Replace the plan by a preset."""
        plan = self._workspace.plan
        if plan is None:
            return
        try:
            new_plan = preset.make(plan.layout, self._workspace.method, budget)
        except WinaError as error:
            self._view.show_error(str(error))
            return
        text = tr("preset {name}, {budget}", name=preset.name.lower(), budget=percent(budget))
        self._editing.replace_plan(PlanPair(plan=new_plan), text)

    def save(self, name: str) -> None:
        """Save the plan in the database under a name, replacing an earlier one."""
        pair, name = self._editing.pair, name.strip()
        if pair is None:
            return
        if not name:
            self._view.show_error(tr("A saved plan needs a name; type one."))
            return
        self._store.write(lambda store: store.save_plan(name, pair.plan, pair.quantization), self._view.show_error)

    def load(self, name: str) -> None:
        """Replace the plan by a saved one."""
        self._read_plan(
            lambda store: store.load_plan(name),
            lambda pair: self._editing.replace_plan(pair, tr("load {name}", name=name)),
        )

    def delete(self, name: str) -> None:
        """Delete a saved plan."""
        self._store.write(lambda store: store.delete_plan(name), self._view.show_error)

    def text(self) -> str:
        """Return the plan as text; empty without a plan."""
        pair = self._editing.pair
        return "" if pair is None else pair.text()

    def paste(self, text: str) -> None:
        """Replace the plan by one copied as text."""
        try:
            self._editing.replace_plan(plan_files.parse_plan(text), tr("paste a plan"))
        except WinaError as error:
            self._view.show_error(str(error))

    def save_study(self, path: Path) -> None:
        """Write a study of the plan under the current rotation and method."""
        work = self._workspace
        if work.plan is None or work.source is None:
            return
        study = plan_files.plan_study(path.stem, work.plan, work.source, work.rotation, work.method)
        self._store.ask(
            lambda _store: save_study_file(study, path),
            lambda _: self._view.show_saved(
                path, tr("{file}; run it on the Studies page or with `wina study run`", file=path.name)
            ),
            self._view.show_error,
        )

    def compare_saved(self, name: str) -> None:
        """Compare with a saved plan."""
        self._read_plan(lambda store: store.load_plan(name), lambda pair: self._compare(pair.plan, name))

    def compare_run(self, run: "PlannedRun") -> None:
        """Compare with the plan of a stored run."""
        layout = None if self._workspace.plan is None else self._workspace.plan.layout
        if layout is not None:
            self._read_plan(
                lambda store: store.run_plan(run.run, layout), lambda pair: self._compare(pair.plan, planned_text(run))
            )

    def compare_file(self, path: Path) -> None:
        """Compare with the plan in a file."""
        self._read_plan(lambda _store: load_pair(path), lambda pair: self._compare(pair.plan, path.name))

    def compare_before(self) -> None:
        """Compare with the plan before the last change."""
        if self._before is not None:
            self._compare(self._before, tr("the plan before"))

    def compare_allocated(self) -> None:
        """Compare with the last allocation."""
        if self._allocated is not None:
            self._compare(self._allocated, tr("the last allocation"))

    def stop_comparing(self) -> None:
        """Stop comparing."""
        self._compared = ""
        self._sparsity.compare(None)
        self._show()

    def keep_allocated(self, plan: SparsityPlan) -> None:
        """Remember an allocated plan."""
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
        self._compared = tr("{name}, {budget}", name=name, budget=percent(other.budget))
        self._sparsity.compare(other)
        self._show()

    def _set_choices(self, stored: "tuple[list[PlanRow], list[PlannedRun]]") -> None:
        saved, runs = stored
        self._choices = PlanChoices(saved, runs)
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
        """Forget plans of another model, and read those of this one."""
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
        if choices != self._shown_choices:
            self._shown_choices = choices
            self.choices_changed.emit(choices)
