"""Exports of models: a run's gated model as a folder, and a plain one, rotated or not, as a GGUF file."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from wina_core.compute.gating import attach
from wina_core.compute.gguf.convert import check_plain, folder_beside, write_gguf
from wina_core.compute.models.dequantized import dequantized
from wina_core.compute.reporter import Reporter
from wina_core.compute.rotation import save_rotated
from wina_core.compute.session.model_session import Session
from wina_core.compute.sparse.export import save_sparse
from wina_core.errors import WinaError
from wina_core.files.hardware import check_room
from wina_core.files.paths import check_new_file, check_new_folder
from wina_core.jobs import ExportGgufJob, ExportModelJob
from wina_core.model_info.resolve import files_of, gguf_file, resolve_text
from wina_core.model_info.sharing import plan_text
from wina_core.model_info.sizes import weights_bytes
from wina_core.records import ExportRecord, GgufRecord
from wina_core.specs import AllocatedSparsity, ModelSource, TextSpec
from wina_core.specs.methods import get_method


def checked_folder(folder: str, model: ModelSource, sentence: str) -> Path:
    """Return the folder of an export; raise WinaError if it is in use, or its disk has no room for the weights."""
    path = Path(folder).expanduser()
    check_new_folder(path)
    size = weights_bytes(model)
    if math.isfinite(size):  # else it is not downloaded
        check_room(path, size, sentence, "free some space or choose another folder")
    return path


def export_model(job: ExportModelJob, session: Session, reporter: Reporter) -> ExportRecord:
    """Write the gated model of the job's run, which is prepared as for a measurement.

    Raises WinaError if the folder is in use or the disk has no room, before anything is computed, and as preparing and
    gating do.
    """
    spec = job.spec
    get_method(spec.method)
    folder = checked_folder(job.folder, spec.model, "The sparse model takes up to")
    loaded = session.prepare(spec.model, spec.rotation, reporter)
    plan = spec.plan
    if isinstance(plan, AllocatedSparsity):
        plan, _ = session.allocation(loaded, spec.rotation, spec.method, plan, spec.calibration, reporter)
    calibration, resolved = session.gating(loaded, spec.rotation, spec.method, plan, spec.calibration, reporter)
    prefix = spec.evaluation.dense_prefix
    card = job.card
    if spec.rotation.is_auto:
        card += f"\n## Rotation\n\n{session.choice(spec.model, spec.rotation, reporter).verdict}\n"
    with attach(loaded, spec.method, resolved, calibration, prefix) as gates:
        save_sparse(
            loaded,
            gates,
            spec.method,
            resolved.targets,
            folder,
            dense_prefix=prefix,
            run=job.run,
            card=card,
            plan_file=plan_text(spec, plan, loaded.view.layout),
        )
    size = sum(file.stat().st_size for file in folder.iterdir())
    return ExportRecord(folder=job.folder, bytes=size)


# ---- GGUF files ------------------------------------------------------------------------------------------------------


def export_gguf(job: ExportGgufJob, session: Session, reporter: Reporter) -> GgufRecord:
    """Write the job's model as a GGUF file, checked in llama.cpp where llama-cpp-python is installed.

    Raises WinaError for what GGUF files cannot hold, a used name and a full disk before anything is computed, and as
    rotating, converting and checking do; then nothing is left.
    """
    file = Path(job.file)
    # `files_of` names the folder of the dequantized weights, which this makes.
    if (quantized := gguf_file(job.model)) is not None:
        dequantized(quantized, reporter)  # the checks and the converter read the folder of these weights
    _check(job, file)
    job = job.model_copy(update={"rotation": session.chosen(job.model, job.rotation, reporter)})
    with _plain_folder(job, file, session, reporter) as folder:
        load = partial(session.prepare, job.model, job.rotation, reporter)
        return write_gguf(folder, file, Path(job.converter), job.outtype, job.text, load, reporter)


def _check(job: ExportGgufJob, file: Path) -> None:
    if job.model.quantization != "none":
        raise WinaError("A quantized model is not exported; export it without quantization.")
    if job.rotation.needs_shortcuts:
        raise WinaError(
            f"The rotation {job.rotation.label} needs residual shortcuts, which GGUF files cannot hold; choose the "
            "mode global or none."
        )
    check_plain(files_of(job.model))
    resolve_text(TextSpec(source=job.text))
    check_new_file(file)
    size, sentence = weights_bytes(job.model), "The GGUF file takes up to"
    if not job.rotation.is_identity:
        size, sentence = 2 * size, "The rotated weights and the GGUF file take up to"
    if math.isfinite(size):  # else it is unknown
        check_room(file.parent, size, sentence, "free some space or choose another folder")


@contextmanager
def _plain_folder(job: ExportGgufJob, file: Path, session: Session, reporter: Reporter) -> Iterator[Path]:
    """Yield the folder to convert: the model's own, or one of the rotated model beside the file for the block alone."""
    if job.rotation.is_identity:
        yield files_of(job.model)
        return
    loaded = session.prepare(job.model, job.rotation, reporter)
    with folder_beside(file) as parent:
        folder = parent / file.stem  # the converter writes its name into the file
        save_rotated(loaded, folder)
        yield folder
