"""Comparison of rotations by the KL divergence of the gated model, before any weight is rotated.

An input x = B B^T x of an unrotated model is gated in the basis B by dropping B ((1 - m) * B^T x), which is what the
model rotated by B computes. So all candidates pass the same weights, layer by layer, beside the dense model.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from wina_core.compute import pausable_clock
from wina_core.compute.hooks import hooked
from wina_core.compute.models.finite import check_numbers
from wina_core.compute.models.logits import divergences, log_probabilities
from wina_core.compute.models.norms import centres, norm_gain, normalized
from wina_core.compute.models.passage import Passage, in_batches
from wina_core.compute.models.view import LayerView, ModelView
from wina_core.compute.reporter import Reporter
from wina_core.compute.rotation.apply import LayerBases
from wina_core.compute.rotation.centring import mean_kept
from wina_core.compute.rotation.divergence import PlainGate, plain_inputs
from wina_core.compute.rotation.refine import dropped_by_norms
from wina_core.compute.rotation.statistics import weight_gram
from wina_core.compute.rotation.turns import turned_diagonal
from wina_core.errors import WinaError
from wina_core.records import RotationCandidate
from wina_core.specs import RotationSpec
from wina_core.statistics.means import FEWEST_ROWS


@dataclass(frozen=True)
class Candidate:
    """A rotation and its bases of each layer, in order."""

    rotation: RotationSpec
    bases: Iterable[LayerBases]


@torch.no_grad()
def compare_rotations(
    view: ModelView,
    candidates: Sequence[Candidate],
    tokens: Tensor,
    sparsity: float,
    reporter: Reporter,
    own: Tensor | None = None,
) -> tuple[RotationCandidate, ...]:
    """Return the KL divergence of WINA's gates in each candidate's bases from the dense model, on `tokens` [rows,
    sequence], and on the model's `own` text of rows as long; the first candidate is what the others are compared with.

    Every input is gated at the same sparsity by its top scores, with masks that its readers share. Inputs without a
    basis, such as down's, are gated as they are. Raises ValueError below `FEWEST_ROWS`, and WinaError for logits that
    are not numbers.
    """
    if len(tokens) < FEWEST_ROWS:
        raise ValueError(f"{len(tokens)} rows of text are too few for an error; {FEWEST_ROWS} are needed")
    own_rows = 0 if own is None else len(own)
    tokens = tokens if own is None else torch.cat((tokens, own))
    lanes = [_BasisLane(view, candidate.bases, sparsity) for candidate in candidates]
    passage = Passage(view, in_batches(tokens), [None, *lanes])
    for layer in passage.layers(reporter):
        reporter.progress(layer.index + 1, len(view.layers), "layers", "comparing rotations")
    found: list[list[float]] = [[] for _ in lanes]
    for done, row in enumerate(tokens.split(1), start=1):
        dense = _log_probabilities(view, passage, row, 0)
        check_numbers(dense)
        for place, (lane, values) in enumerate(zip(lanes, found, strict=True), start=1):
            with lane.timed():
                value = float(divergences(dense, _log_probabilities(view, passage, row, place)).double().mean())
            if not math.isfinite(value):
                raise WinaError("The gated model's logits are not numbers; choose less sparsity or another dtype.")
            values.append(value)
            reporter.check()
        reporter.progress(done, len(tokens), "rows", "comparing rotations")
    return tuple(
        _candidate(candidate.rotation, values, found[0], len(tokens) - own_rows, lane.seconds)
        for candidate, lane, values in zip(candidates, lanes, found, strict=True)
    )


def best_candidate(candidates: Sequence[RotationCandidate]) -> int:
    """Return the place of the best candidate: of those that do no harm on either text, the first that is not worse than
    the lowest by more than the standard error of the difference.

    The sampled text reveals bases that fit only the given one.
    """
    harmless = [place for place, each in enumerate(candidates) if not each.harms]  # the first is no rotation
    lowest = min(harmless, key=lambda place: candidates[place].kl)
    for place in harmless:
        mean, stderr = _change(candidates[place].rows, candidates[lowest].rows)
        if mean <= stderr:
            return place
    return lowest


def _candidate(
    rotation: RotationSpec, values: Sequence[float], without: Sequence[float], read: int, seconds: float
) -> RotationCandidate:
    """Return the candidate whose first `read` rows are of the text and the rest sampled."""
    kl, stderr = _mean(values[:read])
    change, change_stderr = _change(values[:read], without[:read])
    own_change, own_change_stderr = _change(values[read:], without[read:]) if values[read:] else (0.0, 0.0)
    return RotationCandidate(
        rotation=rotation,
        kl=kl,
        stderr=stderr,
        change=change,
        change_stderr=change_stderr,
        seconds=seconds,
        rows=tuple(values[:read]),
        own_rows=tuple(values[read:]),
        own_change=own_change,
        own_change_stderr=own_change_stderr,
    )


def _change(values: Sequence[float], without: Sequence[float]) -> tuple[float, float]:
    """Return the mean difference of rows and its standard error."""
    return _mean([value - other for value, other in zip(values, without, strict=True)])


def _mean(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and its standard error."""
    mean = math.fsum(values) / len(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return mean, math.sqrt(variance / len(values))


def _log_probabilities(view: ModelView, passage: Passage, row: Tensor, lane: int) -> Tensor:
    model: Any = view.model
    with passage.arriving(lane):
        logits = model(row.to(view.embedding.weight.device), use_cache=False).logits
    return log_probabilities(logits[:, view.first_scored :])


class _BasisLane:
    """Gates of all inputs in the bases of a rotation, which pass the layers once (`Lane`)."""

    def __init__(self, view: ModelView, bases: Iterable[LayerBases], sparsity: float) -> None:
        self._view, self._sparsity = view, sparsity
        self._bases = enumerate(mean_kept(iter(bases)) if view.centred else bases)
        self.seconds = 0.0

    def begin(self, tokens: Tensor) -> None:
        """Do nothing: gates depend on no batch."""

    @contextmanager
    def at(self, layer: LayerView) -> Iterator[None]:
        """Gate the layer within the block."""
        index, bases = next(self._bases)
        assert index == layer.index  # a lane passes all layers in order
        with self.timed(), hooked(list(self._hooks(layer, bases))):
            yield

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Add the time of the block to the lane's."""
        start = pausable_clock.now()
        try:
            yield
        finally:
            self.seconds += pausable_clock.now() - start

    def _hooks(self, layer: LayerView, bases: LayerBases) -> Iterator[Any]:
        turned: set[str] = set()
        if bases.attention is not None and bases.mlp is not None:
            for names, norm, basis in (
                (("q", "k", "v"), layer.attention_norm, bases.attention),
                (("gate", "up"), layer.mlp_norm, bases.mlp),
            ):
                read = [name for name in names if name in layer.names]
                norms = turned_diagonal(weight_gram(layer, read, norm), basis).clamp(min=0).sqrt()
                gate = _StreamGate(norm, basis, norms, self._sparsity)
                if layer.mlp_norm is layer.attention_norm:  # attention and MLP have masks of their own
                    linears = {layer.projections[name].linear for name in read}
                    yield from gate.before_readers(norm, linears)
                else:
                    yield norm.register_forward_hook(gate.after_norm)
                turned.update(read)
        if bases.heads is not None:
            o = layer.projections["o"]
            weight = o.weight.double()
            norms = turned_diagonal(weight.T @ weight, bases.heads).clamp(min=0).sqrt()
            yield o.linear.register_forward_pre_hook(_InputGate(bases.heads, norms, self._sparsity))
            turned.add("o")
        for linears, norms in plain_inputs(layer, turned):
            plain = PlainGate(norms, self._sparsity)
            for linear in linears:
                yield linear.register_forward_pre_hook(plain)


class _StreamGate:
    """Gate on a norm's output, in a basis of the stream."""

    def __init__(self, norm: nn.Module, basis: Tensor, norms: Tensor, sparsity: float) -> None:
        self._basis, self._norms, self._sparsity = basis.float(), norms.float(), sparsity
        self._gain = norm_gain(norm).to(self._basis)
        self._dropped: Tensor | None = None

    def after_norm(self, norm: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        """Gate the output of the norm (a forward hook)."""
        return output - self._drop(norm, args).to(output.dtype)

    def before_readers(self, norm: nn.Module, linears: Iterable[nn.Linear]) -> Iterator[Any]:
        """Gate the inputs of some readers of the norm alone; yield the hooks."""

        def remember(norm: nn.Module, args: tuple[Any, ...], _: Tensor) -> None:
            self._dropped = self._drop(norm, args)

        def gate(_: nn.Module, args: tuple[Any, ...]) -> tuple[Tensor]:
            assert self._dropped is not None  # the norm has passed
            return (args[0] - self._dropped.to(args[0].dtype),)

        yield norm.register_forward_hook(remember)
        for linear in linears:
            yield linear.register_forward_pre_hook(gate)

    def _drop(self, norm: nn.Module, args: tuple[Any, ...]) -> Tensor:
        """Return the part of the norm's output that the gate drops."""
        x = normalized(norm, args[0].float())
        dropped = dropped_by_norms(x, self._basis, self._norms, self._sparsity)
        if centres(norm):  # rotated weights are centred, so that they do not see the mean of what is left
            dropped = dropped - dropped.mean(-1, keepdim=True)
        return dropped * self._gain


class _InputGate:
    """Gate on a linear layer's input, in a basis of the heads."""

    def __init__(self, basis: Tensor, norms: Tensor, sparsity: float) -> None:
        self._basis, self._norms, self._sparsity = basis.float(), norms.float(), sparsity

    def __call__(self, _: nn.Module, args: tuple[Any, ...]) -> tuple[Tensor]:
        x = args[0]
        return (x - dropped_by_norms(x.float(), self._basis, self._norms, self._sparsity).to(x.dtype),)
