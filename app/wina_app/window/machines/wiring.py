"""Assembly of the Machines page."""

from wina_app.services.machines import Machines
from wina_app.window.machines.controller import MachinesController
from wina_app.window.machines.page import MachinesPage
from wina_app.window.machines.ray_clusters import RayClusters


def wire(control: MachinesController, machines: Machines) -> MachinesPage:
    """Return a new page of the controller, which forgets it once it is destroyed."""
    view = MachinesPage(RayClusters(machines))
    view.selected.connect(control.select)
    view.edited.connect(control.edit)
    view.remove_requested.connect(control.remove)
    view.work_requested.connect(control.run)
    view.stop_requested.connect(control.stop)
    view.destroyed.connect(control.detach)
    control.attach(view)
    return view
