"""The Latency page."""

from typing import TYPE_CHECKING

from wina_app.pages.latency.controller import LatencyController
from wina_app.pages.latency.page import LatencyPage

if TYPE_CHECKING:
    from wina_app.application import Application


def add(application: "Application") -> None:
    """Make it."""
    view = LatencyPage()
    control = application.latency = LatencyController(application.workbench, view)
    view.changed.connect(control.change)
    view.visible_changed.connect(control.set_visible)
    view.measure_requested.connect(control.measure)
    view.kind_chosen.connect(control.choose_kind)
    view.ordinate_chosen.connect(control.choose_ordinate)
    view.machine_chosen.connect(control.pick_machine)
    view.subject_chosen.connect(control.pick_subject)
    view.load_chosen.connect(control.pick_load)
    view.row_chosen.connect(control.select)
    view.export_requested.connect(control.export)
    application.window.add_page(view)
