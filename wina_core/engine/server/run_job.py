"""Dispatch of jobs, for the engine process (`server`) and, in-process, for the command line (`api.running`).

A job computes with a `Session`, which holds the loaded models, and emits its results as events: Partial or Measured as
each is there, else one Result at the end. `cost`, `evaluate`, `generate` and `export` have files of their own.
"""

from pathlib import Path

from wina_core.compute.calibration import Calibration
from wina_core.compute.gating.inspection import inspect_gate
from wina_core.compute.hooks import cancellable
from wina_core.compute.latency.decoding import time_decoding
from wina_core.compute.latency.sweep import time_products
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.shape import summarize
from wina_core.compute.reporter import Reporter
from wina_core.compute.rotation import save_rotated
from wina_core.compute.rotation.comparison import layer_energies, norm_spreads
from wina_core.compute.session.cache import bases_file
from wina_core.compute.session.model_session import Session
from wina_core.engine.server.cost import count_costs
from wina_core.engine.server.export import checked_folder, export_gguf, export_model
from wina_core.engine.server.generate import generate
from wina_core.errors import WinaError
from wina_core.jobs import (
    AllocateJob,
    AllocateJointlyJob,
    CalibrateJob,
    CostJob,
    DecodeJob,
    Emit,
    EvaluateJob,
    ExportGgufJob,
    ExportModelJob,
    GenerateJob,
    InspectGateJob,
    InspectJob,
    Job,
    LatencyJob,
    Result,
    ResultValue,
    RotateJob,
)
from wina_core.records import CalibrationRecord, LayerRecord, RotationChoice, RotationReport
from wina_core.records.gates import GateRecord
from wina_core.specs import NO_ROTATION, MethodSpec, Quantization
from wina_core.specs.allocations import check_allocator
from wina_core.specs.methods import get_method
from wina_core.specs.quantization import check_made


def run_job(job: Job, session: Session, emit: Emit, reporter: Reporter, job_id: str = "local") -> None:
    """Run a job and emit its results.

    Raises WinaError for foreseen errors, Cancelled when `reporter.check` does, and anything else for a defect.
    """
    for quantization in _quantizations(job):
        check_made(quantization, load=True)
    match job:
        case InspectJob():
            loaded = session.prepare(job.model, NO_ROTATION, reporter)
            value: ResultValue = summarize(loaded)
        case RotateJob():
            value = _rotate(job, session, reporter)
        case CalibrateJob():
            value = _calibrate(job, session, reporter)
        case AllocateJob():
            get_method(job.method)
            check_allocator(job.plan, load=True)
            loaded = session.prepare(job.model, job.rotation, reporter)
            _, value = session.allocation(loaded, job.rotation, job.method, job.plan, job.calibration, reporter)
        case AllocateJointlyJob():
            get_method(job.method)
            value = session.joint(job.model, job.rotation, job.method, job.spec, reporter)
        case CostJob():
            value = count_costs(job, reporter)
        case InspectGateJob():
            value = inspect_cell(job, session, reporter)
        case LatencyJob():
            value = time_products(job, emit, reporter, job_id)
        case ExportModelJob():
            value = export_model(job, session, reporter)
        case ExportGgufJob():
            value = export_gguf(job, session, reporter)
        case DecodeJob():
            value = time_decoding(job, session, emit, reporter, job_id)
        case GenerateJob():
            generate(job, session, emit, reporter, job_id)
            return
        case EvaluateJob():
            from wina_core.engine.server.evaluate import (
                evaluate_runs,  # lm-eval's import takes seconds: only where needed
            )

            evaluate_runs(job, session, emit, reporter, job_id)
            return
    emit(Result(job_id=job_id, value=value))


def _quantizations(job: Job) -> tuple[Quantization, ...]:
    """Return the quantizations that a job as a whole needs; the runs of an evaluation fail one by one."""
    match job:
        case EvaluateJob() | LatencyJob():
            return ()
        case DecodeJob() | ExportModelJob():
            return (job.spec.model.quantization,)
        case AllocateJointlyJob():
            return (job.spec.quantization,)
        case _:
            return (job.model.quantization,)


