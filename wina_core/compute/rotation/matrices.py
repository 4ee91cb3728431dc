"""Orthogonal bases from Gram matrices, identical on every machine, and their safetensors file, for exact replay of a
rotation.

Keys: "stream" (global), "layers.3.stream" (per_layer), "layers.3.attention" and "layers.3.mlp" (per_site), each [d, d];
"layers.3.heads" [kv_heads, head_dim, head_dim]. Columns are basis vectors: weights become W Q.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from wina_core.compute.models.view import ModelView
from wina_core.compute.rotation.apply import LayerBases
from wina_core.compute.stages import save_atomically
from wina_core.errors import WinaError
from wina_core.model_info.safetensors_header import FLOATS, TensorEntry, read_safetensors_header
from wina_core.records import BasesRecord
from wina_core.specs import RotationSpec

_TOLERANCE = 1e-5
"""Largest accepted |Q^T Q - I|: float32 matrices pass, bfloat16 ones do not."""
_KEY, _SEARCH = "found for", "search"
"""Keys in the file's metadata: of the model and rotation of the bases, and of the search for them (`BasesRecord`)."""


def _site_keys(mode: str, layer: int) -> tuple[str, str]:
    return {
        "global": ("stream", "stream"),
        "per_layer": (f"layers.{layer}.stream", f"layers.{layer}.stream"),
        "per_site": (f"layers.{layer}.attention", f"layers.{layer}.mlp"),
    }[mode]


def read_bases(view: ModelView, spec: RotationSpec, path: Path, key: str | None = None) -> Iterator[LayerBases]:
    """Yield the bases in a file that the spec's mode needs, all checked before the first.

    Raises WinaError if the file is missing or damaged, was saved with another `key`, lacks a matrix that the mode
    needs, or holds one of the wrong shape or not orthogonal.
    """
    if not path.exists():
        raise WinaError(f"The file of rotation matrices {path} does not exist; check the path.")
    tensors = read_safetensors_header(path, "file of matrices").tensors
    try:
        with safe_open(path, framework="pt") as file:
            if key is not None and (file.metadata() or {}).get(_KEY) != key:
                raise WinaError(f"The rotation matrices in {path} were found for another model or rotation.")
            for name, shape in _expected(view, spec).items():
                _check(path, file, tensors, name, shape, spec)
    except SafetensorError as error:
        raise WinaError(f"{path} is not a complete safetensors file ({error}); copy it again.") from error
    return _read(path, view, spec)


def _expected(view: ModelView, spec: RotationSpec) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for layer in view.layers:
        if spec.mode != "none":
            shapes |= dict.fromkeys(_site_keys(spec.mode, layer.index), (view.hidden_size, view.hidden_size))
        if spec.per_head:
            shapes[f"layers.{layer.index}.heads"] = (view.kv_heads, view.head_dim, view.head_dim)
    return shapes


def _check(
    path: Path,
    file: Any,
    tensors: Mapping[str, TensorEntry],
    key: str,
    shape: tuple[int, ...],
    spec: RotationSpec,
) -> None:
    if key not in tensors:
        raise WinaError(
            f'{path} has no matrix "{key}", which a {spec.mode} rotation{" with heads" * spec.per_head} needs; '
            "choose the mode it was made for."
        )
    entry = tensors[key]
    if entry.shape != shape:
        raise WinaError(
            f'The matrix "{key}" in {path} is {list(entry.shape)} where this model needs {list(shape)}; '
            "choose the matrices that were made for it."
        )
    if entry.dtype not in FLOATS:
        raise WinaError(
            f'The matrix "{key}" in {path} is {entry.dtype}; store orthogonal matrices in float32 or float64.'
        )
    error = orthogonality_error(file.get_tensor(key).double())
    if not error <= _TOLERANCE:  # true for NaN, too
        raise WinaError(
            f'The matrix "{key}" in {path} is not orthogonal (off by {error:.1e}, at most {_TOLERANCE:.0e} is '
            "accepted); store orthogonal matrices in float32 or float64."
        )


def _read(path: Path, view: ModelView, spec: RotationSpec) -> Iterator[LayerBases]:
    device = view.embedding.weight.device
    stream: Tensor | None = None
    with safe_open(path, framework="pt") as file:

        def read(key: str) -> Tensor:
            # Matrices stored in float32 are only that orthogonal, and would cost the rotation its exactness.
            return orthonormalized(file.get_tensor(key).to(device, torch.float64))

        for layer in view.layers:
            heads = read(f"layers.{layer.index}.heads") if spec.per_head else None
            if spec.mode == "none":
                yield LayerBases(heads=heads)
            elif spec.mode == "per_site":
                attention, mlp = map(read, _site_keys(spec.mode, layer.index))
                yield LayerBases(attention, mlp, heads)
            else:
                if spec.mode == "per_layer" or stream is None:
                    stream = read(_site_keys(spec.mode, layer.index)[0])
                yield LayerBases(stream, stream, heads)


