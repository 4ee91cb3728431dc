"""Rotation of a model's residual stream and of its values, which leaves the model's function unchanged."""

from wina_core.compute.models.shortcuts import shortcut_parameters
from wina_core.compute.rotation.transform import rotate, save_rotated

__all__ = ["rotate", "save_rotated", "shortcut_parameters"]
