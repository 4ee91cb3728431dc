"""WINA's published transform, and the variants of its bases."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from tests.released.recomputed.decoder import BLOCKS, Matrix, Weights


def fold_gains(weights: Weights) -> Weights:
    """Multiply the gain of every norm into the matrices that read its output, and set the gains to 1."""
    layers = []
    for layer in weights.layers:
        gains = dict.fromkeys(BLOCKS["qkv"], layer.attention_gain) | dict.fromkeys(("gate", "up"), layer.mlp_gain)
        matrices = {
            name: replace(matrix, weight=matrix.weight * gains[name]) if name in gains else matrix
            for name, matrix in layer.matrices.items()
        }
        ones = torch.ones_like(layer.attention_gain)
        layers.append(replace(layer, matrices=matrices, attention_gain=ones, mlp_gain=ones))
    return replace(
        weights,
        layers=tuple(layers),
        final_gain=torch.ones_like(weights.final_gain),
        head=weights.head * weights.final_gain,
    )


def right_basis(weight: Tensor, stacked: Tensor) -> Tensor:
    """Return an orthogonal V [n, n] that makes the columns of W V orthogonal, in descending order of their norms.

    V holds the right singular vectors of W [m, n]. Where W has a null space, the singular vectors of W do not settle
    the basis of it, and the released code leaves the choice to the SVD routine. Here the null space is spanned by the
    eigenvectors of the Gram matrix of `stacked` (all matrices that read the same input) inside it.
    """
    _, values, vt = torch.linalg.svd(weight, full_matrices=len(weight) < weight.shape[1])
    rank = int((values > values[0] * 1e-10).sum())
    row_space, null_space = vt[:rank].T, vt[rank:].T
    if null_space.shape[1] == 0:
        return row_space
    inside = stacked @ null_space
    turned = torch.linalg.eigh(inside.T @ inside).eigenvectors.flip(1)
    return torch.cat((row_space, null_space @ turned), dim=1)


def lapack_basis(weight: Tensor, stacked: Tensor) -> Tensor:  # noqa: ARG001 - has the signature of a `Basis`
    """Return all right singular vectors of W [m, n] as the SVD routine completes them, as the released code takes them.

    Where m < n, as of k with grouped queries, n - m of them span the null space in a basis that W does not determine.
    """
    return torch.linalg.svd(weight, full_matrices=len(weight) < weight.shape[1]).Vh.T


def random_null_basis(weight: Tensor, stacked: Tensor) -> Tensor:
    """Return the singular vectors of W, and a random basis of its null space."""
    basis, rank = lapack_basis(weight, stacked), min(weight.shape)
    turned = random_basis(basis[:, rank:].T @ basis[:, rank:], stacked)
    return torch.cat((basis[:, :rank], basis[:, rank:] @ turned), dim=1)


def stacked_basis(weight: Tensor, stacked: Tensor) -> Tensor:  # noqa: ARG001 - likewise
    """Return the basis of all matrices that read the input, [n, n], instead of that of one of them."""
    return right_basis(stacked, stacked)


def unchanged_basis(weight: Tensor, stacked: Tensor) -> Tensor:  # noqa: ARG001 - likewise
    """Return the identity [n, n]."""
    return torch.eye(weight.shape[1], dtype=torch.float64)


def random_basis(weight: Tensor, stacked: Tensor) -> Tensor:  # noqa: ARG001 - likewise
    """Return an orthogonal matrix [n, n], the same for each site, drawn from the Haar distribution with the seed 0."""
    size = weight.shape[1]
    normal = torch.randn(size, size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    q, r = torch.linalg.qr(normal)
    return q * r.diagonal().sign()


Basis = Callable[[Tensor, Tensor], Tensor]
"""(k, gate or the whole fused matrix [m, n], all matrices that read the same input stacked) -> orthogonal [n, n]."""


def site_bases(
    weights: Weights, attention: Basis = right_basis, mlp: Basis = right_basis
) -> list[tuple[Tensor, Tensor]]:
    """Return the bases of the attention and the MLP input of each layer, of weights with folded gains."""
    found = []
    for layer in weights.layers:
        qkv, gate_up = (
            torch.cat([layer.matrices[name].weight for name in BLOCKS[block]]) for block in ("qkv", "gate_up")
        )
        k, gate = (qkv, gate_up) if weights.fused else (layer.matrices[name].weight for name in ("k", "gate"))
        found.append((attention(k, qkv), mlp(gate, gate_up)))
    return found


def transform(
    weights: Weights, *, subtract_mean: bool = False, attention: Basis = right_basis, mlp: Basis = right_basis
) -> Weights:
    """Return the published orthogonal transform of a model, with d x d shortcuts on the residual stream.

    Source: microsoft/wina utils/tensor_transform.py. The basis of an attention input comes from k, that of an MLP
    input from gate; fused models take the whole qkv and gate_up matrices. `subtract_mean` also subtracts the mean of
    each row of the embedding, as the released code does, which RMSNorm does not undo. The head is a matrix of its own
    also where the model ties it to the embedding. `attention` and `mlp` compute the bases of their inputs; others than
    the published ones show which part of the transform has which effect.
    """
    weights = fold_gains(weights)
    of_attention, of_mlp = zip(*site_bases(weights, attention, mlp), strict=True)
    following = [*of_attention[1:], of_mlp[-1]]
    layers = []
    for layer, first, second, third in zip(weights.layers, of_attention, of_mlp, following, strict=True):
        matrices = {}
        for name, matrix in layer.matrices.items():
            if name in ("o", "down"):
                basis = second if name == "o" else third
                bias = None if matrix.bias is None else basis.T @ matrix.bias
                matrices[name] = Matrix(basis.T @ matrix.weight, bias)
            else:
                matrices[name] = replace(matrix, weight=matrix.weight @ (first if name in BLOCKS["qkv"] else second))
        layers.append(
            replace(layer, matrices=matrices, attention_shortcut=first.T @ second, mlp_shortcut=second.T @ third)
        )
    embedding = weights.embedding
    if subtract_mean:
        embedding = embedding - embedding.mean(dim=1, keepdim=True)
    return replace(
        weights, embedding=embedding @ of_attention[0], layers=tuple(layers), head=weights.head @ following[-1]
    )
