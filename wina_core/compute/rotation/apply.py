"""The orthogonal tensor transformation (paper, appendix, algorithm 1; SliceGPT's computational invariance).

With the norms' gains folded into the matrices that follow, h Q may replace a residual stream h: readers become W Q,
writers Q^T W, and Q_in^T Q_out carries it between two bases. Arithmetic is on blocks of rows, in float64 (float32 for
16-bit weights): twice the digits of the weights, so each weight is effectively rounded once.

16-bit weights and activations are multiplied with matrices of more digits by instructions for bfloat16. Products of
bfloat16 numbers are exact and their sums are in float32, several times as fast as products of float32 numbers; numbers
of more digits are sums of bfloat16 numbers.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn
from wina_kernels.dense import multiply_in_float32

from wina_core.compute.models.norms import centres, norm_bias, norm_gain, set_norm_gain
from wina_core.compute.models.shortcuts import Branch, set_shortcut
from wina_core.compute.models.view import LayerView, ModelView
from wina_core.compute.reporter import Reporter

_BLOCK = 512
"""Rows or columns of a weight multiplied at a time."""
_ATTENTION_READS, _MLP_READS = ("q", "k", "v"), ("gate", "up")


@dataclass(frozen=True)
class LayerBases:
    """The bases of one decoder layer, float64; None for inputs that are not rotated."""

    attention: Tensor | None = None
    """[d, d], of the stream read by attention_norm."""
    mlp: Tensor | None = None
    """[d, d], of the stream read by mlp_norm."""
    heads: Tensor | None = None
    """[kv_heads, head_dim, head_dim], of the values."""


@torch.no_grad()
def apply_bases(
    view: ModelView,
    bases: Iterable[LayerBases],
    reporter: Reporter,
    finished: Callable[[LayerView], object] = lambda _: None,
) -> None:
    """Rotate a model in place, layer by layer; `bases` has one entry a layer, taken just before it is needed.

    `finished` is called with each layer, in order, after its last change.

    Attention and MLP of a parallel layer share one basis. If the norms centre the stream (LayerNorm), all its bases
    keep the mean (see `statistics`).
    """
    stream: Tensor | None = None  # basis of the residual stream at the output of the previous layer
    previous: LayerView | None = None
    for layer, basis in zip(view.layers, bases, strict=True):
        if basis.heads is not None:
            _rotate_heads(view, layer, basis.heads)
        if basis.attention is not None and basis.mlp is not None:
            if stream is None or previous is None:
                # The embedding gets the first basis, the head the last one and a gain: they cannot share a weight.
                untie(view)
                for embedding in filter(None, (view.embedding, view.positions)):
                    _rotate_columns(embedding.weight, _right_product(embedding.weight, basis.attention))
            else:
                # A layer's last write goes into the next layer's basis, so it is finished one layer later.
                _rotate_write(previous, "mlp", stream, basis.attention)
                finished(previous)
            _rotate_reads(layer, basis.attention, basis.mlp)
            # A parallel layer writes once, at its end: o is then rotated with the MLP.
            if not layer.parallel:
                _rotate_write(layer, "attention", basis.attention, basis.mlp)
            stream, previous = basis.mlp, layer
        else:
            finished(layer)
        reporter.stage("rotation")  # again for each layer, since taking its basis may have been another stage
        reporter.progress(layer.index + 1, len(view.layers), "layers")
        reporter.check()
    if stream is not None and previous is not None:
        _rotate_write(previous, "mlp", stream, stream)
        finished(previous)
        _fold_and_rotate([view.head], view.final_norm, stream)


def untie(view: ModelView) -> None:
    """Copy the embedding into a tied head, and set the configuration so that nothing ties them again."""
    model: Any = view.model
    if view.head.weight is view.embedding.weight:
        view.head.weight = nn.Parameter(view.embedding.weight.clone(), requires_grad=False)
    model.config.tie_word_embeddings = False
    # transformers made its list of tied weights when it built the model.
    model.all_tied_weights_keys = model.get_expanded_tied_weights_keys(all_submodels=True)


def norm_readers(layer: LayerView) -> dict[nn.Module, list[nn.Module]]:
    """Return {norm: all modules with a weight that read its output}, gated or not: in some parallel layers q, k, v and
    the MLP share one norm."""
    readers: dict[nn.Module, dict[nn.Module, None]] = {}  # ordered sets: fused q, k and v are one linear layer
    for names, norm in ((_ATTENTION_READS, layer.attention_norm), (_MLP_READS, layer.mlp_norm)):
        readers.setdefault(norm, {}).update(dict.fromkeys(projection.linear for projection in layer.matrices(names)))
    readers[layer.mlp_norm].update(dict.fromkeys(layer.further_readers))
    return {norm: list(reading) for norm, reading in readers.items()}


def carrying_constant(norm: Any, readers: Sequence[nn.Module]) -> float:
    """Return s of `_fold_and_rotate`, in the norm's dtype; 0 if the norm has no bias or all readers have one."""
    bias = norm_bias(norm)
    if bias is None or all(reader.bias is not None for reader in readers):
        return 0.0
    size = bias.norm()
    # Rounded as the norm will store it, because the columns are divided by it.
    return float((size / (size + norm_gain(norm).norm() * len(bias) ** 0.5)).sqrt().to(norm.bias.dtype))


