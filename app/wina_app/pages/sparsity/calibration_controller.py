"""Has the Sparsity page's arm calibrated by the engine."""

from typing import Protocol

from PySide6.QtCore import QObject

from wina_app.services.workbench import Workbench
from wina_app.style.translation import tr
from wina_core.engine.protocol import CalibrateJob
from wina_core.specs import Arm


class CalibrationView(Protocol):
    """What the controller needs of the page."""

    def show_calibrating(self, running: bool) -> None:
        """While a calibration is queued or runs, another one cannot be asked for."""


class CalibrationController(QObject):
    """Queues what is asked for; whatever calibrates, the page is told."""

    def __init__(self, workbench: Workbench, view: CalibrationView) -> None:
        super().__init__()
        self._workbench, self._view = workbench, view
        workbench.jobs.added.connect(self._tell)
        workbench.jobs.ended.connect(self._tell)

    def calibrate(self, job: CalibrateJob) -> None:
        """Queue it."""
        arm = Arm(rotation=job.rotation, method=job.method)
        self._workbench.submit(job, tr("Calibrate {arm}", arm=arm.label))

    def _tell(self, _job_id: str) -> None:
        self._view.show_calibrating(any(isinstance(entry.job, CalibrateJob) for entry in self._workbench.jobs.active))
