"""Joint allocation: bits and a target sparsity for every cell, within budgets of bits read and held."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from wina_core.compute.allocation.cells import Cells
from wina_core.compute.allocation.curves import between
from wina_core.compute.allocation.gated import Subject, cells_of, check_joint
from wina_core.compute.allocation.journal import Journal
from wina_core.compute.allocation.knapsack import Options, choose
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
