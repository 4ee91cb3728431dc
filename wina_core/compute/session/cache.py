"""Results cached on disk: a damaged file is computed again, and a full disk only loses the cache.

A loaded model is rotated with what the cache keeps: bases, and rotated weights that memory does not hold.
"""

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from torch import Tensor, nn

from wina_core.compute.hooks import cancellable
from wina_core.compute.models.experts import Expert
from wina_core.compute.models.folded_norms import foldable
from wina_core.compute.models.loading import LoadedModel, load_model
from wina_core.compute.models.mapped import MappedWeights
from wina_core.compute.reporter import Reporter
from wina_core.compute.rotation import rotate, save_rotated
from wina_core.compute.rotation.apply import LayerBases
from wina_core.compute.rotation.bases import reads_fused_matrix
from wina_core.compute.rotation.descent import Search
from wina_core.compute.rotation.matrices import read_bases, read_search, save_matrices
from wina_core.compute.rotation.transform import check_rotation
from wina_core.compute.stages import Stages, alone
from wina_core.errors import WinaError, explain
from wina_core.files.hardware import OTHER_DISK, check_room
from wina_core.files.tables import write_atomically
from wina_core.model_info import products
from wina_core.model_info.folding import choice_under
from wina_core.records import BasesRecord
from wina_core.specs import RotationSpec

_STACKED = 2
"""Copies of all experts while a folder is written: transformers' stacks, and the tensors that it saves from these."""


def rotated(loaded: LoadedModel, rotation: RotationSpec, reporter: Reporter) -> LoadedModel:
    """Return the model rotated: in memory, or if it is mapped, from a folder of the cache, which is made if missing."""
    if loaded.view.mapped is None:
        _rotate(loaded, rotation, reporter)
        return loaded
    check_rotation(loaded.view, rotation)
    folded = foldable(loaded.view, choice_under(rotation.fold_norms, loaded.source.quantization))
    folder = products.rotated_folder(products.identity(loaded.source, loaded.folder), rotation, folded)
    if not folder.exists():
        with alone(folder, "the rotated weights", reporter):
            if not folder.exists():  # another engine may have made it while this one waited
                _make(loaded, loaded.view.mapped, rotation, folder, reporter)
    rotated_model = load_model(loaded.source.model_copy(update={"location": str(folder), "revision": None}), reporter)
    # Other results are named by the original's files, not by the cache's folder.
    rotated_model.source, rotated_model.folder = loaded.source, loaded.folder
    return rotated_model


def _make(loaded: LoadedModel, mapped: MappedWeights, rotation: RotationSpec, folder: Path, reporter: Reporter) -> None:
    """Write the folder of a model's rotated weights."""
    scratch = products.changed_folder(folder)
    products.remove_unfinished(folder.parent, scratch)
    experts = sum(
        projection.weight.nbytes
        for block in loaded.view.parts
        if isinstance(block.module, Expert)
        for projection in block.projections.values()
    )
    reusable = sum(file.stat().st_size for file in scratch.glob("layer-*"))
    # The changed layers in `scratch` and the finished folder are on the disk at once.
    check_room(
        folder.parent,
        2 * mapped.size + _STACKED * experts - reusable,
        "While they are written, the rotated weights take",
        OTHER_DISK,
    )
    _rotate(loaded, rotation, reporter, scratch)
    save_rotated(loaded, folder)
    shutil.rmtree(scratch, ignore_errors=True)


def _rotate(loaded: LoadedModel, rotation: RotationSpec, reporter: Reporter, scratch: Path | None = None) -> None:
    """Rotate a model in place by bases of the cache, which are computed and stored if missing."""
    file = bases_file(loaded, rotation)

    def read(path: Path) -> tuple[Iterator[LayerBases], BasesRecord | None]:
        return read_bases(loaded.view, rotation, path, path.stem), read_search(path)

    products.remove_abandoned(file.parent)
    stored = read_cached(file, "basis", read, reporter)
    search = Search(reporter, file.with_suffix(products.STAGES_SUFFIX))
    if stored is not None:
        search.discard()
        rotate(loaded, rotation, reporter, bases=stored[0], earlier=stored[1], scratch=scratch)
        return
    matrices: dict[str, Tensor] = {}
    report = rotate(loaded, rotation, reporter, into=matrices, search=search, scratch=scratch)
    record = BasesRecord(seconds=report.seconds, dense_residuals=report.dense_residuals, refinement=report.refinement)
    products.remember_seconds(file.stem, report.seconds)
    if write_cached(file, "basis", lambda path: save_matrices(matrices, path, path.stem, record), reporter):
        search.discard()


def bases_file(loaded: LoadedModel, rotation: RotationSpec) -> Path:
    """Return the file of the bases, named by the weights, the text, the rotation and the version of the search.

    They are found before quantizing, so models that differ only in that share them.
    """
    source = loaded.source.unquantized
    return products.bases_file(
        products.identity(source, loaded.folder), rotation, whole=reads_fused_matrix(loaded.view, rotation)
    )


T = TypeVar("T")


def stages_of(file: Path, reporter: Reporter) -> Stages:
    """Return the stages of a file's computation, after removing abandoned ones of its folder."""
    products.remove_abandoned(file.parent)
    return Stages(reporter, file.with_suffix(products.STAGES_SUFFIX))


def read_cached(file: Path, label: str, read: Callable[[Path], T], reporter: Reporter) -> T | None:
    """Return the result of `read` on the file; None if it is missing or, with a warning, damaged."""
    if not file.exists():
        return None
    try:
        return read(file)
    except (OSError, ValidationError, WinaError) as error:
        reason = explain(error) if isinstance(error, ValidationError) else error
        reporter.log("warning", f"The {label} is computed again, since {file} cannot be read: {reason}")
        return None


def cached(
    file: Path,
    label: str,
    read: Callable[[Path], T],
    compute: Callable[[Stages], T],
    save: Callable[[T, Path], object],
    model: nn.Module,
    reporter: Reporter,
) -> T:
    """Return a result of a model from its file, or compute it and keep it.

    `compute` gets the stages that an interrupted attempt has left; they are removed once the file is written.
    """
    result = read_cached(file, label, read, reporter)
    if result is None:
        stages = stages_of(file, reporter)
        with cancellable(model, reporter):
            result = compute(stages)
        if write_cached(file, label, partial(save, result), reporter):
            stages.discard()
    return result


def save_json(record: BaseModel, path: Path) -> None:
    write_atomically(path, record.model_dump_json().encode())


def write_cached(file: Path, label: str, write: Callable[[Path], object], reporter: Reporter) -> bool:
    """Write a file by `write` and return whether that succeeded; a failure is a warning."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file)
    except (OSError, WinaError) as error:
        reporter.log("warning", f"The {label} is not kept for later. {error}")
        return False
    return True
