"""Results cached on disk: a damaged file is computed again, and a full disk only loses the cache.

A loaded model is rotated with what the cache keeps: bases, and rotated weights that memory does not hold.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError
from torch import Tensor

from wina_core.compute.models.experts import Expert
from wina_core.compute.models.folded_norms import foldable
from wina_core.compute.models.loading import LoadedModel, load_model
from wina_core.compute.models.mapped import MappedWeights
from wina_core.compute.reporter import Reporter
from wina_core.compute.rotation import rotate, save_rotated
from wina_core.compute.rotation.apply import LayerBases
from wina_core.compute.rotation.choose import takes_whole
from wina_core.compute.rotation.descent import Search
from wina_core.compute.rotation.matrices import given_bases, read_search, save_matrices
from wina_core.compute.rotation.transform import check_rotation
from wina_core.compute.stages import Stages, alone
from wina_core.errors import WinaError, explain
from wina_core.files.hardware import OTHER_DISK, check_room
from wina_core.model_info import products
from wina_core.model_info.folding import choice_under
from wina_core.records import BasesRecord
from wina_core.specs import RotationSpec

_STACKED = 2
"""Copies of all experts while a folder is written: stacks as transformers has them, and what it makes of these."""


def rotated(loaded: LoadedModel, rotation: RotationSpec, reporter: Reporter) -> LoadedModel:
    """Return the model rotated: in memory, or else in a folder of the cache, which is made unless it is there."""
    if loaded.view.mapped is None:
        _rotate(loaded, rotation, reporter)
        return loaded
    check_rotation(loaded.view, rotation)
    folded = foldable(loaded.view, choice_under(rotation.fold_norms, loaded.source.quantization))
    folder = products.rotated_folder(products.identity(loaded.source, loaded.folder), rotation, folded)
    if not folder.exists():
        with alone(folder, "the rotated weights", reporter):
            if not folder.exists():  # else another engine has made it meanwhile
                _make(loaded, loaded.view.mapped, rotation, folder, reporter)
    found = load_model(loaded.source.model_copy(update={"location": str(folder), "revision": None}), reporter)
    found.source, found.folder = loaded.source, loaded.folder
    return found


def _make(loaded: LoadedModel, mapped: MappedWeights, rotation: RotationSpec, folder: Path, reporter: Reporter) -> None:
    """Write the folder of a model's rotated weights, from the layers that an interrupted attempt has left."""
    scratch = products.changed_folder(folder)
    products.remove_unfinished(folder.parent, scratch)
    experts = sum(
        projection.weight.nbytes
        for part in loaded.view.parts
        if isinstance(part.module, Expert)
        for projection in part.projections.values()
    )
    there = sum(file.stat().st_size for file in scratch.glob("layer-*"))
    check_room(
        folder.parent,
        2 * mapped.size + _STACKED * experts - there,
        "While they are written, the rotated weights take",
        OTHER_DISK,
    )
    _rotate(loaded, rotation, reporter, scratch)
    save_rotated(loaded, folder)
    shutil.rmtree(scratch, ignore_errors=True)


def _rotate(loaded: LoadedModel, rotation: RotationSpec, reporter: Reporter, scratch: Path | None = None) -> None:
    """Rotate a model in place by bases of the cache, which are found and kept unless they are there."""
    file = bases_file(loaded, rotation)

    def read(path: Path) -> tuple[Iterator[LayerBases], BasesRecord | None]:
        return given_bases(loaded.view, rotation, path, path.stem), read_search(path)

    products.remove_abandoned(file.parent)
    known = read_cached(file, "basis", read, reporter)
    search = Search(reporter, file.with_suffix(products.STAGES_SUFFIX))
    if known is not None:
        search.discard()
        rotate(loaded, rotation, reporter, bases=known[0], known=known[1], scratch=scratch)
        return
    found: dict[str, Tensor] = {}
    report = rotate(loaded, rotation, reporter, into=found, search=search, scratch=scratch)
    made = BasesRecord(seconds=report.seconds, dense_residuals=report.dense_residuals, refinement=report.refinement)
    products.remember_seconds(file.stem, report.seconds)
    if write_cached(file, "basis", lambda path: save_matrices(found, path, path.stem, made), reporter):
        search.discard()


def bases_file(loaded: LoadedModel, rotation: RotationSpec) -> Path:
    """Return the file of the bases, named by the weights, the text, the rotation and the version of the search.

    They are found before quantizing, so models that differ only in that share them.
    """
    source = loaded.source.unquantized
    return products.bases_file(
        products.identity(source, loaded.folder), rotation, whole=takes_whole(loaded.view, rotation)
    )


T = TypeVar("T")


def stages_of(file: Path, reporter: Reporter) -> Stages:
    """Return the stages of a file's computation, after removing those of its folder that nobody has continued."""
    products.remove_abandoned(file.parent)
    return Stages(reporter, file.with_suffix(products.STAGES_SUFFIX))


def read_cached(file: Path, what: str, read: Callable[[Path], T], reporter: Reporter) -> T | None:
    """Return what `read` makes of the file; None if it is missing or, with a warning, damaged."""
    if not file.exists():
        return None
    try:
        return read(file)
    except (OSError, ValidationError, WinaError) as error:
        reason = explain(error) if isinstance(error, ValidationError) else error
        reporter.log("warning", f"The {what} is computed again, since {file} cannot be read: {reason}")
        return None


def write_cached(file: Path, what: str, write: Callable[[Path], object], reporter: Reporter) -> bool:
    """Write a file by `write` and return whether that succeeded; a failure is a warning."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file)
    except (OSError, WinaError) as error:
        reporter.log("warning", f"The {what} is not kept for later. {error}")
        return False
    return True
