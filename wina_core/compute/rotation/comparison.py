"""Comparison of rotations by the KL divergence of the gated model, before any weight is rotated, and measures of a
rotation's effect on Gram matrices and column norms.

All candidates pass the same weights, layer by layer, beside the dense model, each with gates in its own bases.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor
from wina_kernels.dense import multiply_in_float32

from wina_core.compute import pausable_clock
from wina_core.compute.hooks import hooked
from wina_core.compute.models.finite import check_numbers
from wina_core.compute.models.folded_norms import kept_column_norms
from wina_core.compute.models.logits import divergences, scored_log_probabilities
from wina_core.compute.models.passage import Passage, in_batches
from wina_core.compute.models.view import LayerView, ModelView, Projection
from wina_core.compute.reporter import Reporter
from wina_core.compute.rotation.apply import LayerBases, has_bfloat16_products
from wina_core.compute.rotation.refine import (
    StreamGate,
    carried_bias,
    gate_input,
    gate_plainly,
    plain_inputs,
    stream_readers,
    turned_norms,
)
from wina_core.compute.rotation.statistics import preserve_mean_of_layers, weight_gram
from wina_core.errors import WinaError
from wina_core.records import LayerRecord, RotationCandidate
from wina_core.records.intervals import FEWEST_ROWS, mean_stderr
from wina_core.specs import RotationSpec


@dataclass(frozen=True)
class ComparedRotation:
    """A rotation and its bases of each layer, in order."""

    rotation: RotationSpec
    bases: Iterable[LayerBases]


@torch.no_grad()
def compare_rotations(
    view: ModelView,
    candidates: Sequence[ComparedRotation],
    tokens: Tensor,
    sparsity: float,
    reporter: Reporter,
    sampled: Tensor | None = None,
) -> tuple[RotationCandidate, ...]:
    """Return the KL divergence of WINA's gates in each candidate's bases from the dense model.

    It is measured on `tokens` [rows, sequence], and on rows as long that were `sampled` from the model. The other
    candidates are compared with the first. Every input is gated at the same sparsity by its top scores. Its readers
    share a mask; each expert has a mask of its own. Inputs without a basis, such as down's, are gated as they are.
    Raises ValueError below `FEWEST_ROWS` of either text, and WinaError for logits that are not numbers.
    """
    fewest = min(len(text) for text in (tokens, sampled) if text is not None)
    if fewest < FEWEST_ROWS:
        raise ValueError(f"{fewest} rows of text are too few for an error; {FEWEST_ROWS} are needed")
    sampled_count = 0 if sampled is None else len(sampled)
    tokens = tokens if sampled is None else torch.cat((tokens, sampled))
    lanes = [_BasisLane(view, candidate.bases, sparsity) for candidate in candidates]
    passage = Passage(view, in_batches(tokens), [None, *lanes])
    reporter.stage("comparison of rotations")
    for layer in passage.layers(reporter):
        reporter.progress(layer.index + 1, len(view.layers), "layers")
    lane_divergences: list[list[float]] = [[] for _ in lanes]
    for done, row in enumerate(tokens.split(1), start=1):
        with passage.arriving(0):
            dense = scored_log_probabilities(view, row)
        check_numbers(dense)
        # Lane 0 is the dense model.
        for lane_index, (lane, values) in enumerate(zip(lanes, lane_divergences, strict=True), start=1):
            with lane.timed(), passage.arriving(lane_index):
                value = float(divergences(dense, scored_log_probabilities(view, row)).double().mean())
            if not math.isfinite(value):
                raise WinaError("The gated model's logits are not numbers; choose less sparsity or another dtype.")
            values.append(value)
            reporter.check()
        reporter.progress(done, len(tokens), "rows")
    return tuple(
        _candidate(candidate.rotation, values, lane_divergences[0], len(tokens) - sampled_count, lane.seconds)
        for candidate, lane, values in zip(candidates, lanes, lane_divergences, strict=True)
    )


def best_candidate(candidates: Sequence[RotationCandidate]) -> int:
    """Return the index of the best candidate; the first is no rotation.

    Others count if they are better than it on the text by more than the standard error of the difference, and do no
    harm on either text: the sampled one reveals bases that fit only the given one. The best is the first that is not
    worse, by more than that error, than the one with the lowest mean.
    """
    better = [index for index, candidate in enumerate(candidates) if candidate.helps and not candidate.harms]
    if not better:
        return 0
    lowest = candidates[min(better, key=lambda index: candidates[index].kl)]
    changes = {index: _change(candidates[index].rows, lowest.rows) for index in better}
    return next(index for index, (mean, stderr) in changes.items() if mean <= stderr)


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
    return _mean([value - other for value, other in zip(values, without, strict=True)])


def _mean(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean of rows, `FEWEST_ROWS` or more, and its standard error."""
    rows = np.asarray(values)
    stderr = mean_stderr(rows)
    assert stderr is not None  # there are enough rows
    return float(rows.mean()), stderr


