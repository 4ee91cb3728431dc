"""Refinement of bases by descent on the calibrated error of gating; and gates on an unrotated model's inputs in the
bases of a rotation, which compute what the rotated and gated model does.

A rotated matrix reads B^T n of the normalized stream n, and its gate drops (1 - m) * B^T n. The unrotated one reads
g n + b, with the norm's gain and bias, of which the gates subtract g B ((1 - m) * B^T n). B is [n, n], or heads
[kv_heads, hd, hd]: block-diagonal, each key-value head's block for every query head it serves.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from wina_kernels.selection import kept_inputs, scores, top_k_mask

from wina_core.compute.models.experts import Expert
from wina_core.compute.models.folded_norms import column_norms
from wina_core.compute.models.norms import centres, norm_bias, norm_gain, normalized
from wina_core.compute.models.view import LayerView
from wina_core.compute.rotation.apply import carrying_constant, norm_readers
from wina_core.compute.rotation.descent import Search, descend
from wina_core.compute.rotation.sites import RotationSite
from wina_core.model_info.cost.refinement import DRAWN_TOKENS, sites_per_graph, sites_per_step
from wina_core.records import RefinementStep
from wina_core.specs.methods.base import BLOCKS


def turned(x: Tensor, basis: Tensor) -> Tensor:
    """Return B^T x for x [..., n]."""
    if basis.ndim == 2:
        return x @ basis
    heads, size, _ = basis.shape
    return torch.einsum("...hgi,hij->...hgj", x.unflatten(-1, (heads, -1, size)), basis).flatten(-3)


def turned_back(x: Tensor, basis: Tensor) -> Tensor:
    """Return B x for x [..., n]."""
    return turned(x, basis.mT)


def turned_diagonal(gram: Tensor, basis: Tensor) -> Tensor:
    """Return the diagonal [n] of B^T G B for a Gram matrix G [n, n]: squared norms of the columns of W B."""
    if basis.ndim == 2:
        return ((gram @ basis) * basis).sum(0)
    heads, size, _ = basis.shape
    blocks = gram.unflatten(0, (-1, size)).unflatten(-1, (-1, size)).diagonal(dim1=0, dim2=2).movedim(-1, 0)
    return ((blocks.unflatten(0, (heads, -1)) @ basis[:, None]) * basis[:, None]).sum(-2).flatten()


SPARSITIES = (0.5, 0.65)
"""Sparsities that alternate while refining, so that the result serves a range."""
_REPORTED = 10
"""Steps between two reports of the loss."""


def dropped_part(x: Tensor, basis: Tensor, gram: Tensor, sparsity: float) -> Tensor:
    """Return B ((1 - m) * B^T x), the part of x [..., n] that WINA drops at that sparsity in the basis B.

    The mask m keeps the largest |B^T x|_i ||W B_i||, with norms from W's Gram matrix [n, n]. Differentiable in B and x
    with the mask fixed; its changes move the error only where scores are equal.
    """
    with torch.no_grad():
        norms = turned_diagonal(gram, basis).clamp(min=0).sqrt()
    return dropped_by_norms(x, basis, norms, sparsity)


def dropped_by_norms(x: Tensor, basis: Tensor, norms: Tensor, sparsity: float) -> Tensor:
    """Return `dropped_part` for the norms [n] of the columns of W B."""
    rotated = turned(x, basis)
    with torch.no_grad():
        mask = top_k_mask((rotated * norms).abs(), kept_inputs(x.shape[-1], sparsity))
    return turned_back(rotated * ~mask, basis)


def gating_error(x: Tensor, basis: Tensor, gram: Tensor, sensitivity: Tensor, sparsity: float) -> Tensor:
    """Return the mean over tokens of e^T F e / 2, e the dropped part of x [tokens, n].

    That is the expected KL divergence, in nats, of gating this input alone, to second order.
    """
    error = dropped_part(x, basis, gram, sparsity)
    return ((error @ sensitivity) * error).sum(-1).mean() / 2


def refined_basis(
    start: Tensor,
    sites: Sequence[RotationSite],
    steps: int,
    search: Search,
    label: str,
    basis_index: int = 0,
    basis_count: int = 1,
    noise_bits: int = 16,
) -> Tensor:
    """Turn the basis [n, n] that `sites` share, or heads [kv_heads, hd, hd], for the least sum of gating errors;
    float64.

    Each step adds up the gradients of `sites_per_step`, `drawn_sites` if these are not all, in graphs of
    `sites_per_graph`. `label` is the site of the reported steps (`RefinementStep`). Progress is that of basis
    `basis_index` of `basis_count`. With fewer than 16 `noise_bits`, the error of rounding the weights to so many bits
    is added.
    """
    generator = torch.Generator().manual_seed(0)
    n, count = len(sites[0].gram), len(sites)
    read, together = sites_per_step(n, count), sites_per_graph(n, count)
    search.reporter.stage("refinement")

    def error(basis: Tensor, site: RotationSite, sparsity: float) -> Tensor:
        drawn = torch.randint(len(site.inputs), (DRAWN_TOKENS,), generator=generator).to(site.inputs.device)
        x = site.inputs[drawn]
        expected = gating_error(x, basis, site.gram, site.sensitivity, sparsity)
        if noise_bits < 16:
            expected = expected + rounding_error(x, basis, site.gram, site.sensitivity, noise_bits)
        return expected

    def loss(bases: Sequence[Tensor], step: int) -> Tensor:
        sparsity = SPARSITIES[step % len(SPARSITIES)]
        chosen = sites if read == count else [sites[index] for index in drawn_sites(count, read, step)]
        total = torch.zeros((), device=bases[0].device)
        for group in (chosen[first : first + together] for first in range(0, read, together)):
            value = torch.zeros_like(total)
            for site in group:
                value = value + error(bases[0], site, sparsity)
            value = value * (count / read)  # the drawn sites are a sample of all
            # Each group frees its graph before the next one builds its own.
            value.backward()
            total += value.detach()
            for site in group:
                site.give_back()
            search.reporter.check()
        if is_reported(step, steps):
            divergence = float(total)
            text = f"basis {basis_index + 1} of {basis_count}: expected KL {divergence:.3g}"
            search.reporter.progress(basis_index * steps + step, basis_count * steps, "steps", text)
            search.add(
                RefinementStep(
                    site=label, objective="error", sparsity=sparsity, step=step, steps=steps, loss=max(divergence, 0.0)
                )
            )
        return total

    return descend([start], loss, steps, generator=generator, search=search, site=label)[0]


def drawn_sites(count: int, read: int, step: int) -> list[int]:
    """Return the numbers of the sites, `read` of `count`, that a step reads: none twice in count // read steps.

    The demo model's KL with all 16 sites of the stream and with 4 (global and per head, 300 steps, WINA at 50 and 65 %,
    4,096 held-out tokens): 0.0053 and 0.0210, 0.0055 and 0.0217; with sites drawn at each step by itself, 0.0056 and
    0.0233; eigenvectors 0.0068 and 0.0292.
    """
    rounds = count // read
    # Seeded by the round, so that a continued search draws the same sites.
    order = torch.randperm(count, generator=torch.Generator().manual_seed(step // rounds))
    numbers: list[int] = order[step % rounds * read :][:read].tolist()
    return numbers


def is_reported(step: int, steps: int) -> bool:
    """Return whether the loss of a step is kept: for every sparsity every few steps, and at the end."""
    return step % _REPORTED < len(SPARSITIES) or step >= steps - len(SPARSITIES)


# ---- expected effect of rounding the weights that read an input, as a differentiable function of its basis -----------

_GROUP = 64
"""Inputs with a common scale and zero, as quantizers take them by default."""
_RANGE = 4.7
"""Expected range of 64 normal numbers, in standard deviations."""


def rounding_error(x: Tensor, basis: Tensor, gram: Tensor, sensitivity: Tensor, bits: int) -> Tensor:
    """Return the expected KL divergence, in nats, of rounding the weights that read x [tokens, n] in a basis B.

    A group's weights of one output are taken for normal numbers. They are rounded in steps of r / (2^bits - 1), with r
    their expected range; the error of each is uniform, of variance step^2 / 12, and independent of all others. With the
    weights' Gram matrix G and the Fisher information F of x, the errors of the outputs weigh f = tr F / tr G each, so
    the sum over groups of f mean(step^2) / 12 * sum(E[(B^T x)_i^2]) / 2 is expected.
    """
    weights = turned_diagonal(gram, basis)
    energies = turned(x, basis).square().mean(0)
    rounding = _RANGE**2 / (2**bits - 1) ** 2 / 12
    groups = zip(weights.split(_GROUP), energies.split(_GROUP), strict=True)
    errors = torch.stack([columns.mean() * energy.sum() for columns, energy in groups])
    return rounding * sensitivity.trace() / gram.trace() * errors.sum() / 2


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
    """Return the norm's bias in the named matrices of the layer once they are rotated; None if none carries it."""
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
    # Rounding can leave small negative squares.
    return squares.clamp(min=0).sqrt()