def _calibrate(job: CalibrateJob, session: Session, reporter: Reporter) -> CalibrationRecord:
    """Calibrate, and add measurements of the weights that it was calibrated for."""
    get_method(job.method)
    loaded = session.prepare(job.model, job.rotation, reporter)
    _, record = session.calibration(loaded, job.rotation, job.method, job.calibration, reporter)
    weights = (*norm_spreads(loaded.view), *_residuals(loaded, reporter))
    return record.model_copy(update={"layers": (*record.layers, *weights)})


def _residuals(loaded: LoadedModel, reporter: Reporter) -> tuple[LayerRecord, ...]:
    """Return the known residuals of a rotated model, or measure those of another, a layer at a time."""
    if loaded.rotation_report is not None:
        return loaded.rotation_report.residuals
    return layer_energies(loaded.view, reporter)


def _rotate(job: RotateJob, session: Session, reporter: Reporter) -> RotationReport:
    if job.rotation.is_identity:
        raise WinaError("This rotation leaves every weight as it is; choose a mode or the per-head rotation.")
    folder = None if job.export_to is None else _export_folder(job, job.export_to)
    spectra = session.spectra(job.model, job.rotation.text, reporter) if job.spectra else ()
    choice = _comparison(job, session, reporter)
    loaded = session.prepare(job.model, job.rotation, reporter)
    report = session.rotation_report(loaded, job.rotation, choice)
    # Auto has chosen the model as it is: its residuals are not part of a rotation's report.
    if loaded.rotation_report is None:
        energies = layer_energies(loaded.view, reporter)
        report = report.model_copy(update={"residuals": energies, "dense_residuals": energies})
    if folder is not None:
        if loaded.rotation_report is None:
            raise WinaError(
                "No candidate is better than this model as it is, so auto has nothing to export; choose a rotation."
            )
        bases = bases_file(loaded, session.chosen(job.model, job.rotation, reporter))
        save_rotated(loaded, folder, bases if bases.is_file() else None)
    return report.model_copy(
        update={"spectra": spectra, "spectra_text": job.rotation.text.label, "exported_to": job.export_to}
    )


def _comparison(job: RotateJob, session: Session, reporter: Reporter) -> RotationChoice | None:
    """Return the comparison of a rotation with none; None, with a warning, where a given one cannot be compared."""
    try:
        return session.choice(job.model, job.rotation, reporter)
    except WinaError as error:
        if job.rotation.is_auto:
            raise
        reporter.log("warning", f"This rotation is not compared with none. {error}")
        return None


def _export_folder(job: RotateJob, export_to: str) -> Path:
    """Return the folder of an export; raise WinaError now, before minutes of rotating, if it cannot be written."""
    if job.model.quantization != "none":
        raise WinaError("A quantized model is not exported; export the rotated model without quantization.")
    return checked_folder(export_to, job.model, "The rotated weights take")


# ---- inspection of the gates of one matrix ---------------------------------------------------------------------------


def inspect_cell(job: InspectGateJob, session: Session, reporter: Reporter) -> GateRecord:
    """Return the masks of the job's methods in its cell; raises as `inspect_gate`, preparing and calibrating do."""
    for gate in job.gates:
        get_method(gate.method)  # before seconds of loading
    loaded = session.prepare(job.model, job.rotation, reporter)

    def calibrated(method: MethodSpec) -> Calibration | None:
        if not method.needs_calibration:
            return None
        return session.calibration(loaded, job.rotation, method, job.calibration, reporter)[0]

    with cancellable(loaded.model, reporter):
        cell = job.layer, job.projection
        gates = [gate.model_copy(update={"method": gate.method.untuned}) for gate in job.gates]  # no target of a plan
        return inspect_gate(loaded, cell, job.prompt, gates, job.tokens, calibrated, reporter)
