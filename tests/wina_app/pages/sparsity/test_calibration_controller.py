"""Calibrations are queued and told of, whoever asked for them."""

from wina_app.pages.sparsity.calibration_controller import CalibrationController

from tests.wina_app.fakes import Recorded, done, load, make_workbench
from tests.wina_app.stored_runs import SOURCE
from wina_core.engine.protocol import CalibrateJob, InspectJob
from wina_core.specs import CalibrationSpec, MethodSpec, RotationSpec

JOB = CalibrateJob(model=SOURCE, rotation=RotationSpec(), method=MethodSpec(name="wina"), calibration=CalibrationSpec())


def test_a_calibration_is_queued_and_told_until_it_has_ended(tmp_path, qapp):  # noqa: ARG001 - signals need one
    workbench, engine, store = make_workbench(tmp_path)
    load(workbench)
    view = Recorded()
    controller = CalibrationController(workbench, view)
    workbench.submit(InspectJob(model=SOURCE), "Load")
    assert view.last("show_calibrating") is False
    engine.answer(done())
    controller.calibrate(JOB)
    assert engine.last.job == JOB
    assert [entry.title for entry in workbench.jobs][-1] == "Calibrate wina, global + heads"
    assert view.last("show_calibrating") is True
    engine.answer(done())
    assert view.last("show_calibrating") is False
    store.store.close()
