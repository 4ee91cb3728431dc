"""Gates on an unrotated model's inputs in the bases of a rotation, which compute what the rotated and gated model does.

A rotated matrix reads B^T n of the normalized stream n, and its gate drops (1 - m) * B^T n. The unrotated one reads
g n + b, with the norm's gain and bias, of which the gates here subtract g B ((1 - m) * B^T n).
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from wina_kernels.selection import kept_inputs, scores, top_k_mask

from wina_core.compute.models.experts import Expert
from wina_core.compute.models.norms import centres, norm_bias, norm_gain, normalized
from wina_core.compute.models.view import LayerView
from wina_core.compute.rotation.apply import carrying_constant, norm_readers
from wina_core.compute.rotation.refine import dropped_by_norms
from wina_core.compute.rotation.turns import turned, turned_diagonal
from wina_core.compute.scoring.column_norms import column_norms
from wina_core.specs.methods.base import BLOCKS


@dataclass(frozen=True)
class CarriedBias:
    """The norm's bias b in rotated matrices without a bias: their inputs grow by s, their columns by c = W b / (d s)
    (`apply_bases`)."""

    constant: float
    """s."""
    bias: Tensor
    """b [d], float64."""
    products: Tensor
    """[d], the sum of (W g)^T c over these matrices, centred, float64."""
    square: float
    """The sum of c^T c over them."""


def carried_bias(layer: LayerView, names: Collection[str], norm: nn.Module) -> CarriedBias | None:
    """Return the norm's bias in the named matrices of the layer once they are rotated; None where none carries it."""
    constant, bias = carrying_constant(norm, norm_readers(layer)[norm]), norm_bias(norm)
    if bias is None or constant == 0:
        return None
    products, square, gain = torch.zeros_like(bias), 0.0, norm_gain(norm)
    for projection in layer.matrices(names):
        if projection.bias is None:
            weight = projection.weight.double()
            column = weight @ bias / (len(bias) * constant)
            products += weight.T @ column * gain
            square += float(column @ column)
    return CarriedBias(constant, bias, products - products.mean(), square)


@torch.no_grad()
def turned_norms(gram: Tensor, basis: Tensor, carried: CarriedBias | None = None) -> Tensor:
    """Return the norms [n] of the columns of W B from the Gram matrix of W [n, n], with the bias that they carry."""
    squares = turned_diagonal(gram, basis)
    if carried is not None:
        squares = squares + 2 * turned(carried.products.to(basis), basis) + carried.square
    return squares.clamp(min=0).sqrt()


def stream_readers(part: LayerView, names: Collection[str]) -> list[nn.Module]:
    """Return what reads the input of the named projections of a layer without its experts, or of an expert: the linear
    layers, or the expert, whose gate and up read the same; empty where it has none of them."""
    linears: dict[nn.Module, None] = {part.projections[name].linear: None for name in names if name in part.projections}
    return [part.module] if linears and part.expert is not None else list(linears)


class StreamGate:
    """Gate on what some readers of a norm read, with one mask, in a basis of the stream; differentiable in the basis.

    Args:
        norm: The norm; if it is a LayerNorm, the basis keeps the mean.
        basis: B [d, d].
        norms: Norms of the columns of the rotated matrices together, [d].
        sparsity: Fraction of the inputs that is dropped.
        carried: The bias of the norm in the rotated matrices.
    """

    def __init__(
        self, norm: nn.Module, basis: Tensor, norms: Tensor, sparsity: float, carried: CarriedBias | None = None
    ) -> None:
        self._norm, self._basis, self._norms, self._sparsity = norm, basis, norms, sparsity
        self._gain = norm_gain(norm).to(basis)
        self._bias: Tensor | None = None
        if carried is not None:
            self._shift = carried.constant * float(basis.detach().sum().sign())  # B^T shift = s
            self._bias = carried.bias.to(basis) / self._shift
        self._stream: Tensor | None = None
        self._dropped: tuple[Tensor, Tensor] | None = None
        self._alone = False

    def hooks(self, readers: Sequence[nn.Module]) -> Iterator[Any]:
        """Gate the inputs of these linear layers or experts; yield the hooks."""
        self._alone = len(readers) == 1
        yield self._norm.register_forward_hook(self._after_norm)
        for reader in readers:
            yield reader.register_forward_pre_hook(self._before_reader)

    def _after_norm(self, _: nn.Module, args: tuple[Any, ...], __: Tensor) -> None:
        self._stream, self._dropped = args[0].flatten(0, -2), None

    def _before_reader(self, reader: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        assert self._stream is not None  # the norm has passed
        x, places = args[0], reader.places if isinstance(reader, Expert) else None
        if places is not None and self._alone:
            dropped, mean = self._drop(self._stream[places])  # an expert with its own mask reads few of the tokens
        else:
            if self._dropped is None:
                self._dropped = self._drop(self._stream)
            dropped, mean = self._dropped if places is None else (each[places] for each in self._dropped)
        if self._bias is not None and reader.bias is None:
            dropped = dropped + mean * self._bias
        return (x - dropped.view_as(x).to(x.dtype), *args[1:])

    def _drop(self, stream: Tensor) -> tuple[Tensor, Tensor]:
        """Return the part of the norm's output that the gate drops, and the mean [tokens, 1] that rotated matrices of a
        LayerNorm, which are centred, do not see of it; 0 for other norms."""
        x = normalized(self._norm, stream.float())
        if self._bias is not None:
            x = x + self._shift
        dropped = dropped_by_norms(x, self._basis, self._norms, self._sparsity)
        mean = dropped.mean(-1, keepdim=True) if centres(self._norm) else dropped.new_zeros(len(dropped), 1)
        return (dropped - mean) * self._gain, mean


class InputGate:
    """Gate on a linear layer's input in a basis B ([n, n] or heads), by the norms [n] of the columns of W B."""

    def __init__(self, basis: Tensor, norms: Tensor, sparsity: float) -> None:
        self._basis, self._norms, self._sparsity = basis, norms, sparsity

    def __call__(self, _: nn.Module, args: tuple[Any, ...]) -> tuple[Tensor]:
        x = args[0]
        return (x - dropped_by_norms(x.float(), self._basis, self._norms, self._sparsity).to(x.dtype),)


class PlainGate:
    """Gate on an input in its own coordinates, by the norms of the weights' columns."""

    def __init__(self, norms: Tensor, sparsity: float) -> None:
        self._norms, self._sparsity = norms, sparsity

    def __call__(self, _: nn.Module, args: tuple[Any, ...]) -> tuple[Tensor]:
        x = args[0]
        return (x * top_k_mask(scores(x, self._norms), kept_inputs(x.shape[-1], self._sparsity)),)


def plain_inputs(layer: LayerView, turned: Collection[str]) -> Iterator[tuple[set[nn.Linear], Tensor]]:
    """Yield the linear layers that share an input without a basis, with the norms of the weights' columns together;
    `turned` are the projections whose inputs have one."""
    for part, names in product(layer.parts, BLOCKS):
        plain = [part.projections[name] for name in names if name in part.projections and name not in turned]
        if plain:
            weights = torch.cat([projection.weight for projection in plain])
            yield {projection.linear for projection in plain}, column_norms(weights)
