"""The gate inspector in its dock: from a cell of the heatmap and one shortcut to what every method keeps."""

from PySide6.QtCore import Qt
from wina_app.application import Application

from tests.wina_app.pages.gate_inspector.samples import answer
from tests.wina_app.stored_runs import SOURCE, summary
from tests.wina_app.tour import settle
from wina_core.jobs import Done, InspectGateJob, Result

CONTROL = Qt.KeyboardModifier.ControlModifier


def test_one_shortcut_inspects_the_selected_cell(qtbot, application: Application):
    window = application.window
    page = window.pages["sparsity"]
    (command,) = (each for each in page.commands if each.text().startswith("Inspect the gate"))
    assert not command.isEnabled()
    assert command.toolTip() == "Open a model first (Ctrl+G)"
    application.workbench.workspace.set_model(SOURCE, summary())
    settle()
    window.show_page("sparsity")
    settle()
    page.heatmap.setFocus()
    qtbot.keyClick(page.heatmap, Qt.Key.Key_G, CONTROL)
    assert page.message.isVisible(), "what is not possible says why"
    assert page.message.label.text() == "Select one cell of the heatmap first (Ctrl+G)"
    page.clear_message()
    page.heatmap.set_selection(page.heatmap.selection.click((2, 6)))
    settle()
    assert command.isEnabled()
    assert not page.message.isVisible()
    assert not window.docks["inspector"].isVisible()
    qtbot.keyClick(page.heatmap, Qt.Key.Key_G, CONTROL)
    assert window.docks["inspector"].isVisible()
    qtbot.waitUntil(lambda: any(application.workbench.jobs))
    (entry,) = application.workbench.jobs
    assert isinstance(entry.job, InspectGateJob)
    assert (entry.job.layer, entry.job.projection) == (2, "down")
    for event in (Result(job_id=entry.id, value=answer(entry.job)), Done(job_id=entry.id)):
        application.workbench._on_event(event)
    inspector = page.inspector
    qtbot.waitUntil(lambda: inspector.figures.rowCount() == 2 and not inspector._next_plot.isActive())
    assert inspector.title.text() == "layer 2 · down · target 50.0 %"
    assert application.workbench.jobs[entry.id].result is None, "the list of jobs does not keep megabytes"
    application.sparsity.editing.set_target(0.8)
    qtbot.waitUntil(lambda: inspector.figures.item(0, 1).text() == "20.0")