class _BasisLane:
    """Gates of all inputs in the bases of a rotation, which pass the layers once (`Lane`)."""

    def __init__(self, view: ModelView, bases: Iterable[LayerBases], sparsity: float) -> None:
        self._view, self._sparsity = view, sparsity
        self._bases = enumerate(preserve_mean_of_layers(iter(bases)) if view.centred else bases)
        self.seconds = 0.0

    def begin(self, tokens: Tensor) -> None:
        """Do nothing: gates depend on no batch."""

    @contextmanager
    def at(self, layer: LayerView) -> Iterator[None]:
        index, bases = next(self._bases)
        assert index == layer.index  # a lane passes all layers in order
        with self.timed(), hooked(list(self._hooks(layer, bases))):
            yield

    @contextmanager
    def timed(self) -> Iterator[None]:
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
                carried = carried_bias(layer, names, norm)
                for block in layer.parts:  # each expert has a mask of its own, and the router reads all inputs
                    if readers := stream_readers(block, names):
                        gram = weight_gram(block, names, norm)
                        norms = turned_norms(gram, basis, carried)
                        gate = StreamGate(norm, basis.float(), norms.float(), self._sparsity, carried)
                        yield from gate.hooks(readers)
                turned.update(names)
        if bases.heads is not None:
            o = layer.projections["o"]
            weight = o.weight.double()
            norms = turned_norms(weight.T @ weight, bases.heads)
            yield gate_input(o.linear, bases.heads.float(), norms.float(), self._sparsity)
            turned.add("o")
        for linears, norms in plain_inputs(layer, turned):
            yield from gate_plainly(linears, norms, self._sparsity)


_BLOCK = 1024


@torch.no_grad()
def off_diagonal_energies(view: ModelView) -> tuple[LayerRecord, ...]:
    """Return `off_diagonal_energy` of every projection, as records; of experts their mean."""

    def energy(projection: Projection) -> float:
        return off_diagonal_energy(projection.weight, exact=projection.shape[1] <= view.hidden_size)

    return _records(view, "off_diagonal_energy", energy)


def layer_energies(view: ModelView, reporter: Reporter) -> tuple[LayerRecord, ...]:
    """Return `off_diagonal_energies`, measured a layer at a time, between which the job can be cancelled."""
    records: list[LayerRecord] = []
    reporter.stage("orthogonality of columns")
    for layer in view.layers:
        reporter.check()
        records += off_diagonal_energies(replace(view, layers=(layer,)))
        view.give_back(layer.module)
        reporter.progress(layer.index + 1, len(view.layers), "layers")
    return tuple(records)


@torch.no_grad()
def norm_spreads(view: ModelView) -> tuple[LayerRecord, ...]:
    """Return std / mean of the column norms ||W[:, i]||_2 of every projection, as records; 0 where all are equal, and
    of experts their mean."""

    def spread(projection: Projection) -> float:
        norms = kept_column_norms(projection)
        return float(norms.std(correction=0) / norms.mean().clamp(min=torch.finfo(norms.dtype).tiny))

    return _records(view, "norm_spread", spread)


def _records(view: ModelView, metric: str, measure: Callable[[Projection], float]) -> tuple[LayerRecord, ...]:
    return tuple(
        LayerRecord(
            layer=layer.index, projection=name, metric=metric, value=fmean(map(measure, layer.matrices((name,))))
        )
        for layer in view.layers
        for name in layer.names
    )


def off_diagonal_energy(weight: Tensor, exact: bool = True) -> float:
    """Return ||offdiag(W^T W)||_F^2 / ||W^T W||_F^2 of W [m, n], in float64 for float64 weights, else float32.

    With `exact`, products of columns are summed one by one in m n^2 / 2 operations. Without, ||W^T W|| = ||W W^T|| is
    used in n m^2 operations: good to the rounding of 1, for wide matrices (down).
    """
    w = weight if weight.dtype == torch.float64 or has_bfloat16_products(weight) else weight.float()
    multiply = multiply_in_float32 if has_bfloat16_products(weight) else torch.matmul
    digits = torch.promote_types(w.dtype, torch.float32)
    squares = torch.stack([columns.to(digits).pow(2).sum(0).pow(2).sum() for columns in w.split(_BLOCK, dim=1)]).sum()
    if not exact:
        total = multiply(w, w.T.contiguous()).pow(2).sum()
        return float(((total - squares) / total).clamp(min=0.0)) if total > 0 else 0.0
    off_diagonal = torch.zeros((), dtype=torch.float64, device=w.device)
    for start in range(0, w.shape[1], _BLOCK):
        # Blocks left of the diagonal mirror those right of it, which count twice.
        products = multiply(w[:, start : start + _BLOCK].T, w[:, start:])
        # Set to 0 instead of subtracted: the difference of two large sums would lose a small rest.
        products.diagonal().zero_()
        off_diagonal += products[:, :_BLOCK].pow(2).sum() + 2 * products[:, _BLOCK:].pow(2).sum()
    total = off_diagonal + squares
    return float(off_diagonal / total) if total > 0 else 0.0
