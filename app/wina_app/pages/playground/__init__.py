"""The Playground: one prompt completed by the dense and a sparse model side by side; its assembly."""

from collections.abc import Callable

from wina_app.pages.playground.controller import PlaygroundController
from wina_app.pages.playground.history_controller import HistoryController
from wina_app.pages.playground.page import PlaygroundPage
from wina_app.pages.playground.server_controller import ServerController, state_text, status_text
from wina_app.services.model_server import ModelServer
from wina_app.services.workbench import Workbench
from wina_app.widgets.base_page import Page


def wire(
    workbench: Workbench,
    add_page: Callable[[Page], None],
    show_log: Callable[[str], None] = lambda _: None,
    show_server: Callable[[str, str], None] = lambda *_: None,
) -> PlaygroundController:
    """Make the page, add it to the window, and return its controller.

    `show_log` shows the log of a job; `show_server` a server's text and tooltip in the status line.
    """
    view = PlaygroundPage()
    process, panel = ModelServer(), view.form.server
    server = ServerController(workbench, panel, process)
    control = PlaygroundController(workbench, view, server)
    for child in (server, process):
        child.setParent(control)
    process.failed.connect(view.show_error)
    process.changed.connect(control.follow_server)
    process.changed.connect(lambda: show_server(status_text(process.state), state_text(process.state)))
    panel.serve_requested.connect(server.open)
    panel.chosen.connect(view.clear_message)
    panel.chosen.connect(server.start)
    panel.stop_requested.connect(server.stop)
    panel.log_requested.connect(lambda: show_log(server.job_id))
    history = HistoryController(workbench, view.history)
    history.setParent(control)
    history.completion_chosen.connect(control.show_stored)
    history.settings_chosen.connect(control.use)
    history.failed.connect(view.show_error)
    view.history_visible.connect(history.set_visible)
    view.history.search_changed.connect(history.search)
    view.history.more_requested.connect(history.show_more)
    view.history.chosen.connect(history.show)
    view.history.use_requested.connect(history.use)
    view.history.delete_requested.connect(history.delete)
    view.changed.connect(control.change)
    view.visible_changed.connect(control.set_visible)
    view.primary_triggered.connect(control.generate)
    view.stop_requested.connect(control.stop)
    add_page(view)
    return control
