"""The original model's log-probabilities on a text: computed once, kept on disk, and shared by all configurations."""

from pathlib import Path

import torch

from wina_core.compute.evaluation.fidelity import check_window
from wina_core.compute.evaluation.original import BatchSize, ReferenceFile, make_reference, reference_bytes
from wina_core.compute.hooks import cancellable
from wina_core.compute.memory import release_memory
from wina_core.compute.models.loading import SPREAD, LoadedModel, fetched_folder, torch_device
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import Reporter
from wina_core.compute.session.cache import read_cached, stages_of
from wina_core.compute.session.model_session import Session, unchanged
from wina_core.compute.stages import alone
from wina_core.errors import WinaError
from wina_core.files.hardware import free_on_disk
from wina_core.model_info import products
from wina_core.model_info.model_checks import check_folder, read_supported
from wina_core.model_info.sizes import WORKING, loaded_bytes
from wina_core.specs import NO_ROTATION, ModelSource, TextSpec

MAX_REFERENCE_BYTES = 8 * 2**30
"""Largest file of a reference: the usual 16,384 tokens of a vocabulary of 262,144."""


def reference_of(
    session: Session, source: ModelSource, text: TextSpec, batch_size: BatchSize, reporter: Reporter
) -> ReferenceFile:
    """Return the reference of the original of `source` on a text, from the disk or by one dense pass.

    The original is the stored weights computed in float32 at least, under any dtype of `source`: a reference in 16
    bits would be wrong by as much as a good configuration. What 16 bits cost is the divergence of the dense run.

    Call it before the configuration's own model is loaded: the original is dropped again unless it was in memory
    before. Of several engines that need one, the first computes it. Raises WinaError as loading and measuring do, and
    for a text too large for the disk or for `MAX_REFERENCE_BYTES`.
    """
    original = unchanged(source.unquantized)
    folder = fetched_folder(original, reporter)
    original = in_float32(original, folder, reporter)
    file = products.reference_file(original, folder, text)
    opened = session.references.get(file)
    if opened is not None and file.exists():
        return opened
    with alone(file, "the log-probabilities of the original", reporter):
        reference = read_cached(file, "reference", ReferenceFile, reporter)
        if reference is None:
            _check_size(text, read_supported(folder)[0]["vocab_size"], file.parent)  # now, not after loading
            with session.borrowed(original, NO_ROTATION, reporter) as loaded, cancellable(loaded.model, reporter):
                _make(loaded, text, batch_size, reporter, file)
            # Before the configuration's own model is loaded.
            release_memory()
            reference = ReferenceFile(file)
    session.references = {file: reference}
    return reference


def in_float32(source: ModelSource, folder: Path, reporter: Reporter) -> ModelSource:
    """Return a source with float32 in place of 16 bits, on the processor if its accelerator has no room."""
    weights = check_folder(folder).weights
    sixteen = {"auto": {"F16", "BF16"} & {entry.dtype for entry in weights.values()}, "float32": (), "float64": ()}
    if not sixteen.get(source.dtype, True):
        return source
    device, size = source.device, loaded_bytes(weights, "float32")
    if torch_device(device).type == "cuda" and device != SPREAD and size * WORKING > torch.cuda.mem_get_info()[0]:
        reporter.log("info", "The original is computed on the processor, since in float32 it does not fit.")
        device = "cpu"
    return source.model_copy(update={"dtype": "float32", "device": device})


def _make(loaded: LoadedModel, text: TextSpec, batch_size: BatchSize, reporter: Reporter, file: Path) -> None:
    check_window(loaded, text)
    stages = stages_of(file, reporter)
    make_reference(loaded, read_tokens(text, loaded.tokenizer), batch_size, reporter, file, stages)
    stages.discard()


def _check_size(text: TextSpec, vocabulary: int, folder: Path) -> None:
    """Raise WinaError for a reference that is too large."""
    size = reference_bytes(text.tokens, vocabulary)
    free = free_on_disk(folder)
    if size > MAX_REFERENCE_BYTES:
        most = MAX_REFERENCE_BYTES // reference_bytes(1, vocabulary) // text.sequence * text.sequence
        limit = f"more than the largest, {MAX_REFERENCE_BYTES / 1e9:.1f} GB; choose at most {most:,} tokens"
    elif size > free:
        limit = f"and {folder} has {free / 1e9:.1f} GB left; free some space, or choose fewer tokens"
    else:
        return
    raise WinaError(
        f"The original's log-probabilities of {text.tokens:,} tokens and a vocabulary of {vocabulary:,} take "
        f"{size / 1e9:.1f} GB, {limit}."
    )
