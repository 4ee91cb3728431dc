"""Additions of an exported rotated model to a Hugging Face folder: its rotation and its residual shortcuts."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file

from wina_core.compute.models.shortcuts import set_shortcuts
from wina_core.compute.models.view import ModelView
from wina_core.errors import WinaError
from wina_core.records import RotationReport
from wina_core.sources.resolve import read_safetensors_header
from wina_core.specs import RotationSpec

ROTATION_FILE = "wina_rotation.json"
SHORTCUTS_FILE = "wina_shortcuts.safetensors"
"""Keys as in `shortcuts.shortcuts`, [d, d] in the model's dtype."""


class RotationFile(BaseModel):
    """The content of `ROTATION_FILE`."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

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
    path = folder / ROTATION_FILE
    if not path.is_file():
        return None
    try:
        content = RotationFile.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise WinaError(
            f"{path} is damaged or was written by a newer version; update the program or export the model again."
        ) from error
    if content.shortcuts:
        shortcuts = folder / SHORTCUTS_FILE
        if not shortcuts.is_file():
            raise WinaError(f"{folder} lacks {SHORTCUTS_FILE}, without which its model is wrong; copy it here as well.")
        missing = set(content.shortcuts) - read_safetensors_header(shortcuts).keys()
        if missing:
            raise WinaError(f"{shortcuts} lacks {min(missing)}; export the rotated model again.")
    return content


def attach_stored_shortcuts(view: ModelView, folder: Path) -> None:
    """Attach the shortcuts in the folder's `SHORTCUTS_FILE` to the model."""
    try:
        set_shortcuts(view, load_file(folder / SHORTCUTS_FILE))
    except (OSError, SafetensorError) as error:
        raise WinaError(f"{folder / SHORTCUTS_FILE} cannot be read ({error}); export the model again.") from error
