"""The gate inspector beside a heatmap: |x| against column norm of one gated input, kept and dropped; its assembly."""

from collections.abc import Callable

from wina_app.heatmap.editable_heatmap import EditableHeatmap
from wina_app.pages.gate_inspector.controller import GateController
from wina_app.pages.gate_inspector.panel import GateInspector
from wina_app.plots.export import offer_export
from wina_app.services.workbench import Workbench
from wina_app.widgets.base_page import Page


def wire(
    workbench: Workbench,
    view: GateInspector,
    page: Page,
    heatmap: EditableHeatmap,
    show_inspector: Callable[[], None],
) -> GateController:
    """Give the page the inspector of its heatmap, and return its controller; `show_inspector` raises its dock."""
    control = GateController(workbench, view)
    for (plot, name), keys in zip(view.plots, ("Ctrl+Alt+G", "Ctrl+Alt+M", "Ctrl+Alt+H"), strict=True):
        offer_export(page, plot, name, keys)
    page.inspector = view
    page.remembered |= {"prompt": view.form.prompt, "order of inputs": view.sorting}

    def select() -> None:
        # A click with Ctrl leaves the cursor on a cell that it deselects.
        if heatmap.selection.cursor in heatmap.selection.cells:
            control.select(heatmap.selection.cursor)

    def inspect() -> None:
        show_inspector()
        control.inspect()

    heatmap.selection_changed.connect(select)
    command = page.add_command("Inspect the gate of the selected cell", inspect, "Ctrl+G")
    view.set_command(command)
    heatmap.addAction(command)  # to its context menu
    return control