def _rotate_reads(layer: LayerView, attention: Tensor, mlp: Tensor) -> None:
    for norm, reading in norm_readers(layer).items():
        _fold_and_rotate(reading, norm, attention if norm is layer.attention_norm else mlp)


def _fold_and_rotate(readers: Sequence[Any], norm: Any, basis: Tensor) -> None:
    """Set W <- (W g) Q and c <- c + W b of y = W (g n + b) + c, for the normalized stream n; then g = 1 and b = 0.

    Where linear layers have no bias for the norm's, the direction that LayerNorm empties carries it: n sums to zero, so
    with the bias s (1, ..., 1) the matrix (W g) Q + (W b / (d s)) (1, ..., 1) gives W (g n + b) exactly for any s > 0.
    The chosen s makes the constant input about as large to n as the constant column is to W g.
    """
    gain, bias, constant = norm_gain(norm).to(basis.dtype), norm_bias(norm), carrying_constant(norm, readers)
    columns: dict[nn.Module, Tensor] = {}
    if bias is not None:
        for reader in readers:
            product = torch.cat([rows.double() @ bias.to(rows.device) for rows in reader.weight.split(_BLOCK)])
            if reader.bias is None:
                columns[reader] = product / (len(bias) * constant)
            else:
                reader.bias.copy_(reader.bias.double() + product)
        norm.bias.fill_(constant)
    multiply = _right_product(readers[0].weight, gain.to(basis)[:, None] * basis)
    for reader in readers:
        _rotate_columns(reader.weight, multiply, centres(norm), columns.get(reader))
    if norm.weight is not None:
        set_norm_gain(norm, torch.ones_like(norm.weight))


def _rotate_columns(
    weight: Tensor, multiply: Callable[[Tensor], Tensor], centred: bool = False, column: Tensor | None = None
) -> None:
    """Set W [m, d] <- W Q by a `_right_product`; if `centred`, subtract each row's mean; add `column` [m], if given, to
    all columns."""
    for start in range(0, len(weight), _BLOCK):
        rows = weight[start : start + _BLOCK]
        block = multiply(rows)
        if centred:  # the input sums to zero and cannot see a row's mean, which norms of columns must not count
            block -= block.mean(1, keepdim=True)
        if column is not None:
            block += column[start : start + _BLOCK, None]
        rows.copy_(block)


