"""Calibration of the Sparsity page's configuration by the engine."""

from typing import Protocol

from PySide6.QtCore import QObject

from wina_app.services.workbench import Workbench
from wina_app.shared.product_question import ProductQuestion, QuestionView
from wina_app.style.translation import tr
from wina_core.jobs import CalibrateJob
from wina_core.specs import CalibrationSpec, Configuration


class CalibrationView(QuestionView, Protocol):
    """View that offers to calibrate."""

    def show_calibrating(self, running: bool) -> None:
        """Disable calibrating while a calibration is queued or runs."""


class CalibrationController(QObject):
    """Queues calibrations, and shows those of every other page too."""

    def __init__(self, workbench: Workbench, view: CalibrationView) -> None:
        super().__init__()
        self._workbench, self._view = workbench, view
        self._question = ProductQuestion(workbench, view)
        workbench.jobs.added.connect(self._show_running)
        workbench.jobs.ended.connect(self._show_running)

    def calibrate(self) -> None:
        """Queue a calibration of the current model, rotation and method."""
        work = self._workbench.workspace
        if work.source is not None:
            configuration = Configuration(rotation=work.rotation, method=work.method)
            job = CalibrateJob(
                model=work.source,
                rotation=configuration.rotation,
                method=configuration.method,
                calibration=CalibrationSpec(),
            )
            title = tr("Calibrate {configuration}", configuration=configuration.label)
            self._question.before(job, lambda: self._workbench.submit(job, title))

    def _show_running(self, _job_id: str) -> None:
        self._view.show_calibrating(any(isinstance(entry.job, CalibrateJob) for entry in self._workbench.jobs.active))
