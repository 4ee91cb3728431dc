"""Joint allocation: bits and a target sparsity for every cell, within budgets of bits read and held.

Each width and sparsity of a block is measured alone: its divergence, bits read and bits held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from wina_core.compute.allocation.cells import AllocationSubject, Block, Cells, cells_of, check_joint
from wina_core.compute.allocation.divergence import Journal, batches_of, recording, replaying
from wina_core.compute.allocation.optimizers import between
from wina_core.compute.gating.linear import stored_bits
from wina_core.compute.models.finite import check_numbers
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import ScoredPositions, divergences, scored_log_probabilities
from wina_core.compute.models.quantized_linear import parents_of
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import Reporter
from wina_core.errors import WinaError
from wina_core.records import JointRecord
from wina_core.specs import BitsPlan, JointSpec, MethodSpec, QuantizationSpec
from wina_core.specs.plans import Cell
from wina_core.specs.quantization import PlanPair


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

    `variants` are its layers quantized to each width. Gates select by top k in all measurements. The
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
    subject = AllocationSubject(loaded, method)
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
        tokens, journal, lambda fraction: reporter.progress(fraction, 1, "measurement", "one matrix at a time")
    )
    sparsities, options = _options(measured, levels, spec.step, sum(map(sum, layout.parameters)))
    budgets = {"read": spec.bits_read, "held": spec.bits_held}
    choice = choose(options, {name: budget for name, budget in budgets.items() if budget is not None})
    picked = [divmod(option, len(sparsities)) for option in choice.options]
    widths = [list(variants)[width] for width, _ in picked]
    targets = [float(sparsities[level]) for _, level in picked]
    bits: dict[Cell, float] = {
        (block.layer, column): width
        for block, width in zip(cells.blocks, widths, strict=True)
        for column in block.columns
    }
    plan = BitsPlan.uniform(layout, widths[0]).with_cells(bits, provenance=spec.label)
    spent = [
        sum(float(option.spent[name][chosen]) for option, chosen in zip(options, choice.options, strict=True))
        for name in ("read", "held")
    ]
    return JointRecord(
        key=key,
        pair=PlanPair(
            plan=cells.plan(targets, spec.label),
            quantization=QuantizationSpec.model_validate({**dict(spec.quantization), "bits": plan}),
        ),
        value=choice.cost,
        bound=choice.bound,
        kl=measurement.whole(tokens, widths, targets),
        bits_read=spent[0],
        bits_held=spent[1],
        evaluations=round(measured.passes),
        seconds=journal.seconds,
    )


def _options(
    measured: MeasuredOptions, levels: tuple[float, ...], step: float, weights: int
) -> tuple[np.ndarray, list[Options]]:
    """Return the sparsities to choose from and each block's options, [widths x sparsities], with bits per weight."""
    curves = [[between(levels, row, step) if len(levels) > 1 else None for row in rows] for rows in measured.divergence]
    grid = np.array(levels) if curves[0][0] is None else curves[0][0].sparsity
    options = []
    for block, rows in enumerate(measured.divergence):
        costs = [row if curve is None else curve.cost for row, curve in zip(rows, curves[block], strict=True)]
        read = [np.interp(grid, levels, row) for row in measured.read[block]]
        held = np.repeat(measured.held[block], len(grid))
        spent = {"read": np.concatenate(read) / weights, "held": held / weights}
        options.append(Options(np.concatenate(costs), spent))
    return grid, options


# ---- the choice of one option for each block with the least total cost within budgets, with its bound ----------------

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
    """Spending of each option from each budget, by the budget's name, [options]."""


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
    solution = milp(
        costs / scale,
        integrality=np.ones(len(costs)),
        bounds=Bounds(0, 1),
        constraints=constraints,
        options={"mip_rel_gap": GAP, "time_limit": _SECONDS},
    )
    if solution.x is None:
        raise WinaError("No choice of bits and sparsities meets both budgets at once; raise one of them.")
    chosen = np.split(solution.x, np.cumsum(counts)[:-1])
    options = tuple(int(np.argmax(indicators)) for indicators in chosen)
    cost = sum(float(block.costs[option]) for block, option in zip(blocks, options, strict=True))
    # The bound is subject to the solver's tolerances, and must not exceed the cost.
    return Choice(options, cost, min(cost, float(solution.mip_dual_bound) * scale))


LEVELS = (0.0, 0.15, 0.35, 0.55, 0.75)
"""Sparsities at which each width of a block is measured."""

Variants = Mapping[float, Mapping[tuple[int, str], nn.Linear]]
"""The quantized layer of each (decoder layer, projection), by its width."""


@dataclass(frozen=True)
class MeasuredOptions:
    """Measurements of all blocks, [blocks, widths, levels]; bits are sums over a block's weights."""

    divergence: np.ndarray
    """Nats per token."""
    read: np.ndarray
    """Bits read per token."""
    held: np.ndarray
    """Bits held, [blocks, widths]."""
    passes: float
    """Forward passes of the whole model over the whole text."""