def copy_bases(bases: Iterator[LayerBases], spec: RotationSpec, into: dict[str, Tensor]) -> Iterator[LayerBases]:
    """Yield the same bases and copy each to the CPU into `into` under its key."""
    for index, basis in enumerate(bases):
        if basis.attention is not None and basis.mlp is not None:
            for key, matrix in zip(_site_keys(spec.mode, index), (basis.attention, basis.mlp), strict=True):
                # Layers share a stream's basis, which is copied once.
                if key not in into:
                    into[key] = matrix.cpu().contiguous()
        if basis.heads is not None:
            into[f"layers.{index}.heads"] = basis.heads.cpu().contiguous()
        yield basis


def read_search(path: Path) -> BasesRecord | None:
    """Return the search for the bases in a file that `read_bases` accepts; None in a file of an older version."""
    with safe_open(path, framework="pt") as file:
        text = (file.metadata() or {}).get(_SEARCH)
    return None if text is None else BasesRecord.model_validate_json(text)


def save_matrices(
    matrices: dict[str, Tensor], path: Path, key: str | None = None, search: BasesRecord | None = None
) -> None:
    """Write matrices to a safetensors file atomically, with a `key` for `read_bases` and the `search` for them; raise
    WinaError if the disk refuses."""
    metadata = {} if key is None else {_KEY: key}
    metadata |= {} if search is None else {_SEARCH: search.model_dump_json()}
    try:
        save_atomically(matrices, path, metadata)
    except (OSError, SafetensorError) as error:
        raise WinaError(
            f"The rotation matrices could not be written to {path} ({error}); free some space or choose another folder."
        ) from error


_DEGENERATE = 1e-10
"""Eigenvalues closer than this, relative to the Frobenius norm, form one eigenspace: far above float64 rounding (1e-13
here), far below any distance that matters for a basis."""

_ROUNDING = 1e-12
"""max |Q^T Q - I| of a float64 matrix that is orthogonal to rounding."""
_STEPS = 3
"""Enough from the 1e-5 that given matrices may be off by."""


def trace_normalized(gram: Tensor) -> Tensor:
    """Divide a Gram matrix by its trace in place; a zero matrix stays."""
    trace = float(gram.trace())
    return gram.div_(trace) if trace > 0 else gram


def canonical_basis(gram: Tensor, *further: Callable[[], Tensor]) -> Tensor:
    """Return eigenvectors of a Gram matrix, float64 [d, d] in columns, by falling eigenvalue.

    This is V of the SVD of any W with W^T W = gram (paper, appendix "Orthogonal Tensor Transformation"). Where
    eigenvalues coincide, as in the null space of a k_proj with fewer rows than columns, the `further` matrices decide,
    each made only if needed, and at last diag(d, ..., 1). The entry of largest magnitude in each vector is positive.
    """
    d = gram.shape[0]
    ranking = torch.arange(d, 0, -1, dtype=torch.float64, device=gram.device)
    spaces = _eigenspaces(gram, _tolerance(gram))
    for criterion in (*further, ranking.diag):
        if len(spaces) == d:
            break
        matrix = criterion()
        tolerance = _tolerance(matrix)
        spaces = [
            finer
            for space in spaces
            for finer in (
                [space] if space.shape[1] == 1 else _eigenspaces(space.T @ matrix @ space, tolerance, within=space)
            )
        ]
    basis = torch.cat(spaces, dim=1)
    # Eigenvectors have either sign; libraries differ in it.
    largest = basis.gather(0, basis.abs().argmax(0, keepdim=True))
    return basis * largest.sign()


def _tolerance(gram: Tensor) -> float:
    return _DEGENERATE * float(torch.linalg.matrix_norm(gram))


def _eigenspaces(gram: Tensor, tolerance: float, within: Tensor | None = None) -> list[Tensor]:
    """Return orthonormal columns for each distinct eigenvalue, by falling ones, mapped by the basis `within` [d, n]."""
    values, vectors = torch.linalg.eigh(gram)
    vectors = vectors.flip(1) if within is None else within @ vectors.flip(1)
    ends = (values.diff().flip(0) > tolerance).nonzero().flatten() + 1
    # tensor_split takes its positions on the CPU alone.
    return list(torch.tensor_split(vectors, ends.cpu(), dim=1))


def orthogonality_error(matrix: Tensor) -> float:
    """Return max |Q^T Q - I| of [.., d, d]."""
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    return float((matrix.mT @ matrix - identity).abs().max())


def orthonormalized(matrix: Tensor) -> Tensor:
    """Make a nearly orthogonal float64 [.., d, d] orthogonal to rounding by Newton-Schulz steps, which converge
    quadratically."""
    identity = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    for _ in range(_STEPS):
        if orthogonality_error(matrix) <= _ROUNDING:
            break
        matrix = matrix @ (3 * identity - matrix.mT @ matrix) / 2
    return matrix
