"""Joint allocation: bits and a target sparsity for every cell, within budgets of bits read and held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wina_core.compute.allocation.cells import Cells
from wina_core.compute.allocation.curves import between
from wina_core.compute.allocation.gated import Subject, cells_of, check_joint
from wina_core.compute.allocation.journal import Journal
from wina_core.compute.allocation.measured_options import LEVELS, Measured, Measurement, Variants
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import Reporter
from wina_core.errors import WinaError
from wina_core.records import JointRecord
from wina_core.specs import BitsPlan, JointSpec, MethodSpec, QuantizationSpec
from wina_core.specs.plan_pair import PlanPair
from wina_core.specs.plans import Cell


def allocate_jointly(
    loaded: LoadedModel,
    variants: Variants,
    method: MethodSpec,
    spec: JointSpec,
    key: str,
    curves: Path | None,
    reporter: Reporter,
) -> JointRecord:
    """Choose a width and a target sparsity for each cell of a model that is not quantized.

    `variants` are its layers quantized to each width. Top-k selection is measured, whichever is used later. The
    measurements stay in the file `curves`, whose name identifies all that they depend on, for other budgets. The
    method "dense" chooses bits alone.

    Raises WinaError for budgets out of reach, a method that needs a calibration, and an unreadable text; Cancelled
    between two forward passes.
    """
    if method.needs_calibration:
        raise WinaError(
            f"A joint allocation measures many gates, and {method.label} needs a calibration for each; choose WINA or "
            "TEAL with top-k selection."
        )
    check_joint(loaded.view)
    subject = Subject(loaded, method)
    dense = method.name == "dense"
    layout = loaded.view.layout
    cells = Cells.of(layout, layout.projections, subject.fused) if dense else cells_of(layout, method, subject.fused)
    if len({column for block in cells.blocks for column in block.columns}) < len(layout.projections):
        raise WinaError(f"{method.label} does not gate every matrix; choose a method that does, such as WINA.")
    levels = (0.0,) if dense else LEVELS
    tokens = read_tokens(spec.text, loaded.tokenizer)
    journal = Journal(curves, reporter)
    measurement = Measurement(subject, cells, variants, levels, reporter)
    measured = measurement.measure(
        tokens, journal, lambda part: reporter.progress(part, 1, "measurement", "one matrix at a time")
    )
    sparsities, options = _options(measured, levels, spec.step, sum(map(sum, layout.parameters)))
    budgets = {"read": spec.bits_read, "held": spec.bits_held}
    found = choose(options, {name: budget for name, budget in budgets.items() if budget is not None})
    picked = [divmod(place, len(sparsities)) for place in found.options]
    widths = [list(variants)[width] for width, _ in picked]
    targets = [float(sparsities[level]) for _, level in picked]
    bits: dict[Cell, float] = {
        (block.layer, column): width
        for block, width in zip(cells.blocks, widths, strict=True)
        for column in block.columns
    }
    plan = BitsPlan.uniform(layout, widths[0]).with_cells(bits, provenance=spec.label)
    spent = [
        sum(float(option.spent[name][place]) for option, place in zip(options, found.options, strict=True))
        for name in ("read", "held")
    ]
    return JointRecord(
        key=key,
        pair=PlanPair(
            plan=cells.plan(targets, spec.label),
            quantization=QuantizationSpec.model_validate({**dict(spec.quantization), "bits": plan}),
        ),
        value=found.cost,
        bound=found.bound,
        kl=measurement.whole(tokens, widths, targets),
        bits_read=spent[0],
        bits_held=spent[1],
        evaluations=round(measured.passes),
        seconds=journal.seconds,
    )


def _options(
    measured: Measured, levels: tuple[float, ...], step: float, weights: int
) -> tuple[np.ndarray, list[Options]]:
    """Return the sparsities to choose from and each block's options, [widths x sparsities], with bits per weight."""
    curves = [[between(levels, row, step) if len(levels) > 1 else None for row in rows] for rows in measured.divergence]
    grid = np.array(levels) if curves[0][0] is None else curves[0][0].sparsity
    options = []
    for place, rows in enumerate(measured.divergence):
        costs = [row if curve is None else curve.cost for row, curve in zip(rows, curves[place], strict=True)]
        read = [np.interp(grid, levels, row) for row in measured.read[place]]
        held = np.repeat(measured.held[place], len(grid))
        spent = {"read": np.concatenate(read) / weights, "held": held / weights}
        options.append(Options(np.concatenate(costs), spent))
    return grid, options


# The choice of one option for each block with the least total cost within budgets, with its bound.

Array = NDArray[np.float64]
GAP = 1e-3
"""Largest relative distance of a choice's cost from the bound."""
_SECONDS = 120.0


@dataclass(frozen=True)
class Options:
    """The options of a block."""

    costs: Array
    """[options], not negative."""
    spent: Mapping[str, Array]
    """What each option takes of each budget, by its name, [options]."""


@dataclass(frozen=True)
class Choice:
    """One option for each block."""

    options: tuple[int, ...]
    cost: float
    bound: float
    """Lower bound of all choices within the budgets."""


def choose(blocks: Sequence[Options], budgets: Mapping[str, float]) -> Choice:
    """Return the choice of least cost with sum spent <= budget for each named budget, within GAP of the bound.

    Solved as a multiple-choice knapsack problem by HiGHS. Raises WinaError for a budget below the least that the
    options can take.
    """
    for name, budget in budgets.items():
        least = sum(float(block.spent[name].min()) for block in blocks)
        if budget < least - 1e-9:
            raise WinaError(
                f"The budget of {budget:g} bits {name} is below what the choices allow, {least:.3g}; raise it or "
                "allow fewer bits."
            )
    from scipy.optimize import Bounds, LinearConstraint, milp  # half a second, which most processes do without
    from scipy.sparse import csr_array

    counts = [len(block.costs) for block in blocks]
    costs = np.concatenate([block.costs for block in blocks])
    owner = np.repeat(np.arange(len(blocks)), counts)
    one_each = csr_array((np.ones(len(costs)), (owner, np.arange(len(costs)))))
    constraints = [LinearConstraint(one_each, 1, 1)]
    for name, budget in budgets.items():
        spent = np.concatenate([block.spent[name] for block in blocks])
        constraints.append(LinearConstraint(spent[None], -np.inf, budget))
    scale = float(costs.max()) or 1.0  # tiny divergences would be lost in the solver's tolerances
    found = milp(
        costs / scale,
        integrality=np.ones(len(costs)),
        bounds=Bounds(0, 1),
        constraints=constraints,
        options={"mip_rel_gap": GAP, "time_limit": _SECONDS},
    )
    if found.x is None:
        raise WinaError("No choice of bits and sparsities meets both budgets at once; raise one of them.")
    chosen = np.split(found.x, np.cumsum(counts)[:-1])
    places = tuple(int(np.argmax(own)) for own in chosen)
    cost = sum(float(block.costs[place]) for block, place in zip(blocks, places, strict=True))
    return Choice(places, cost, min(cost, float(found.mip_dual_bound) * scale))
