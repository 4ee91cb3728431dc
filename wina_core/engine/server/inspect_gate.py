"""Inspection of the gates of one matrix."""

from wina_core.compute.calibration import Calibration
from wina_core.compute.cancellation import cancellable
from wina_core.compute.gating.inspection import inspect_gate
from wina_core.compute.reporter import Reporter
from wina_core.compute.session.model_session import Session
from wina_core.jobs import InspectGateJob
from wina_core.records.gates import GateRecord
from wina_core.specs import MethodSpec
from wina_core.specs.methods import get_method


def inspect_cell(job: InspectGateJob, session: Session, reporter: Reporter) -> GateRecord:
    """Return the masks of the job's methods in its cell; raises as `inspect_gate`, preparing and calibrating do."""
    for each in job.gates:
        get_method(each.method)  # now, not after seconds of loading
    loaded = session.prepare(job.model, job.rotation, reporter)

    def calibrated(method: MethodSpec) -> Calibration | None:
        if not method.needs_calibration:
            return None
        return session.calibration(loaded, job.rotation, method, job.calibration, reporter)[0]

    with cancellable(loaded.model, reporter):
        cell = job.layer, job.projection
        gates = [each.model_copy(update={"method": each.method.untuned}) for each in job.gates]  # no target of a plan
        return inspect_gate(loaded, cell, job.prompt, gates, job.tokens, calibrated, reporter)
