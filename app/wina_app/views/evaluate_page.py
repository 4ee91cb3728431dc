"""The Evaluate page: what is measured, on which grid of methods, rotations and sparsities, and what is stored of it."""

from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QColor, QHideEvent, QShowEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFileDialog,
    QHBoxLayout,
    QHeaderView,
    QLineEdit,
    QPushButton,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from wina_app.icons import icon
from wina_app.models.evaluation_grid import Cell, Choice, Grid
from wina_app.quantities import counted, percent
from wina_app.theme import GRID, notifier, state_colour
from wina_app.views.controls import close_together, labelled, rule, side_panel, text_label
from wina_app.views.evaluate_tasks import TaskPanel
from wina_app.views.page import Page
from wina_core.methods import method_specs
from wina_core.specs import DENSE, MethodSpec, RotationSpec

_TICKED = (DENSE, MethodSpec(name="teal"), MethodSpec(name="wina"))
_SELECTIONS = {"topk": "Top-k per token", "threshold": "Calibrated threshold"}
_STATES = {"stored": "done", "queued": "queued", "to do": ""}


class EvaluatePage(Page):
    """Emits `changed`, `evaluate_requested` and `save_requested(path)`; `choice()` has what was chosen."""

    changed = Signal()
    visible_changed = Signal(bool)
    evaluate_requested = Signal()
    save_requested = Signal(Path)

    def __init__(self) -> None:
        super().__init__("evaluate", "Evaluate")
        self._problem = ""
        self._grid: Grid | None = None
        self.save = QPushButton("Save study…")
        self.save.setAccessibleName("Save study")
        self.save.clicked.connect(self._choose_file)
        self.header_actions.addWidget(self.save)
        self.tasks = TaskPanel()
        self.tasks.changed.connect(self.changed)
        content = QWidget()
        row = QHBoxLayout(content)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self.tasks)
        row.addWidget(self._build_grid_choice())
        row.addWidget(self._build_runs(), 1)
        self.set_content(content)
        self.set_primary("Evaluate")
        self.primary_triggered.connect(self.evaluate_requested)
        self.empty_triggered.connect(lambda: self.crumb_clicked.emit("model"))
        notifier().changed.connect(self._restyle)

    def _build_grid_choice(self) -> QWidget:
        area, column = side_panel(GRID * 37)
        column.addWidget(text_label("Methods", "section"))
        self.methods: dict[QCheckBox, MethodSpec] = {}
        for spec in method_specs():
            box = QCheckBox(spec.label)
            box.setChecked(spec in _TICKED)
            box.setAccessibleName(f"Method {spec.label}")
            box.toggled.connect(self.changed)
            self.methods[box] = spec
        column.addLayout(close_together(*self.methods))
        column.addSpacing(GRID)
        column.addWidget(text_label("Sparsities", "section"))
        self.sparsities = QLineEdit("25, 40, 50, 65")
        self.sparsities.textChanged.connect(self.changed)
        column.addLayout(labelled("Uniform, in % of the inputs dropped", self.sparsities))
        self.plan = QCheckBox("Current plan")
        self.plan.setAccessibleName("Include the plan of the Sparsity page")
        self.plan.toggled.connect(self.changed)
        column.addWidget(self.plan)
        column.addSpacing(GRID)
        column.addWidget(text_label("Rotations", "section"))
        self._rotation_column = QVBoxLayout()
        self._rotation_column.setSpacing(0)
        self.rotations: dict[QCheckBox, RotationSpec] = {}
        column.addLayout(self._rotation_column)
        column.addSpacing(GRID)
        column.addWidget(text_label("Selection", "section"))
        self.selection = QComboBox()
        for key, text in _SELECTIONS.items():
            self.selection.addItem(text, key)
        self.selection.currentIndexChanged.connect(self._on_selection)
        column.addLayout(labelled("How inputs are selected", self.selection))
        self.calibration = QLineEdit("demo:calibration")
        self.calibration.textChanged.connect(self.changed)
        column.addLayout(labelled("Calibration text of the thresholds", self.calibration))
        column.addStretch(1)
        self._on_selection()
        return area

    def _build_runs(self) -> QWidget:
        self.name = QLineEdit("Evaluation")
        self.name.textChanged.connect(self.changed)
        self._summary = text_label("", wrap=True)
        self._summary.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._trouble = text_label("", "failed", wrap=True)
        self.table = QTableWidget()
        self.table.setAccessibleName("Runs: arms by sparsities, and what is stored of them")
        self.table.setEditTriggers(QTableWidget.EditTrigger.NoEditTriggers)
        self.table.setTabKeyNavigation(False)
        self.table.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self.table.horizontalHeader().setMinimumSectionSize(GRID * 8)
        self.table.horizontalHeader().setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        self.table.verticalHeader().setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        self.table.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        self.table.setShowGrid(False)
        runs = QWidget()
        column = QVBoxLayout(runs)
        column.setContentsMargins(GRID * 2, GRID * 2, GRID * 2, GRID * 2)
        column.setSpacing(GRID)
        column.addLayout(labelled("Study name", self.name))
        column.addWidget(rule())
        column.addWidget(text_label("Runs: arms × sparsities", "section"))
        column.addWidget(self._summary)
        column.addWidget(self._trouble)
        column.addWidget(self.table, 1)
        return runs

    def showEvent(self, event: QShowEvent) -> None:
        """Have the runs counted."""
        super().showEvent(event)
        self.visible_changed.emit(True)

    def hideEvent(self, event: QHideEvent) -> None:
        """Nothing needs to be counted for now."""
        super().hideEvent(event)
        self.visible_changed.emit(False)

    # ---- what the user did ------------------------------------------------------------------------------------------

    def choice(self) -> Choice:
        """What is ticked and typed."""
        selection = self.selection.currentData()
        methods = (
            spec if spec == DENSE else spec.model_copy(update={"selection": selection})
            for box, spec in self.methods.items()
            if box.isChecked()
        )
        return Choice(
            name=self.name.text(),
            methods=tuple(methods),
            rotations=tuple(spec for box, spec in self.rotations.items() if box.isChecked()),
            sparsities=self.sparsities.text(),
            with_plan=self.plan.isChecked(),
            calibration=self.calibration.text().strip(),
            **self.tasks.fields(),
        )

    def _on_selection(self) -> None:
        threshold = self.selection.currentData() == "threshold"
        self.calibration.setEnabled(threshold)
        self.calibration.setToolTip("" if threshold else "Only thresholds are calibrated; top-k needs no text")
        self.changed.emit()

    def _choose_file(self) -> None:
        file, _ = QFileDialog.getSaveFileName(self, "Save study", f"{self.name.text()}.json", "Study (*.json)")
        if file:
            self.save_requested.emit(Path(file).with_suffix(".json"))

    # ---- what is shown ----------------------------------------------------------------------------------------------

    def show_context(self, breadcrumb: list[tuple[str, str]], *, has_model: bool) -> None:
        """Show the header; without a model the empty state."""
        self.set_breadcrumb(breadcrumb)
        if not has_model:
            self.show_empty(
                "No model to evaluate",
                "An evaluation runs tasks on the model under each method, rotation and sparsity of a grid, in the "
                "background, and stores every number the moment it is there.",
                "Go to the Model page",
            )
        elif self.is_empty:
            self.show_content()

    def show_rotations(self, rotations: list[tuple[str, RotationSpec]], current: RotationSpec) -> None:
        """Offer rotations for the arms; what was ticked stays so, none and the current one are to begin with."""
        known = {spec: box.isChecked() for box, spec in self.rotations.items()}
        while (item := self._rotation_column.takeAt(0)) is not None:
            item.widget().deleteLater()
        self.rotations = {}
        for label, spec in rotations:
            box = QCheckBox(label)
            box.setAccessibleName(f"Rotation {label}")
            box.setChecked(known.get(spec, spec.is_identity or spec == current))
            box.toggled.connect(self.changed)
            self.rotations[box] = spec
            self._rotation_column.addWidget(box)

    def show_plan(self, budget: float | None, origin: str) -> None:
        """Describe the current plan; None when there is none."""
        self.plan.setEnabled(budget is not None)
        self.plan.setText("Current plan" if budget is None else f"Current plan ({origin}, {percent(budget)})")

    def choose_plan(self, method: MethodSpec, rotation: RotationSpec) -> None:
        """Tick dense and the current plan under one method and rotation, and nothing else."""
        self.plan.setChecked(True)
        self.sparsities.clear()
        self.selection.setCurrentIndex(self.selection.findData(method.selection))
        for box, spec in self.methods.items():
            box.setChecked(spec == DENSE or (spec.name, spec.variant) == (method.name, method.variant))
        for box, known in self.rotations.items():
            box.setChecked(known == rotation)

    def show_problem(self, text: str) -> None:
        """Say what keeps the choice from being a study; empty when nothing does."""
        self._problem = text
        self._trouble.setText(text)
        self._trouble.setVisible(bool(text))
        self.sparsities.setProperty("state", "invalid" if "sparsit" in text else "")
        self.sparsities.style().polish(self.sparsities)
        self.save.setEnabled(not text)
        self.save.setToolTip(text)
        if text:
            self._grid = None
            self.table.setRowCount(0)
            self.table.setColumnCount(0)
            self._summary.setText("")
            self.set_primary("Evaluate", enabled=False, reason=text)

    def show_counting(self) -> None:
        """The numbers shown are those of an earlier choice."""
        self.set_primary("Evaluate")
        self._summary.setText("Counting…")

    def show_grid(self, grid: Grid) -> None:
        """Show which runs there are and what of them is stored."""
        if self._problem:
            return
        self._grid = grid
        reason = "Every run is stored or queued already"
        self.set_primary(f"Evaluate {counted(grid.to_do, 'run')}", enabled=grid.to_do > 0, reason=reason)
        parts = [
            f"{counted(len(grid.cells), 'run')} in all",
            f"{grid.to_do:,} to do",
            f"{grid.stored:,} stored already",
        ]
        if grid.queued:
            parts.append(f"{grid.queued:,} queued")
        self._summary.setText("  ·  ".join(parts))
        self.table.setRowCount(len(grid.rows))
        self.table.setColumnCount(len(grid.columns))
        self.table.setVerticalHeaderLabels(list(grid.rows))
        self.table.setHorizontalHeaderLabels(list(grid.columns))
        for i, row in enumerate(grid.rows):
            for j, name in enumerate(grid.columns):
                self.table.setItem(i, j, _item(grid.cells.get((row, name))))

    def _restyle(self) -> None:
        if self._grid is not None:
            self.show_grid(self._grid)


def _item(cell: Cell | None) -> QTableWidgetItem:
    """A cell in words, with the icon and colour of its state."""
    item = QTableWidgetItem("" if cell is None else cell.text)
    item.setFlags(Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable)
    if cell is not None:
        state = _STATES.get(cell.text, "running")
        if state:
            item.setIcon(icon(state, state_colour(state).name()))
            item.setForeground(QColor(state_colour(state)))
        item.setToolTip(f"Run {cell.run}: {cell.units - cell.missing} of {cell.units} measurements stored")
    return item
