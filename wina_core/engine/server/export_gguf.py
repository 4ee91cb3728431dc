"""Export of a plain model, rotated or not, as a GGUF file."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from wina_core.compute.gguf.convert import check_plain, folder_beside, write_gguf
from wina_core.compute.models.dequantized import dequantized
from wina_core.compute.reporter import Reporter
from wina_core.compute.rotation import save_rotated
from wina_core.compute.session.model_session import Session
from wina_core.errors import WinaError
from wina_core.files.hardware import check_room
from wina_core.files.paths import check_new_file
from wina_core.jobs import ExportGgufJob
from wina_core.model_info.resolve import files_of, gguf_file, resolve_text
from wina_core.model_info.sizes import weights_bytes
from wina_core.records import GgufRecord
from wina_core.specs import TextSpec


def export_gguf(job: ExportGgufJob, session: Session, reporter: Reporter) -> GgufRecord:
    """Write the job's model as a GGUF file, checked in llama.cpp where llama-cpp-python is installed.

    Raises WinaError for what GGUF files cannot hold, a used name and a full disk before anything is computed, and as
    rotating, converting and checking do; then nothing is left.
    """
    file = Path(job.file)
    if (quantized := gguf_file(job.model)) is not None:
        dequantized(quantized, reporter)
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
