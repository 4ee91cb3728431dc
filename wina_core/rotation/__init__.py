"""Rotating a model's residual stream and its values without changing what it computes."""

from wina_core.models.shortcuts import shortcut_parameters
from wina_core.rotation.storage import save_rotated
from wina_core.rotation.transform import rotate

__all__ = ["rotate", "save_rotated", "shortcut_parameters"]
