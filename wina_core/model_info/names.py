"""Names of files and models without the folders of their users."""

import re
from pathlib import PurePosixPath, PureWindowsPath

from wina_core.specs import Quantization, QuantizationSpec, RotationSpec, TextSpec


def last_part(name: str) -> str:
    """Return a path without its folders; any other name as it is."""
    return re.split(r"[/\\]", name.rstrip("/\\"))[-1] if is_folder(name) else name


def is_folder(location: str) -> bool:
    """Return True for a path on a machine, POSIX or Windows."""
    absolute = PurePosixPath(location).is_absolute() or PureWindowsPath(location).is_absolute()
    return absolute or location.startswith((".", "~")) or "\\" in location


def shared_text(text: TextSpec) -> TextSpec:
    """Return a text without the folders of its file."""
    return text.model_copy(update={"source": last_part(text.source)})


def shared_rotation(rotation: RotationSpec) -> RotationSpec:
    """Return a rotation without the folders of its files."""
    matrices = rotation.matrices and last_part(rotation.matrices)
    return rotation.model_copy(update={"matrices": matrices, "text": shared_text(rotation.text)})


def shared_quantization(quantization: Quantization) -> Quantization:
    """Return a quantization without the folders of its text."""
    if not isinstance(quantization, QuantizationSpec):
        return quantization
    return quantization.model_copy(update={"text": shared_text(quantization.text)})
