"""The gate inspector beside the Sparsity page: from a cell and one command to what every method keeps."""

from wina_app.pages.gate_inspector import wire
from wina_app.pages.gate_inspector.panel import GateInspector
from wina_app.pages.sparsity import connect_plans
from wina_app.pages.sparsity.page import SparsityPage

from tests.wina_app.fakes import done, load, make_workbench, result
from tests.wina_app.pages.gate_inspector.samples import answer
from tests.wina_app.pages.sparsity.sparsity_pages import command
from wina_core.jobs import InspectGateJob


def test_one_command_inspects_the_selected_cell(qtbot, tmp_path):
    workbench, engine, store = make_workbench(tmp_path)
    page, inspector, shown = SparsityPage(), GateInspector(), []
    for widget in (page, inspector):
        qtbot.addWidget(widget)
    sparsity, _ = connect_plans(page, workbench.workspace, workbench.store)
    control = wire(workbench, inspector, page, page.heatmap, lambda: shown.append("dock"))
    with qtbot.waitExposed(inspector):
        inspector.show()
    inspect = command(page, "Inspect the gate")
    assert (inspect.isEnabled(), inspect.toolTip()) == (False, "Open a model first (Ctrl+G)")
    load(workbench)
    assert inspect.toolTip() == "Select one cell of the heatmap first (Ctrl+G)"
    page.heatmap.set_selection(page.heatmap.selection.click((2, 6)))
    assert inspect.isEnabled()
    inspect.trigger()
    assert shown == ["dock"]
    job = engine.last.job
    assert isinstance(job, InspectGateJob)
    assert (job.layer, job.projection) == (2, "down")
    engine.answer(result(answer(job)), done())
    qtbot.waitUntil(lambda: inspector.figures.rowCount() == 2 and not inspector._next_plot.isActive())
    assert inspector.title.text() == "layer 2 · down · target 50.0 %"
    assert workbench.jobs[engine.last.job_id].result is None, "the list of jobs does not keep megabytes"
    sparsity.editing.set_target(0.8)
    qtbot.waitUntil(lambda: inspector.figures.item(0, 1).text() == "20.0")
    control.deleteLater()
    workbench.workspace.stop()
    store.store.close()
