"""Calibrations requested on the Sparsity page, and those of other pages."""

from wina_app.pages.sparsity.calibration_controller import CalibrationController, CalibrationView

from tests.wina_app.fakes import Recorded, done, load, make_workbench
from tests.wina_app.stored_runs import SOURCE
from wina_core.jobs import CalibrateJob, InspectJob
from wina_core.specs import CalibrationSpec


def test_a_calibration_of_the_current_configuration_is_shown_until_it_ends(tmp_path, qapp):  # noqa: ARG001
    workbench, engine, store = make_workbench(tmp_path)
    view = Recorded(CalibrationView)
    controller = CalibrationController(workbench, view)
    controller.calibrate()
    assert not engine.submitted, "no model is open"
    load(workbench)
    workbench.submit(InspectJob(model=SOURCE), "Load")
    assert view.last("show_calibrating") is False
    engine.answer(done())
    controller.calibrate()
    work = workbench.workspace
    assert engine.last.job == CalibrateJob(
        model=SOURCE, rotation=work.rotation, method=work.method, calibration=CalibrationSpec()
    )
    assert [entry.title for entry in workbench.jobs][-1] == "Calibrate wina, auto"
    assert view.last("show_calibrating") is True
    engine.answer(done())
    assert view.last("show_calibrating") is False
    store.store.close()
