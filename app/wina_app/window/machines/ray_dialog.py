"""Dialog of one Ray cluster."""

from collections.abc import Collection

from pydantic import ValidationError
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLineEdit, QWidget

from wina_app.style.theme import GRID
from wina_app.style.translation import tr
from wina_app.widgets.boxes import hbox, vbox
from wina_app.widgets.controls import labelled, text_label
from wina_app.widgets.fields import whole_number
from wina_core.errors import WinaError, problems
from wina_core.files.hardware import parse_bytes
from wina_core.specs.machine import RayCluster

_WHAT = tr("A Ray cluster that runs already. The fields of one engine may stay empty.")
_ADDRESS = tr("HOST:PORT as printed by ray start, or auto if this computer is a node of the cluster.")
_GPUS = tr("Such as 0.5; empty is 1 where there are any.")
_CPUS = tr("Empty is all of a node, without GPUs.")
_MEMORY = tr("Such as 16GB, which Ray sets aside.")
_MOST_ENGINES = 10_000


class RayDialog(QDialog):
    """Name and address of a cluster, and the resources of one engine there."""

    def __init__(self, cluster: RayCluster | None, other_names: Collection[str], parent: QWidget) -> None:
        """Show a cluster, None for a new one; `other_names` are those of the others."""
        super().__init__(parent)
        self.setWindowTitle(tr("Add Ray cluster") if cluster is None else tr("Edit Ray cluster"))
        self.setMinimumWidth(GRID * 72)
        self.cluster: RayCluster | None = None
        """The cluster that was entered; None while something is wrong."""
        self._other_names = other_names
        initial = cluster or RayCluster.model_construct(name="", address="auto")
        self.lines = {
            "name": QLineEdit(initial.name),
            "address": QLineEdit(initial.address),
            "gpus": QLineEdit(_number(initial.gpus)),
            "cpus": QLineEdit(_number(initial.cpus)),
            "memory": QLineEdit("" if initial.memory is None else f"{_number(initial.memory / 1e9)}GB"),
        }
        self._titles = {
            "name": tr("Name"),
            "address": tr("Address"),
            "gpus": tr("GPUs of one engine"),
            "cpus": tr("Processors of one engine"),
            "memory": tr("Memory of one engine"),
        }
        hints = {"address": _ADDRESS, "gpus": _GPUS, "cpus": _CPUS, "memory": _MEMORY}
        self.engines = whole_number(0, _MOST_ENGINES, initial.engines, lowest=tr("All that fit"))
        self.problem = text_label("", "problem", wrap=True)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        text = tr("Add") if cluster is None else tr("Save")
        self.store = buttons.addButton(text, QDialogButtonBox.ButtonRole.AcceptRole)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        blocks = {
            name: labelled(self._titles[name], line, hint=hints.get(name, "")) for name, line in self.lines.items()
        }
        share = hbox(None, *((blocks[name], 1) for name in ("gpus", "cpus", "memory")), spacing=GRID * 2)
        vbox(
            self,
            text_label(_WHAT, wrap=True),
            *(blocks["name"], blocks["address"], share),
            labelled(tr("Engines"), self.engines),
            *(self.problem, buttons),
            margins=(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID),
            spacing=GRID,
        )
        for line in self.lines.values():
            line.textChanged.connect(self._check)
        self.engines.valueChanged.connect(self._check)
        self._check()

    def _check(self) -> None:
        """Say what is wrong with the fields, once name and address are filled, and store none of these."""
        texts = {name: line.text().strip() for name, line in self.lines.items()}
        self.cluster, problem = None, ""
        if texts["name"] and texts["address"]:
            try:
                self.cluster = self._entered(texts)
            except WinaError as error:
                problem = str(error)
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))
        self.store.setEnabled(self.cluster is not None)

    def _entered(self, texts: dict[str, str]) -> RayCluster:
        """Return the cluster of the texts; raise WinaError for what is none."""
        if texts["name"] in self._other_names:
            raise WinaError(tr('There is a machine or cluster "{name}" already.', name=texts["name"]))
        fields: dict[str, object] = {name: text for name, text in texts.items() if text}
        if texts["memory"]:
            fields["memory"] = parse_bytes(texts["memory"])
        try:
            return RayCluster.model_validate(fields | {"engines": self.engines.value()})
        except ValidationError as error:
            (field, *_), reason = problems(error)[0]
            raise WinaError(f"{self._titles[str(field)]}: {reason}.") from None


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.15g}"
