"""The Sparsity page with its gate inspector."""

from typing import TYPE_CHECKING

from wina_app.pages.gate_inspector.controller import GateController
from wina_app.pages.gate_inspector.panel import GateInspector
from wina_app.pages.sparsity.allocation_controller import AllocationController
from wina_app.pages.sparsity.calibration_controller import CalibrationController
from wina_app.pages.sparsity.page import SparsityPage
from wina_app.plots.export import offer_export
from wina_app.style.translation import tr

if TYPE_CHECKING:
    from wina_app.application import Application


def add(application: "Application") -> None:
    """Make it."""
    view = SparsityPage(application.workbench.workspace, application.workbench.store)
    application.calibration = CalibrationController(application.workbench, view)
    view.calibration_requested.connect(application.calibration.calibrate)
    allocation = application.allocation = AllocationController(application.workbench, view, view.controller.editing)
    view.allocation_requested.connect(allocation.allocate)
    view.divergences_requested.connect(allocation.measure_divergences)
    allocation.allocated.connect(view.library.keep_allocated)
    view.cancel_requested.connect(allocation.cancel)
    _add_gate_inspector(application, view)
    application.window.add_page(view)
    application.sparsity = view.controller
    view.primary_triggered.connect(application.evaluate_plan)


def _add_gate_inspector(application: "Application", page: SparsityPage) -> None:
    view, heatmap = GateInspector(), page.heatmap
    gate = application.gate = GateController(application.workbench, view)
    view.visible_changed.connect(gate.set_visible)
    view.form.prompt_changed.connect(gate.set_prompt)
    view.form.ticked.connect(gate.tick)
    view.form.inspect_requested.connect(gate.inspect)
    view.form.cancel_requested.connect(gate.cancel)
    for (plot, name), keys in zip(view.plots, ("Ctrl+Alt+G", "Ctrl+Alt+M", "Ctrl+Alt+H"), strict=True):
        offer_export(page, plot, name, keys)
    page.inspector = view

    def select() -> None:
        if heatmap.selection.cursor in heatmap.selection.cells:
            gate.select(heatmap.selection.cursor)

    def inspect() -> None:
        application.window.docks["inspector"].show()
        application.window.docks["inspector"].raise_()
        gate.inspect()

    heatmap.selection_changed.connect(select)
    view.set_command(page.add_command(tr("Inspect the gate of the selected cell"), inspect, "Ctrl+G"))
