"""The cost of a generated token under one method and plan, for each rotation and the dense model."""

from collections.abc import Iterable, Sequence
from functools import lru_cache, partial

import numpy as np

from wina_core.model_info.cost import terms
from wina_core.model_info.cost.matrices import Matrices, Table, held_weights, kept_inputs, masks, matrices, total
from wina_core.model_info.cost.terms import Cost, Storage, gated_bytes
from wina_core.model_info.cost.warning import sparsity_warning
from wina_core.model_info.folding import choice_under, folded_shape
from wina_core.records import CostRecord, CostRow, CostTerm, ModelShape
from wina_core.specs import (
    DENSE,
    ROTATION_MODES,
    FoldNorms,
    MethodSpec,
    Quantization,
    RotationMode,
    quantization_label,
)
from wina_core.specs.methods import get_method
from wina_core.specs.methods.base import Method
from wina_core.specs.plans import SparsityPlan, UniformSparsity, cell_rho, resolve_plan
from wina_core.specs.quantization import check_made

COUNTED = ("projections", "low rank", "head")
"""The terms that the paper counts (its "Computational Savings" at 65 %)."""


def costs(
    shape: ModelShape,
    method: MethodSpec,
    plan: UniformSparsity | SparsityPlan,
    *,
    context: int = 2048,
    quantization: Quantization = "none",
    rotations: Sequence[RotationMode] = ROTATION_MODES,
    fold_norms: FoldNorms | None = None,
) -> CostRecord:
    """Return the cost of one generated token, batch 1, at `context` >= 1 attended positions.

    The dense model comes first, then the gated one with each rotation. A rotation per head is absorbed by the weights
    and costs nothing. A model exported with residual shortcuts has those instead of `rotations`. `fold_norms` is the
    rotations' choice, None for what the model has.

    Raises WinaError for an unknown method, another model's plan, a sparsity that the method cannot reach, and a
    quantizer that is not installed.
    """
    check_made(quantization)
    if fold_norms is not None:
        shape = folded_shape(shape, choice_under(fold_norms, quantization))
    storage = Storage(shape.dtype, quantization)
    dense_parts = _dense_parts(shape, context, storage)
    gated_parts, read_weights, numbers = _gated_parts(shape, method, plan, storage)
    sparsity, held = 1 - read_weights / _all_weights(shape), _bytes_held(shape, context, storage)
    row = partial(_row, shape=shape, held=held, dense=dense_parts)
    bits_held = 8 * gated_bytes(shape, storage) / held_weights(shape)
    rows = [row("dense", dense_parts, sparsity=0.0, numbers=0, bits_held=bits_held)]
    for mode in rotations if shape.shortcuts == "none" else (shape.shortcuts,):
        cost_terms = dense_parts | gated_parts | {"shortcuts": terms.shortcuts(shape, mode, storage)}
        rows.append(row(mode, cost_terms, sparsity=sparsity, numbers=numbers, bits_held=bits_held))
    return CostRecord(
        shape=shape,
        method=method.label,
        target_sparsity=plan.budget,
        context=context,
        quantization=quantization_label(quantization),
        rows=tuple(rows),
    )


@lru_cache(maxsize=8)
def _dense_parts(shape: ModelShape, context: int, storage: Storage) -> dict[str, Cost]:
    # Cached: every plan of a model is compared with them.
    gated_parts, _, _ = _gated_parts(shape, DENSE, UniformSparsity(sparsity=0.0), storage)
    return {
        **gated_parts,
        "shortcuts": Cost(),
        "attention": terms.attention(shape, context, storage),
        "norms": terms.norms(shape, storage),
        "elementwise": terms.elementwise(shape, storage),
        "head": terms.head(shape, storage),
        "embedding": terms.embedding(shape, storage),
    }


