"""Matrices that carry the residual from one rotated basis into the next, and the other additions of an exported rotated
model to a Hugging Face folder.

SliceGPT's shortcut Q_in^T Q_out is needed if the sites of a decoder layer are rotated differently.
"""

from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from wina_core.compute.models.finite import check_weights_finite
from wina_core.compute.models.folded_norms import set_folded_norms
from wina_core.compute.models.quantized_linear import weight_like
from wina_core.compute.models.view import LayerView, ModelView
from wina_core.errors import WinaError, explain
from wina_core.files.user_file import read_file
from wina_core.model_info.safetensors_header import FLOATS, read_safetensors_header
from wina_core.records import RotationReport
from wina_core.records.base import Record
from wina_core.specs import RotationSpec

Branch = Literal["attention", "mlp"]
"""The residual around the attention or around the MLP; in a parallel layer "mlp", around both."""
_BRANCHES: tuple[Branch, ...] = ("attention", "mlp")
_SUFFIX = "_shortcut"


def set_shortcut(layer: LayerView, branch: Branch, matrix: Tensor) -> None:
    """Multiply the residual around a decoder layer's attention or MLP by `matrix` [d, d], from the right.

    The matrix becomes a buffer of the layer, so that it moves and is stored with it.
    """
    layer.module.register_buffer(branch + _SUFFIX, matrix)
    # The forward of transformers adds the residual as it is.
    layer.module.forward = partial(_forward, layer)


def attach_shortcuts(view: ModelView) -> None:
    """Attach the matrices that are buffers of the layers already, such as those of a view of other modules."""
    for layer in view.layers:
        for branch in _BRANCHES:
            if (matrix := getattr(layer.module, branch + _SUFFIX, None)) is not None:
                set_shortcut(layer, branch, matrix)


def shortcuts(view: ModelView) -> dict[str, Tensor]:
    """Return all shortcut matrices by name, such as "layers.3.attention"."""
    return {
        f"layers.{layer.index}.{branch}": matrix
        for layer in view.layers
        for branch in _BRANCHES
        if (matrix := getattr(layer.module, branch + _SUFFIX, None)) is not None
    }


def set_shortcuts(view: ModelView, matrices: Mapping[str, Tensor]) -> None:
    """Attach matrices named as by `shortcuts`; raise WinaError if they do not fit the model."""
    by_name = {f"layers.{layer.index}.{branch}": (layer, branch) for layer in view.layers for branch in _BRANCHES}
    for name, matrix in matrices.items():
        if name not in by_name or matrix.shape != (view.hidden_size, view.hidden_size):
            raise WinaError(f"The residual shortcut {name} does not fit this model; export the rotated model again.")
        layer, branch = by_name[name]
        device = weight_like(layer.projections["o"].linear).device
        set_shortcut(layer, branch, matrix.to(device, view.embedding.weight.dtype))


def shortcut_parameters(model: nn.Module) -> int:
    return sum(buffer.numel() for name, buffer in model.named_buffers() if is_shortcut(name))


def is_shortcut(name: str) -> bool:
    """Return whether a state dict's key is a residual shortcut."""
    return name.rpartition(".")[2] in {branch + _SUFFIX for branch in _BRANCHES}


def _forward(layer: LayerView, hidden_states: Tensor, **kwargs: Any) -> Tensor:
    """Run a pre-norm decoder layer of any supported family with shortcuts, in evaluation mode."""
    attended = layer.attention(hidden_states=layer.attention_norm(hidden_states), **kwargs)[0] * layer.multiplier
    hidden_states = hidden_states.to(attended.device)  # the layer before may be on another one
    if layer.parallel:
        return _carry(layer, "mlp", hidden_states) + attended + _mlp(layer, hidden_states)
    hidden_states = _carry(layer, "attention", hidden_states) + attended
    return _carry(layer, "mlp", hidden_states) + _mlp(layer, hidden_states)


def _mlp(layer: LayerView, hidden_states: Tensor) -> Tensor:
    hidden_states = layer.mlp_norm(hidden_states)
    for module in layer.mlp:
        written = module(hidden_states)
        hidden_states = written[0] if isinstance(written, tuple) else written  # gpt_oss returns its router's scores too
    return hidden_states * layer.multiplier


def _carry(layer: LayerView, branch: Branch, residual: Tensor) -> Tensor:
    matrix = getattr(layer.module, branch + _SUFFIX, None)
    return residual if matrix is None else torch.matmul(residual, matrix)


ROTATION_FILE = "wina_rotation.json"
NORMS_FILE = "wina_folded_norms.safetensors"
"""Keys as in `folded_norms.all_folded_norms`, [n], for methods that need the inputs without these factors."""
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
