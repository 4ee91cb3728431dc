"""Choice of a new folder on the machine where a model lies."""

from PySide6.QtWidgets import QFileDialog, QWidget

from wina_app.shared.browse.dialog import BrowseDialog
from wina_app.style.translation import tr
from wina_core.errors import WinaError
from wina_core.remote.machines.registry import find_machine
from wina_core.specs.machine import split_location


def ask_new_folder(parent: QWidget, title: str, model: str, name: str) -> str:
    """Ask where to write a folder of what is made of the model at a location; return "" if the user cancels.

    It is a folder of this computer, or NAME:/path with the proposed `name` for a model on a machine.
    """
    machine = split_location(model)[0]
    if machine is None:
        return QFileDialog.getExistingDirectory(parent, title)
    try:
        known = {machine: find_machine(machine)}
    except WinaError:  # the machine was removed: the job says so
        return f"{machine}:~/{name}"
    found: list[str] = []
    dialog = BrowseDialog(parent, tr("Save on {machine}", machine=machine), known, new_name=name)
    dialog.chosen.connect(found.append)
    dialog.exec()
    return "".join(found)
