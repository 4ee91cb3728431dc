"""Additions of an exported rotated model to a Hugging Face folder: its rotation and its residual shortcuts."""

from collections.abc import Collection
from pathlib import Path
from typing import Literal

from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from wina_core.compute.models.finite import check_weights_finite
from wina_core.compute.models.folded_norms import set_folded_norms
from wina_core.compute.models.shortcuts import set_shortcuts
from wina_core.compute.models.view import ModelView
from wina_core.errors import WinaError, explain
from wina_core.files.user_file import read_file
from wina_core.model_info.safetensors_header import FLOATS, read_safetensors_header
from wina_core.records import RotationReport
from wina_core.records.base import Record
from wina_core.specs import RotationSpec

ROTATION_FILE = "wina_rotation.json"
NORMS_FILE = "wina_folded_norms.safetensors"
"""Keys as in `folded_norms.all_folded_norms`, [n]: what tells methods that need them the inputs without their norms."""
SHORTCUTS_FILE = "wina_shortcuts.safetensors"
"""Keys as in `shortcuts.shortcuts`, [d, d] in the model's dtype."""


class RotationFile(Record):
    """The content of `ROTATION_FILE`."""

    format_version: Literal[1] = 1
    rotation: RotationSpec
    report: RotationReport
    shortcuts: tuple[str, ...]
    """Names of the matrices in `SHORTCUTS_FILE`."""
    matrices: str | None = None
    """Name of the file of the bases in the folder, for replay on the original."""


def read_rotation_file(folder: Path) -> RotationFile | None:
    """Return the rotation of an exported folder, with its shortcuts checked; None if it was not exported here.

    Raises WinaError if the file is damaged or of a newer format, or shortcuts are missing or truncated.
    """
    path, shortcuts = folder / ROTATION_FILE, folder / SHORTCUTS_FILE
    if not path.exists():
        if shortcuts.exists():
            raise WinaError(f"{folder} lacks {ROTATION_FILE}, which its {SHORTCUTS_FILE} needs; copy it here as well.")
        return None
    try:
        content = RotationFile.model_validate_json(read_file(path, "file of a model"))
    except ValidationError as error:
        raise WinaError(
            f"{path} is damaged or was written by a newer version ({explain(error).rstrip('.')}); update the program "
            "or export the model again."
        ) from error
    if content.shortcuts and not shortcuts.exists():
        raise WinaError(f"{folder} lacks {SHORTCUTS_FILE}, without which its model is wrong; copy it here as well.")
    if shortcuts.exists():
        _check_shortcuts(shortcuts, content.shortcuts)
    return content


def _check_shortcuts(path: Path, expected: Collection[str]) -> None:
    tensors = read_safetensors_header(path, "file of matrices").tensors
    if tensors.keys() != set(expected):
        name = min(tensors.keys() ^ set(expected))
        raise WinaError(f"{path} and {ROTATION_FILE} disagree on {name}; export the rotated model again.")
    for name, entry in tensors.items():
        if entry.dtype not in FLOATS:
            raise WinaError(f"The residual shortcut {name} in {path} is {entry.dtype}; export the rotated model again.")


def attach_stored_shortcuts(view: ModelView, folder: Path) -> None:
    """Attach the shortcuts in the folder's `SHORTCUTS_FILE` to the model; raise WinaError if they do not fit."""
    set_shortcuts(view, _read(folder / SHORTCUTS_FILE))


def attach_stored_norms(view: ModelView, folder: Path) -> None:
    """Declare the folded norms in the folder's `NORMS_FILE` to the model; raise WinaError if they do not fit."""
    set_folded_norms(view, _read(folder / NORMS_FILE))


def _read(path: Path) -> dict[str, Tensor]:
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise WinaError(f"{path} cannot be read ({error}); export the model again.") from error
    check_weights_finite(tensors.items(), str(path))
    return tensors
