"""Rotating a model's residual stream and its values without changing what it computes."""

from wina_core.compute.models.shortcuts import shortcut_parameters
from wina_core.compute.rotation.transform import rotate, save_rotated

__all__ = ["rotate", "save_rotated", "shortcut_parameters"]
