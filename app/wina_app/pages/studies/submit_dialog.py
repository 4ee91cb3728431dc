"""Settings of a submission to a cluster's queue, and the dialog that asks for them."""

from dataclasses import dataclass

from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLineEdit, QWidget

from wina_app.style.theme import GRID
from wina_app.widgets.boxes import vbox
from wina_app.widgets.controls import labelled, text_label
from wina_app.widgets.fields import whole_number
from wina_core.errors import WinaError
from wina_core.remote.slurm_settings import RUNS_PER_ELEMENT, parse_settings


@dataclass(frozen=True)
class SubmitChoice:
    """Settings of an array job."""

    slurm: str = ""
    """Settings as `--slurm` takes them."""
    runs_per_element: int = RUNS_PER_ELEMENT

    @property
    def words(self) -> tuple[str, ...]:
        """Return the options of `wina study submit`."""
        settings = (f"--slurm={self.slurm}",) if self.slurm else ()
        return f"--runs-per-element={self.runs_per_element}", *settings


_WHAT = (
    "The missing measurements become an array job of this computer's Slurm queue. The command `wina jobs` shows it and "
    "imports its results."
)
_SETTINGS = (
    "For example partition=gpu,gpus=1,time=2:00:00. Also account, qos, cpus, mem, parallel (elements at once), and any "
    "long option of sbatch."
)
_RUNS = "They share a rotated model, which each element makes once."
_MOST_RUNS = 20_000


class SubmitDialog(QDialog):
    """Settings and size of the elements."""

    def __init__(self, last: SubmitChoice, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Submit to Slurm")
        self.setMinimumWidth(GRID * 72)
        self.settings = QLineEdit(last.slurm)
        self.settings.setAccessibleName("Slurm settings")
        self.runs = whole_number(1, _MOST_RUNS, last.runs_per_element, name="Runs per element")
        self.problem = text_label("", wrap=True)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.start = buttons.addButton("Submit", QDialogButtonBox.ButtonRole.AcceptRole)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        vbox(
            self,
            text_label(_WHAT, wrap=True),
            labelled("Slurm settings", self.settings, hint=_SETTINGS),
            labelled("Runs per element", self.runs, hint=_RUNS),
            self.problem,
            buttons,
            margins=(2 * GRID, 2 * GRID, 2 * GRID, 2 * GRID),
            spacing=GRID,
        )
        self.settings.textChanged.connect(self._check)
        self._check()

    def choice(self) -> SubmitChoice:
        return SubmitChoice(self.settings.text().strip(), self.runs.value())

    def _check(self) -> None:
        try:
            parse_settings([self.settings.text().strip()] if self.settings.text().strip() else [])
        except WinaError as error:
            problem = str(error)
        else:
            problem = ""
        self.problem.setText(problem)
        self.problem.setVisible(bool(problem))
        self.start.setEnabled(not problem)