class Measurement:
    """Passes of a model over a text, each with the weights and gates of one block exchanged."""

    def __init__(
        self, subject: AllocationSubject, cells: Cells, variants: Variants, levels: Sequence[float], reporter: Reporter
    ) -> None:
        self._subject, self._cells, self._variants = subject, cells, variants
        self._view = subject.loaded.view
        self._levels, self._reporter = levels, reporter
        self._parents = parents_of(subject.loaded.model)

    def measure(self, tokens: Tensor, journal: Journal, progress: Callable[[float], None]) -> MeasuredOptions:
        """Measure every width and level of every block alone; an interrupted measurement resumes by `journal`.

        Raises WinaError if logits are not numbers, Cancelled between two passes.
        """
        batches = batches_of(tokens)
        shape = len(self._cells.blocks), len(self._variants), len(self._levels)
        done, sums = journal.state.get("measured") or (0, np.zeros((2, *shape)).tolist())
        total = np.array(sums)
        for index in range(done, len(batches)):

            def report(fraction: float, index: int = index) -> None:
                progress((index + fraction) / len(batches))

            batch_means = self._batch(batches[index], report)
            total = total + batches[index].numel() * batch_means
            journal.save(measured=(index + 1, total.tolist()))
        divergence, read = total / tokens.numel()
        held = [
            [sum(stored_bits(linear).held for linear in self._linears(block, width)) for width in self._variants]
            for block in self._cells.blocks
        ]
        layers = self._cells.layout.layers
        work = sum(1 - block.layer / layers for block in self._cells.blocks)
        # Rounding can make the smallest divergences negative.
        return MeasuredOptions(np.maximum(divergence, 0.0), read, np.array(held), 1 + work * shape[1] * shape[2])

    @torch.no_grad()
    def whole(self, tokens: Tensor, widths: Sequence[float], targets: Sequence[float]) -> float:
        """Return the divergence, in nats per token, with a width and a target for every block."""
        chosen, total = list(zip(self._cells.blocks, widths, strict=True)), 0.0
        plan, layers = self._cells.plan(targets, "search"), range(self._cells.layout.layers)
        for rows in batches_of(tokens):
            self._reporter.check()
            dense = scored_log_probabilities(self._view, rows)
            # Both: the model calls its own modules, and the gates attach to those of the view.
            with self._installed(chosen), self._with_variants(chosen).gated(plan, layers):
                total += float(divergences(dense, scored_log_probabilities(self._view, rows)).sum(dtype=torch.float64))
        return total / ScoredPositions.of(self._view, tokens).count(tokens)

    @torch.no_grad()
    def _batch(self, rows: Tensor, progress: Callable[[float], None]) -> np.ndarray:
        hidden: list[Any] = []
        with recording(self._view, hidden):
            dense = scored_log_probabilities(self._view, rows)
        check_numbers(dense)
        batch_means = np.zeros((2, len(self._cells.blocks), len(self._variants), len(self._levels)))
        for index, block in enumerate(self._cells.blocks):
            # All layers before the block compute what the dense model does.
            with replaying(self._view, hidden[: block.layer]):
                for column, width in enumerate(self._variants):
                    chosen = block, width
                    with self._installed([chosen]):
                        for level, target in enumerate(self._levels):
                            self._reporter.check()
                            batch_means[:, index, column, level] = self._alone(rows, dense, index, chosen, target)
            progress((index + 1) / len(self._cells.blocks))
        return batch_means

    def _alone(
        self, rows: Tensor, dense: Tensor, index: int, chosen: tuple[Block, float], target: float
    ) -> tuple[float, float]:
        """Return the mean divergence and the bits read per token with one block gated."""
        values = [target if other == index else 0.0 for other in range(len(self._cells.blocks))]
        plan = self._cells.plan(values, "search")
        with self._with_variants([chosen]).gated(plan, [chosen[0].layer]) as gates:
            logs = scored_log_probabilities(self._view, rows)
            divergence = float(divergences(dense, logs).mean(dtype=torch.float64))
            read = gates.bits_of(self._linears(*chosen))
        if not np.isfinite(divergence):
            raise WinaError(
                "The gated model's logits are not numbers; choose more bits, less sparsity or another dtype."
            )
        return divergence, read

    def _linears(self, block: Block, width: float) -> list[nn.Linear]:
        return list({self._variants[width][block.layer, name]: None for name in self._names(block)})

    def _names(self, block: Block) -> list[str]:
        return [self._cells.layout.projections[column] for column in block.columns]

    def _with_variants(self, chosen: Sequence[tuple[Block, float]]) -> AllocationSubject:
        """Return the subject with these blocks' quantized layers in its view."""
        layers = list(self._view.layers)
        for block, width in chosen:
            projections = dict(layers[block.layer].projections)
            for name in self._names(block):
                projections[name] = replace(projections[name], linear=self._variants[width][block.layer, name])
            layers[block.layer] = replace(layers[block.layer], projections=projections)
        return replace(
            self._subject, loaded=replace(self._subject.loaded, view=replace(self._view, layers=tuple(layers)))
        )

    @contextmanager
    def _installed(self, chosen: Sequence[tuple[Block, float]]) -> Iterator[None]:
        """Put these blocks' quantized layers into the model within the block."""
        layers = self._view.layers
        swaps = {
            layers[block.layer].projections[name].linear: self._variants[width][block.layer, name]
            for block, width in chosen
            for name in self._names(block)
        }
        for linear, other in swaps.items():
            setattr(*self._parents[linear], other)
        try:
            yield
        finally:
            for linear in swaps:
                setattr(*self._parents[linear], linear)