def stream_readers(block: LayerView, names: Collection[str]) -> list[nn.Module]:
    """Return the modules that read the input of the named projections of a layer without its experts, or of an expert.

    They are the linear layers, or the expert, whose gate and up read the same; none without these projections.
    """
    linears: dict[nn.Module, None] = {
        block.projections[name].linear: None for name in names if name in block.projections
    }
    return [block.module] if linears and block.expert is not None else list(linears)


class StreamGate:
    """Gate on the input of some readers of a norm, with one mask, in a basis of the stream and differentiable in it.

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
        self._stream, self._dropped = args[0].flatten(0, -2), None  # readers of this pass share one new mask

    def _before_reader(self, reader: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        assert self._stream is not None  # the norm has passed
        x, positions = args[0], reader.positions if isinstance(reader, Expert) else None
        if positions is not None and self._alone:
            dropped, mean = self._drop(self._stream[positions])  # an expert with its own mask reads few of the tokens
        else:
            if self._dropped is None:
                self._dropped = self._drop(self._stream)
            dropped, mean = self._dropped if positions is None else (rows[positions] for rows in self._dropped)
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


def gate_input(linear: nn.Module, basis: Tensor, norms: Tensor, sparsity: float) -> Any:
    """Gate a linear layer's input in a basis B ([n, n] or heads), by the norms [n] of the columns of W B; return the
    hook."""

    def gate(_: nn.Module, args: tuple[Any, ...]) -> tuple[Tensor]:
        x = args[0]
        return (x - dropped_by_norms(x.float(), basis, norms, sparsity).to(x.dtype),)

    return linear.register_forward_pre_hook(gate)


def gate_plainly(linears: Iterable[nn.Module], norms: Tensor, sparsity: float) -> list[Any]:
    """Gate an input in its own coordinates, by the norms of the weights' columns; return the hooks."""

    def gate(_: nn.Module, args: tuple[Any, ...]) -> tuple[Tensor]:
        x = args[0]
        return (x * top_k_mask(scores(x, norms), kept_inputs(x.shape[-1], sparsity)),)

    return [linear.register_forward_pre_hook(gate) for linear in linears]


def plain_inputs(layer: LayerView, turned: Collection[str]) -> Iterator[tuple[set[nn.Linear], Tensor]]:
    """Yield the linear layers that share an input without a basis, with the norms of the weights' columns together;
    `turned` are the projections whose inputs have one."""
    for block, names in product(layer.parts, BLOCKS):
        plain = [block.projections[name] for name in names if name in block.projections and name not in turned]
        if plain:
            weights = torch.cat([projection.weight for projection in plain])
            yield {projection.linear for projection in plain}, column_norms(weights)
