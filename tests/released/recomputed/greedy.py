"""The released greedy searches of WINA and TEAL."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from tests.released.recomputed.decoder import (
    BLOCKS,
    Cell,
    Layer,
    Shape,
    Weights,
    decoder_layer,
    dense_inputs,
    layer_inputs,
)
from tests.released.recomputed.gates import Gate, Wina
from tests.released.recomputed.selections import score_threshold, teal_histogram_threshold, teal_prefix, wina_prefix

Row = dict[str, float]
"""Sparsity of each block of a layer."""


def weighted_mean(row: Row, sizes: Mapping[str, float]) -> float:
    """Return the mean sparsity of a row, weighted by the sizes of its blocks."""
    return sum(value * sizes[name] for name, value in row.items()) / sum(sizes.values())


def visited_rows(error: Callable[[Row], float], sizes: Mapping[str, float], step: float, stop: float) -> list[Row]:
    """Return the rows that the released greedy search accepts, in order.

    Source: FasterDecoding/TEAL teal/greedyopt.py and microsoft/wina wina/greedyopt.py `process_layer`. From zero, each
    step adds step / size to the block with the lowest error; the first one wins among equals. A block at 1 or above is
    left alone, but a step may overshoot 1. The search ends when the weighted mean reaches `stop`.
    """
    row, rows = dict.fromkeys(sizes, 0.0), []
    while weighted_mean(row, sizes) < stop:
        trials = [row | {name: row[name] + step * (1 / sizes[name])} for name in sizes if row[name] < 1]
        row = min(trials, key=error)
        rows.append(row)
    return rows


def closest_row(rows: Sequence[Row], sizes: Mapping[str, float], budget: float) -> Row:
    """Return the visited row whose weighted mean is closest to the budget.

    Source: `get_layer_greedy_sparsities` in utils/utils.py of both repositories. The row of zeros is not among them.
    """
    return min(rows, key=lambda row: abs(weighted_mean(row, sizes) - budget))


def output_error(dense: Tensor, gated: Tensor) -> float:
    """Return the error of a layer's output [rows, tokens, d] over the last quarter of each sequence.

    The l2 norm runs over tokens, for each row and channel; the result is their mean.
    """
    first = int(gated.shape[1] * (1 - 0.25))
    return float((dense - gated)[:, first:].norm(dim=1).mean())


def true_sizes(layer: Layer, fused: bool) -> dict[str, float]:
    """Return the number of weights of each block relative to q; fused models have the blocks qkv, o, gate_up, down."""
    count = {
        name: matrix.weight.numel() / layer.matrices["q"].weight.numel() for name, matrix in layer.matrices.items()
    }
    if not fused:
        return count
    return {block: sum(count[name] for name in names) for block, names in BLOCKS.items()}


def teal_sizes(layer: Layer, keys: float = 1 / 8) -> dict[str, float]:
    """Return TEAL's table: true sizes relative to q, but `keys` for k and v (1/8; 1/4 for Llama-3-8B)."""
    return true_sizes(layer, fused=False) | {"k": keys, "v": keys}


@dataclass(frozen=True)
class Search:
    """A released greedy search: its sizes, its step, where it stops, its dense prefix, its scores and thresholds."""

    sizes: Callable[[Layer], Mapping[str, float]]
    step: float
    stop: float
    prefix: Callable[[int], int]
    gate: type[Gate]
    threshold: Callable[[Tensor, float], float]
    """(signed scores of a matrix in the dense model, sparsity) -> what |score| must exceed."""


def wina_search(weights: Weights, step: float = 0.025) -> Search:
    """Return the search of microsoft/wina wina/greedyopt.py, with its default of 0.66 for where it stops."""
    return Search(lambda layer: true_sizes(layer, weights.fused), step, 0.66, wina_prefix, Wina, score_threshold)


def teal_search(step: float = 0.05, keys: float = 1 / 8) -> Search:
    """Return the search of FasterDecoding/TEAL teal/greedyopt.py, with its default of 0.9 for where it stops."""
    return Search(lambda layer: teal_sizes(layer, keys), step, 0.9, teal_prefix, Gate, teal_histogram_threshold)


ThresholdSource = Callable[[int, str, float], float]
"""(layer, projection, sparsity) -> threshold."""


def exact_thresholds(weights: Weights, shape: Shape, ids: Tensor, search: Search) -> ThresholdSource:
    """Return the thresholds of a released search: exact quantiles of the dense model's scores on a text."""
    inputs, scorer = dense_inputs(weights, shape, ids), search.gate(weights, {}, released=True)

    def threshold(layer: int, name: str, sparsity: float) -> float:
        x = inputs[layer, name]
        return search.threshold(scorer.score(layer, name, x) * x.sign(), sparsity)

    return threshold


def greedy_rows(
    weights: Weights, shape: Shape, ids: Tensor, search: Search, threshold: ThresholdSource | None = None
) -> list[list[Row]]:
    """Return the rows that a released greedy search visits, for every layer.

    Layers are searched one by one on the dense model's residual stream. The text `ids`, int64 [rows, tokens], gives
    thresholds and errors; `threshold` replaces the exact quantiles of the dense model's activations.
    """
    streams, found = layer_inputs(weights, shape, ids), []
    threshold = threshold or exact_thresholds(weights, shape, ids, search)
    for index, layer in enumerate(weights.layers):
        sizes = dict(search.sizes(layer))
        dense = decoder_layer(layer, index, shape, streams[index])
        thresholds: dict[tuple[str, float], float] = {}

        def error(row: Row, index: int = index, layer: Layer = layer, dense: Tensor = dense, known: Any = thresholds):
            targets = spread_blocks(row, index)
            for (_, name), sparsity in targets.items():
                if (name, sparsity) not in known:
                    known[name, sparsity] = threshold(index, name, sparsity)
            thresholds = {(at, name): known[name, value] for (at, name), value in targets.items()}
            gate = search.gate(weights, targets, thresholds, released=True, prefix=search.prefix)
            return output_error(dense, decoder_layer(layer, index, shape, streams[index], gate))

        found.append(visited_rows(error, sizes, search.step, search.stop))
    return found


def spread_blocks(row: Row, layer: int) -> dict[Cell, float]:
    """Return the targets of a layer's cells from the sparsities of its blocks."""
    return {(layer, name): value for block, value in row.items() for name in BLOCKS.get(block, (block,))}


def greedy_plan(weights: Weights, rows: Sequence[Sequence[Row]], search: Search, budget: float) -> dict[Cell, float]:
    """Return the target of every cell: in each layer the visited row closest to the budget."""
    plan: dict[Cell, float] = {}
    for index, layer in enumerate(weights.layers):
        plan |= spread_blocks(closest_row(rows[index], dict(search.sizes(layer)), budget), index)
    return plan