def _gated_parts(
    shape: ModelShape, method: MethodSpec, plan: UniformSparsity | SparsityPlan, storage: Storage
) -> tuple[dict[str, Cost], float, int]:
    """Return the cost of the gated matrices, of their low-rank parts, and of making the masks; the weights read; and
    the norms, calibrated values and biases read beside the weights."""
    rule, sizes, names = get_method(method), matrices(shape), shape.layout.projections
    resolved = resolve_plan(plan, shape.layout, method)
    targets, dropped = resolved.targets, np.array(resolved.masks)
    outputs, inputs = sizes.outputs, kept_inputs(sizes.inputs, dropped, method, names)
    if rule.by_gate_activation:
        # Dropped outputs of the gate drop rows of up: it reads its whole input for fewer outputs.
        up = names.index("up")
        outputs = outputs.copy()
        copies = sizes.copies[:, up]
        outputs[:, up] = copies * kept_inputs(outputs[:, up] / copies, dropped[:, up], method, ("up",))
        inputs[:, up] = sizes.inputs[:, up]
    rank = _ranks(rule, sizes, targets)
    shares = None if targets.rho is None else np.array(targets.rho)
    made = masks(shape, dropped, method, shares)
    parts = {
        "projections": terms.projections(outputs, sizes, inputs, storage),
        "low rank": terms.low_rank(sizes, rank, storage),
        "gating": _sum(terms.gating(mask, storage).times(count) for mask, count in made.items()),
    }
    read_weights = total(outputs * inputs + rank * (sizes.outputs + sizes.copies * sizes.inputs))
    return parts, read_weights, sum(count * mask.numbers for mask, count in made.items())


def _ranks(rule: Method, sizes: Matrices, targets: SparsityPlan) -> Table:
    if rule.default_rho is None:
        return np.zeros_like(sizes.outputs)
    ranks = np.zeros_like(sizes.outputs)
    for layer, column in np.ndindex(ranks.shape):
        outputs = sizes.outputs[layer, column] / sizes.copies[layer, column]
        size = int(outputs), int(sizes.inputs[layer, column])
        target, rho = targets.sparsity[layer][column], cell_rho(targets, layer, column)
        ranks[layer, column] = rule.rank(targets.layout.projections[column], size, target, rho)
    return ranks


def _all_weights(shape: ModelShape) -> int:
    return sum(map(sum, shape.layout.parameters))


@lru_cache(maxsize=8)
def _bytes_held(shape: ModelShape, context: int, storage: Storage) -> float:
    cache = terms.attention(shape, context, storage).bytes
    return gated_bytes(shape, storage) + terms.further_held(shape, storage) + cache


def _row(
    rotation: str,
    cost_terms: dict[str, Cost],
    *,
    shape: ModelShape,
    sparsity: float,
    numbers: int,
    held: float,
    bits_held: float,
    dense: dict[str, Cost],
) -> CostRow:
    shortcut_weights = terms.shortcut_count(rotation, shape.layout.layers) * shape.hidden_size**2
    # Shortcuts, norms, calibrated values and biases are read instead of dropped weights and count as read.
    net_sparsity = sparsity - (shortcut_weights + numbers) / _all_weights(shape)
    gated, gated_dense = (_sum(costs[name] for name in COUNTED) for costs in (cost_terms, dense))
    gated_read = _sum(cost_terms[name] for name in ("projections", "low rank"))
    net, net_dense = (_sum(costs.values()) for costs in (cost_terms, dense))
    return CostRow(
        rotation=rotation,
        gated_sparsity=sparsity,
        net_sparsity=net_sparsity,
        gated_flops=gated.flops,
        gated_flops_saving=1 - gated.flops / gated_dense.flops,
        gated_bytes=gated.bytes,
        gated_bytes_saving=1 - gated.bytes / gated_dense.bytes,
        net_flops=net.flops,
        net_flops_saving=1 - net.flops / net_dense.flops,
        net_bytes=net.bytes,
        net_bytes_saving=1 - net.bytes / net_dense.bytes,
        bits_read=8 * gated_read.bytes / _all_weights(shape),
        bits_held=bits_held,
        bytes_held=held + cost_terms["shortcuts"].bytes + terms.NORM_BYTES * numbers,
        gated_weights=float(_all_weights(shape)),
        shortcut_weights=shortcut_weights,
        terms=tuple(CostTerm(name=name, flops=cost.flops, bytes=cost.bytes) for name, cost in cost_terms.items()),
        warning=sparsity_warning(sparsity, net_sparsity),
    )


def _sum(summands: Iterable[Cost]) -> Cost:
    costs = list(summands)
    return Cost(sum(cost.flops for cost in costs), sum(cost.bytes for cost in costs))
