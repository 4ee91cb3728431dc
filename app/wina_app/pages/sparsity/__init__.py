"""The Sparsity page: a plan on a heatmap that is edited directly, and its assembly."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtGui import QGuiApplication

from wina_app.heatmap.editable_heatmap import EditableHeatmap
from wina_app.pages.sparsity.allocation_controller import AllocationController, CalibrationController
from wina_app.pages.sparsity.controller import SparsityController
from wina_app.pages.sparsity.page import SparsityPage
from wina_app.pages.sparsity.plan_editor import PlanEditor
from wina_app.pages.sparsity.plan_library import PlanLibrary
from wina_app.pages.sparsity.stored_data import PlanSubject, run_of_plan
from wina_app.services.store_thread import StoreThread
from wina_app.services.workbench import Workbench
from wina_app.services.workspace import Workspace
from wina_app.shared.sparse_export import SparseExport
from wina_app.widgets.base_page import Page


def wire(
    workbench: Workbench,
    add_page: Callable[[Page], None],
    add_inspector: Callable[[Page, EditableHeatmap], None],
    evaluate_plan: Callable[[], None],
) -> SparsityController:
    """Make the page, add it to the window, and return its controller.

    `add_inspector` gives the page an inspector of the heatmap's selected cell.
    """
    view = SparsityPage()
    control, library = connect_plans(view, workbench.workspace, workbench.store)
    calibration = CalibrationController(workbench, view)
    allocation = AllocationController(workbench, view, control.editing)
    allocation.allocated.connect(library.remember_allocated)
    export = SparseExport(workbench, view)
    view.export.folder_chosen.connect(lambda folder: _export(export, control.subject, folder))
    for controller in (calibration, allocation, export):  # a connection keeps no Python object alive, a parent does
        controller.setParent(control)
    add_inspector(view, view.heatmap)
    add_page(view)
    view.primary_triggered.connect(evaluate_plan)
    return control


def _export(export: SparseExport, subject: PlanSubject | None, folder: Path) -> None:
    if subject is not None:
        export.export(folder, lambda _store: run_of_plan(subject))


def connect_plans(
    view: SparsityPage, workspace: Workspace, store: StoreThread
) -> tuple[SparsityController, PlanLibrary]:
    """Connect the page to controllers of its plan and of other plans, and return both."""
    control = SparsityController(workspace, store, view)
    view.heatmap.tooltip, view.heatmap.detail_text = control.cell_text, control.expert_text
    view.experts_copied.connect(
        lambda: QGuiApplication.clipboard().setText(control.experts_table(view.heatmap.target_rows()))
    )
    view.toolbar.map_chosen.connect(control.show)
    view.set_undo_stack(control.editing.undo_stack)
    _connect_editing(view, control.editing)
    library = PlanLibrary(workspace, store, view, control)
    library.setParent(control)
    library.refresh()
    return control, library


def _connect_editing(view: SparsityPage, editing: PlanEditor) -> None:
    heatmap, editor, profile = view.heatmap, view.editor, view.profile
    heatmap.selection_changed.connect(lambda: editing.select(heatmap.selection.cells))
    heatmap.text_entered.connect(editing.type_target)
    heatmap.stepped.connect(editing.step)
    heatmap.cleared.connect(editing.clear_targets)
    heatmap.cut.connect(editing.cut)
    heatmap.pasted.connect(lambda text: editing.paste(text, heatmap.selection))
    heatmap.painted.connect(lambda cells: editing.paint(cells, editor.target))
    profile.dragged.connect(editing.shift)
    for began, ended in (
        (heatmap.stroke_began, heatmap.stroke_ended),
        (editor.gesture_began, editor.gesture_ended),
        (profile.drag_began, profile.drag_ended),
    ):
        began.connect(editing.begin_gesture)
        ended.connect(editing.end_gesture)
    editor.keep_toggled.connect(editing.keep_budget)
    view.target_chosen.connect(editing.set_target)
    view.lock_toggled.connect(editing.toggle_locks)
    view.unlock_requested.connect(editing.unlock_all)
    view.toolbar.method_chosen.connect(editing.set_method)
    view.toolbar.bits_chosen.connect(editing.set_uniform_bits)
    view.quantization.changed.connect(lambda settings: editing.change_quantizer(**settings))
