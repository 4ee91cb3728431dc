"""Orthogonal bases from Gram matrices, identical on every machine."""

from collections.abc import Callable

import torch
from torch import Tensor

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
    largest = basis.gather(0, basis.abs().argmax(0, keepdim=True))
    return basis * largest.sign()


def _tolerance(gram: Tensor) -> float:
    return _DEGENERATE * float(torch.linalg.matrix_norm(gram))


def _eigenspaces(gram: Tensor, tolerance: float, within: Tensor | None = None) -> list[Tensor]:
    """Return orthonormal columns for each distinct eigenvalue, by falling ones, mapped by the basis `within` [d, n]."""
    values, vectors = torch.linalg.eigh(gram)
    vectors = vectors.flip(1) if within is None else within @ vectors.flip(1)
    ends = (values.diff().flip(0) > tolerance).nonzero().flatten() + 1
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