def _right_product(weight: Tensor, basis: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the function W -> W Q for rows of a weight, and of any other of its dtype and device."""
    if has_bfloat16_products(weight):
        split = split_into_bfloat16(basis)
        return lambda rows: multiply_from_right(rows, split)
    basis = basis.to(weight.device, _work_dtype(weight))
    return lambda rows: rows.to(basis.dtype) @ basis


def _left_product(basis: Tensor, weight: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the function W -> Q W for columns of a weight, and of any other of its dtype and device."""
    if has_bfloat16_products(weight):
        split = split_into_bfloat16(basis)
        return lambda columns: multiply_from_left(split, columns)
    basis = basis.to(weight.device, _work_dtype(weight))
    return lambda columns: basis @ columns.to(basis.dtype)


def _work_dtype(weight: Tensor) -> torch.dtype:
    return torch.float32 if weight.element_size() == 2 else torch.float64


def _rotate_write(layer: LayerView, branch: Branch, incoming: Tensor, outgoing: Tensor) -> None:
    """Set W <- Q_out^T W and b <- Q_out^T b in the matrices that end a branch; if the bases differ, add the shortcut
    Q_in^T Q_out.

    In a parallel layer, both matrices belong to the branch "mlp".
    """
    names = ("o",) if branch == "attention" else ("o", "down") if layer.parallel else ("down",)
    further = () if branch == "attention" else layer.further_writers
    multiply = _left_product(outgoing.T, layer.projections["o"].linear.weight)
    for linear in (*(projection.linear for projection in layer.matrices(names)), *further):
        # In blocks of columns, so that no copy of the whole weight is held in more digits.
        for columns in linear.weight.split(_BLOCK, dim=1):
            columns.copy_(multiply(columns))
        if linear.bias is not None:
            linear.bias.copy_(outgoing.to(linear.bias.device).T @ linear.bias.double())
    if incoming is outgoing:  # the usual case, decided without a comparison of [d, d] numbers
        return
    weight = layer.projections["o"].linear.weight
    incoming, outgoing = incoming.to(weight.device), outgoing.to(weight.device)
    if not torch.allclose(incoming, outgoing, rtol=0, atol=1e-12):
        set_shortcut(layer, branch, (incoming.T @ outgoing).to(weight.dtype))


def _rotate_heads(view: ModelView, layer: LayerView, heads: Tensor) -> None:
    """Set W_v <- R^T W_v and b_v <- R^T b_v for each key-value head, and W_o <- W_o R for its query heads.

    Exact because attention is linear in the values.
    """
    v, o = layer.projections["v"], layer.projections["o"]
    values = v.weight.double().unflatten(0, (view.kv_heads, view.head_dim))
    v.linear.weight[v.rows] = (heads.mT @ values).flatten(0, 1).to(v.linear.weight.dtype)
    if v.linear.bias is not None:
        bias = v.linear.bias[v.rows].double().view(view.kv_heads, view.head_dim, 1)
        v.linear.bias[v.rows] = (heads.mT @ bias).flatten().to(v.linear.bias.dtype)
    for rows in o.weight.split(_BLOCK):
        block = rows.double().unflatten(1, (view.kv_heads, -1, view.head_dim))
        rows.copy_(torch.einsum("dkgh,khe->dkge", block, heads).flatten(1))


_DIGITS, _MEAN_DIGITS = 3, 2
"""bfloat16 summands of a number: 24 bits for weights, which are rounded once, 16 for means over tokens."""


def split_into_bfloat16(matrix: Tensor, count: int = _DIGITS) -> tuple[Tensor, ...]:
    """Return bfloat16 matrices whose sum is `matrix`, but for 2^(-8 count) of each number."""
    summands = []
    for _ in range(count):
        summands.append(matrix.bfloat16())
        matrix = matrix - summands[-1].to(matrix.dtype)
    return tuple(summands)


def multiply_from_right(weight: Tensor, matrix: tuple[Tensor, ...]) -> Tensor:
    """Return W M of bfloat16 W [m, n] and M [n, k] from `split_into_bfloat16`, float32 [m, k]."""
    # The smallest summands come first, so that their digits are not lost in a large sum.
    return reduce(Tensor.add_, (multiply_in_float32(weight, summand) for summand in reversed(matrix)))


def multiply_from_left(matrix: tuple[Tensor, ...], weight: Tensor) -> Tensor:
    """Return M W of M [k, m] from `split_into_bfloat16` and bfloat16 W [m, n], float32 [k, n]."""
    return reduce(Tensor.add_, (multiply_in_float32(summand, weight) for summand in reversed(matrix)))


def bfloat16_gram(x: Tensor) -> Tensor:
    """Return x^T x of x [tokens, n], float32 [n, n], but for 2^-15 of each product."""
    # With x = h + l, half of P + P^T for P = h^T h + 2 h^T l is x^T x without the small l^T l, in two products.
    high, low = split_into_bfloat16(x, _MEAN_DIGITS)
    rows = high.T.contiguous()
    product = multiply_in_float32(rows, high).add_(multiply_in_float32(rows, low), alpha=2)
    return (product + product.T).div_(2)  # a product sums an element and its mirror image in orders of their own


def has_bfloat16_products(weight: Tensor) -> bool:
    return weight.dtype == torch.bfloat16 and weight.is_cpu
