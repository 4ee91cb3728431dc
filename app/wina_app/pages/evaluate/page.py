"""View of the Evaluate page."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtWidgets import QCheckBox, QLineEdit, QPushButton, QWidget

from wina_app.pages.evaluate.configurations_panel import ConfigurationsPanel
from wina_app.pages.evaluate.tasks_panel import MeasurementsPanel
from wina_app.shared.evaluation_choice import FIRST_SPARSITIES, EvaluationChoice
from wina_app.shared.run_grid import Grid
from wina_app.shared.run_grid_view import RunGrid, RunLegend
from wina_app.shared.sparse_export import SHORT, SparseExportCommand
from wina_app.style.number_format import plural
from wina_app.style.theme import GRID
from wina_app.widgets.base_page import Page
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.controls import labelled, push_button, rule, text_label
from wina_app.widgets.file_dialogs import save_as
from wina_app.widgets.form_memory import set_values, values_of
from wina_app.widgets.plain_text import plain_tip
from wina_core.specs import RotationSpec
from wina_core.specs.presets import PRESETS

_FORMATS = "Study (*.toml);;Study as JSON (*.json)"


class EvaluatePage(Page):
    """Page to choose tasks and configurations, and see which runs are stored."""

    changed = Signal()
    evaluate_requested = Signal()
    save_requested = Signal(Path)
    search_requested = Signal(str)
    run_chosen = Signal(str)
    """Hash of a run with stored results."""

    def __init__(self) -> None:
        super().__init__("evaluate", "Evaluate")
        self._problem, self._demo_began = "", False
        self.save = push_button("Save study…", self._choose_file)
        self.export = SparseExportCommand(self, QPushButton(), SHORT)
        for button in (self.save, self.export.button):
            self.header_actions.addWidget(button)
        self.tasks = MeasurementsPanel()
        self.tasks.changed.connect(self.changed)
        self.tasks.search.search_requested.connect(self.search_requested)
        self.configurations = ConfigurationsPanel(
            {name: preset for name, preset in PRESETS.items() if not preset.rotation.is_identity}
        )
        self.configurations.changed.connect(self.changed)
        content = QWidget()
        hbox(content, self.tasks, self.configurations, (self._build_runs(), 1), spacing=0)
        self.set_content(content)
        self.remembered = {"name": self.name}
        self._stored: dict[str, object] = {}
        """The form of the last session, until there is a model."""
        self._restoring = QTimer(self, singleShot=True, interval=0)
        self._restoring.timeout.connect(self._restore_form)
        self.set_primary("Evaluate")
        self.primary_triggered.connect(self.evaluate_requested)
        self.empty_triggered.connect(lambda: self.crumb_clicked.emit("model"))

    def view_state(self) -> dict[str, object]:
        return (self._stored or form_state(self.tasks, self.configurations)) | super().view_state()

    def restore_view(self, state: Mapping[str, object]) -> None:
        """Restore the name now, and the rest with the model, which brings tasks and rotations of its own."""
        super().restore_view(state)
        self._stored = dict(state)

    def _restore_form(self) -> None:
        state, self._stored = self._stored, {}
        restore_form(self.tasks, self.configurations, state)

    def _build_runs(self) -> QWidget:
        self.name = QLineEdit("Evaluation")
        self.name.textChanged.connect(self.changed)
        self._summary = text_label("", wrap=True)
        self._summary.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._trouble = text_label("", "failed", wrap=True)
        self.table = RunGrid()
        self.table.run_chosen.connect(self.run_chosen)
        self.legend = RunLegend()
        runs = QWidget()
        vbox(
            runs,
            labelled("Study name", self.name),
            rule(),
            text_label("Runs: method × sparsity", "section"),
            self._summary,
            self._trouble,
            (self.table, 1),
            self.legend,
            margins=(GRID * 2, GRID * 2, GRID * 2, GRID * 2),
        )
        return runs

    def choice(self) -> EvaluationChoice:
        return EvaluationChoice(name=self.name.text(), **self.tasks.fields(), **self.configurations.fields())

    def _choose_file(self) -> None:
        path = save_as(self, "Save study", f"{self.name.text()}.wina.toml", _FORMATS)
        if path is not None:
            self.save_requested.emit(path)

    def show_context(self, breadcrumb: list[tuple[str, str]], *, has_model: bool) -> None:
        """Show the header, or the empty state without a model."""
        self.set_breadcrumb(breadcrumb)
        if not has_model:
            self.show_empty(
                "No model to evaluate",
                (
                    "An evaluation runs tasks under each method, rotation and sparsity of a grid, in the background, "
                    "and stores every number at once."
                ),
                "Go to the Model page",
                wants_model=True,
            )
            return
        if self.is_empty:
            self.show_content()
        if self._stored:
            self._restoring.start()  # after the controller has shown the model's tasks and rotations, to be ticked

    def suit_model(self, *, is_demo: bool) -> None:
        """Tick the tasks that suit the model."""
        if is_demo and not self._demo_began:
            self._demo_began = True
            self.tasks.begin_demo()
            self.configurations.sparsities.setText(FIRST_SPARSITIES)
        self.tasks.suit_model(is_demo=is_demo)

    def suit_imports(self) -> None:
        """Choose the positions that numbers of llama-perplexity have scored."""
        self.tasks.second_half.setChecked(True)

    def show_problem(self, text: str) -> None:
        """Say why the choice is no study; empty if it is one."""
        self._problem = text
        self._trouble.setText(text)
        self._trouble.setVisible(bool(text))
        self._summary.setVisible(not text)  # one line in either case
        self.configurations.mark_sparsities(invalid="sparsit" in text)
        self.save.setEnabled(not text)
        self.save.setToolTip(plain_tip(text))
        if text:
            self.export.show_reason(text)
            self.table.show_grid(None)
            self.legend.show_grid(None)
            self._summary.setText("")
            self.set_primary("Evaluate", enabled=False, reason=text)

    def show_counting(self) -> None:
        self.set_primary("Evaluate")
        self._summary.setText("Counting…")

    def show_grid(self, grid: Grid) -> None:
        """Show the runs and their stored parts."""
        if self._problem:
            return
        text, reason = "Evaluate", "Every run is stored, queued or running"
        if grid.to_do:
            text = f"Evaluate {plural(grid.to_do, 'runs', 'run')}"
        self.set_primary(text, enabled=grid.to_do > 0, reason=reason)
        texts = [
            f"{plural(len(grid.cells), 'runs', 'run')} in all",
            f"{grid.to_do:,} to do",
            f"{grid.stored:,} stored",
        ]
        if grid.queued:
            texts.insert(2, f"{grid.queued:,} queued or running")
        self._summary.setText("  ·  ".join(texts))
        self.legend.show_grid(grid)
        self.table.show_grid(grid)


class _Lists(BaseModel):
    """Entries of the lists, with the tick of each."""

    model_config = ConfigDict(extra="ignore", defer_build=True)

    tasks: dict[str, bool] = {}
    folders: list[str] = []
    boxes: dict[str, bool] = {}
    rotations: list[tuple[RotationSpec, bool]] = []


def form_state(tasks: MeasurementsPanel, configurations: ConfigurationsPanel) -> dict[str, object]:
    """Return what is ticked, typed and chosen; consent to run code holds for one launch and is left out."""
    lists = _Lists(
        tasks=tasks.ticks(),
        folders=tasks.folders,
        boxes={name: box.isChecked() for name, box in _boxes(configurations).items()},
        rotations=[(spec, box.isChecked()) for box, spec in configurations.rotations.items()],
    )
    return values_of(_fields(tasks, configurations)) | lists.model_dump(mode="json")


def restore_form(tasks: MeasurementsPanel, configurations: ConfigurationsPanel, state: Mapping[str, Any]) -> None:
    """Restore a state of `form_state`; lists are restored whole or not at all."""
    set_values(_fields(tasks, configurations), state)
    try:
        lists = _Lists.model_validate(state)
    except ValidationError:
        return
    tasks.add_folders(lists.folders)
    tasks.set_ticks(lists.tasks)
    for name, box in _boxes(configurations).items():
        if box.isEnabled():
            box.setChecked(lists.boxes.get(name, box.isChecked()))
    ticks = dict(lists.rotations)
    for box, spec in configurations.rotations.items():
        if box.isEnabled():  # one that is not exact for this model stays unticked
            box.setChecked(ticks.get(spec, box.isChecked()))


def _fields(tasks: MeasurementsPanel, configurations: ConfigurationsPanel) -> dict[str, QWidget]:
    inputs = (
        "original",
        "fidelity",
        "fidelity_text",
        "fidelity_tokens",
        "second_half",
        "limit",
        "fewshot",
        "chat_template",
        "batch",
        "context",
        "prefix",
    )
    measured: dict[str, QWidget] = {name: getattr(tasks, name) for name in inputs}
    options = ("sparsities", "selection", "masks", "thresholds", "rho", "correction", "calibration", "plan")
    compared: dict[str, QWidget] = {name: getattr(configurations, name) for name in options}
    return measured | compared | {"data": tasks.data.edit, "samples": tasks.options.samples}


def _boxes(configurations: ConfigurationsPanel) -> dict[str, QCheckBox]:
    """Return the boxes of methods, presets and allocators by their accessible names."""
    every = [*configurations.methods, *configurations.named, *configurations.allocators]
    return {box.accessibleName(): box for box in every}
