"""Allocation: from a model, a method and a budget to a SparsityPlan and its record, by one of the allocators."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wina_core.compute.allocation import greedy, optimizers
from wina_core.compute.allocation.cells import MAX_TARGET, AllocationSubject, Cells, PlanCandidate, Values, cells_of
from wina_core.compute.allocation.divergence import Divergence, Journal
from wina_core.compute.allocation.greedy import LayerErrors
from wina_core.compute.allocation.optimizers import (
    BudgetSpread,
    Individual,
    between,
    children,
    parabola,
    spread,
    survivors,
)
from wina_core.compute.calibration import Calibration
from wina_core.compute.models.finite import check_numbers
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import Reporter
from wina_core.model_info.products import searched
from wina_core.records import AllocationRecord, LayerRecord
from wina_core.specs import AllocatedSparsity, AllocatorSpec, MethodSpec
from wina_core.specs.allocations import ALLOCATOR_PLUGINS, allocator_names
from wina_core.specs.methods import get_method


def allocate(
    loaded: LoadedModel,
    method: MethodSpec,
    plan: AllocatedSparsity,
    key: str,
    reporter: Reporter,
    calibration: Calibration | None = None,
    state: Path | None = None,
    curves: Path | None = None,
) -> AllocationRecord:
    """Spread a plan's budget over the cells that the method gates.

    The search gates by top-k selection for every selection of the method; some methods need `calibration` even so. As
    released, the dense thresholds of `calibration` are searched instead (see `greedy`), and so are those of `mixed` by
    `marginal`. The search writes its progress to `state` and resumes from it; remove the file once the record is kept.
    The measured curves stay in `curves` for other budgets. The names of both files must identify all that the search
    and the curves depend on. The plan's budget is the requested one within 1e-3, except for greedy as released, which
    takes whole steps.

    Raises WinaError for an unreachable budget, a method that gates nothing, and an unreadable text; Cancelled between
    two forward passes.
    """
    subject = AllocationSubject(loaded, searched(method, plan.allocator), calibration)
    # WINA's released code treats fused matrices as one.
    fused = subject.fused if plan.allocator.variant == "wina_released" else ()
    cells = cells_of(loaded.view.layout, method, fused)
    cells.check(plan.sparsity, f'The method "{method.name}"')
    journal = Journal(state, reporter)
    problem = Problem(
        subject=subject,
        cells=cells,
        budget=plan.sparsity,
        allocator=plan.allocator,
        tokens=read_tokens(plan.allocator.text, loaded.tokenizer),
        journal=journal,
        curves=Journal(curves, reporter),
        reporter=reporter,
    )
    result = search(problem)
    return AllocationRecord(
        key=key,
        plan=cells.plan(result.values, plan.provenance, result.rho),
        objective=result.objective,
        value=result.cost,
        bound=result.bound,
        evaluations=round(result.passes),
        seconds=journal.seconds,
        curves=cell_curves(cells, problem.curves),
    )


KL = "kl"
"""Metric of the curves in `cell_curves`."""
LEVELS = (0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, MAX_TARGET)
"""Sparsities at which each block's divergence is measured; the first drops nothing."""
_REACH = 4
"""Largest move of a block in a round of `refine`, in steps."""
_WORTHWHILE = 1e-3
"""Smallest relative gain of a round of `refine` that allows another one."""
_BUDGET_ERROR = 1e-3
"""Largest difference between the budget and what a package's allocator spreads."""
_MARGINAL_ROUNDS = 2
_MARGINAL_TOKENS, _MARGINAL_LENGTH = 1024, 128
"""Tokens that marginal costs are measured on, and those of a row: many short rows differ more than a few long ones."""


@dataclass(frozen=True)
class Found:
    """A search's result: a value for each block, and the minimized cost."""

    values: Values
    objective: str
    cost: float
    bound: float | None = None
    rho: Values | None = None
    passes: float = 0.0
    """Forward passes of the whole model over the whole text."""


@dataclass(frozen=True)
class Problem:
    """The input of a search, and its progress."""

    subject: AllocationSubject
    cells: Cells
    budget: float
    allocator: AllocatorSpec
    tokens: Tensor
    """[rows, sequence]."""
    journal: Journal
    """The state of this search."""
    curves: Journal
    """The measured curves, equal for every budget."""
    reporter: Reporter

    def divergence(self, journal: Journal) -> Divergence:
        return Divergence(self.subject, self.cells, self.tokens, journal, self.reporter)


def search(problem: Problem) -> Found:
    """Spread the budget by the problem's allocator; raise Cancelled between two forward passes."""
    name = problem.allocator.name
    allocator = _ALLOCATORS.get(name)
    return _by_package(name, problem) if allocator is None else allocator(problem)


def _by_package(name: str, problem: Problem) -> Found:
    """Call a package's allocator; raise WinaError for values that are no targets or miss the budget."""
    allocator = ALLOCATOR_PLUGINS.get(name)
    if allocator is None:
        raise ALLOCATOR_PLUGINS.unknown(name, allocator_names())
    with ALLOCATOR_PLUGINS.blamed(name):
        result = allocator(problem)
        if not isinstance(result, Found):
            raise TypeError(f"it returned a {type(result).__name__}, not a Found")
        values = tuple(map(float, result.values))
        if len(values) != len(problem.cells.blocks) or not all(0 <= value <= MAX_TARGET for value in values):
            raise ValueError(f"its values are not {len(problem.cells.blocks)} numbers from 0 to {MAX_TARGET}")
        reached = problem.cells.budget(values)
        if abs(reached - problem.budget) > _BUDGET_ERROR:
            raise ValueError(f"its values have a budget of {reached:.4f}, not {problem.budget:.4f}")
    return replace(result, values=values)


def _by_marginals(problem: Problem) -> Found:
    """Level the measured cost of one more dropped weight, from the uniform plan on, while the divergence falls."""
    journal, cells, reporter = problem.journal, problem.cells, problem.reporter
    rows = problem.tokens[:, :_MARGINAL_LENGTH]
    divergence = Divergence(
        problem.subject, cells, rows[: max(1, _MARGINAL_TOKENS // rows.shape[1])], journal, reporter
    )
    if "values" not in journal.state:
        journal.save(values=cells.uniform(problem.budget), round=0)
    while (done := journal.state["round"]) < _MARGINAL_ROUNDS:

        def progress(fraction: float, done: int = done) -> None:
            costs = journal.state.get("probed")
            reporter.progress(done + fraction, _MARGINAL_ROUNDS, "rounds", f"KL {costs[0]:.4g}" if costs else "")

        now = PlanCandidate(tuple(journal.state["values"]))
        probed: list[float] | None = journal.state.get("probed")
        if probed is None:
            every = range(len(now.values))
            # The plan as it is, with all targets raised (for the slope), and with each band's raised alone.
            probed_bands = ((), every, *optimizers.bands(cells))
            probes = [PlanCandidate(optimizers.raised(now.values, band)) for band in probed_bands]
            probed = divergence.measure(probes, now, lambda fraction: progress(0.9 * fraction))
            journal.save(probed=probed, measured=None)
        cost, whole, *costs = probed
        trials = [
            PlanCandidate(values)
            for values in optimizers.levelled(cells, problem.budget, now.values, cost, whole, costs)
        ]
        # Without a trial, the infinite cost ends the rounds at the values so far.
        trial_costs = (
            divergence.measure(trials, None, lambda fraction: progress(0.9 + 0.1 * fraction)) if trials else [math.inf]
        )
        best = int(np.argmin(trial_costs))
        if trial_costs[best] >= cost:
            journal.save(cost=cost, round=_MARGINAL_ROUNDS, probed=None, measured=None)
        else:
            journal.save(values=trials[best].values, cost=trial_costs[best], round=done + 1, probed=None, measured=None)
    return Found(tuple(journal.state["values"]), "KL", journal.state["cost"], passes=divergence.passes)


def _by_greedy(problem: Problem) -> Found:
    """Run TEAL's search in each decoder layer alone, with the same budget, in the dense model's stream.

    The cost is the mean over layers of the error of the layer's output.
    """
    journal, reporter = problem.journal, problem.reporter
    prefix = greedy.RELEASED_PREFIX.get(problem.allocator.variant, 0.0)
    layers: list[list[float]] = journal.state.get("layers", [])
    costs: list[float] = journal.state.get("costs", [])
    passes: int = journal.state.get("passes", 0)
    count = problem.cells.layout.layers
    tokens = problem.tokens.to(problem.subject.loaded.device)
    # Only at the start: a resumed search has checked the model.
    if not layers:
        _check_dense(problem, tokens)
    for layer in range(len(layers), count):
        cells = problem.cells.in_layer(layer)
        if cells.blocks:
            errors = LayerErrors(problem.subject, cells, layer, tokens, reporter.check, prefix)
            steps = _steps(problem, cells)
            done = partial(_greedy_step, problem, layer, steps, errors, passes)
            # An interrupted search continues within a layer, at the last accepted row.
            start = tuple(journal.state.get("values") or (0.0,) * len(cells.blocks))
            values = tuple(min(value, MAX_TARGET) for value in greedy.search(errors, steps, start, done))
            # Measured once more: a released search may return the row before its last, and targets beyond MAX_TARGET.
            costs.append(errors(values))
            passes = journal.state.get("passes", 0)
            layers.append(list(values))
        else:
            layers.append([])
        journal.save(layers=layers, costs=costs, values=None)
        reporter.progress(layer + 1, count, "layers", "layer errors")
    values = tuple(value for row in layers for value in row)
    return Found(values, "layer error", sum(costs) / len(costs), passes=passes / count)


def _steps(problem: Problem, cells: Cells) -> greedy.Steps:
    allocator, view = problem.allocator, problem.subject.loaded.view
    arguments = cells.blocks, cells.layout, problem.budget, allocator.step
    if allocator.variant == "corrected":
        return greedy.corrected_steps(*arguments)
    by_table = allocator.variant == "teal_released"
    weight = greedy.teal_key_value_weight(view.family, cells.layout) if by_table else None
    return greedy.released_steps(*arguments, weight)


@torch.no_grad()
def _check_dense(problem: Problem, tokens: Tensor) -> None:
    """Raise WinaError at once for a dense model whose logits are not numbers, instead of hours later."""
    for row in tokens.split(1):
        problem.reporter.check()
        check_numbers(problem.subject.loaded.model(row, use_cache=False).logits)


def _greedy_step(
    problem: Problem, layer: int, steps: greedy.Steps, errors: LayerErrors, passes: int, values: Values
) -> None:
    problem.journal.save(values=values, passes=passes + errors.evaluations)
    done = layer + min(steps.spent(values) / steps.budget, 1.0)
    problem.reporter.progress(done, problem.cells.layout.layers, "layers", f"error {errors.latest:.4g}")


def _by_curves(problem: Problem) -> Found:
    """Spread one budget over all layers, on curves of the KL divergence that each block causes alone.

    Divergences of small independent errors add up, so the sum of the curves approximates the whole model's; the optimum
    on the curves is proven up to the gap between cost and bound.
    """
    optimum = _on_curves(problem, 1, "curves")
    passes = problem.divergence(problem.curves).passes
    return Found(optimum.values, "curve error", optimum.cost, optimum.bound, passes=passes)


def _on_curves(problem: Problem, total: int, unit: str) -> BudgetSpread:
    """Return the optimum on the measured curves; measuring them is the first of `total` units of progress."""
    blocks = len(problem.cells.blocks)
    costs: list[float] | None = problem.curves.state.get("costs")
    if costs is None:
        alone = [
            PlanCandidate(tuple(level if block == other else 0.0 for other in range(blocks)))
            for block in range(blocks)
            for level in LEVELS[1:]
        ]
        costs = problem.divergence(problem.curves).measure(
            alone, None, lambda fraction: problem.reporter.progress(fraction, total, unit, "one block at a time")
        )
        problem.curves.save(costs=costs, measured=None)
    problem.reporter.progress(1, total, unit, "one block at a time")
    curves = [between(LEVELS, row, problem.allocator.step) for row in _at_levels(costs)]
    return spread(curves, problem.cells.weights, problem.budget)


def cell_curves(cells: Cells, curves: Journal) -> tuple[LayerRecord, ...]:
    """Return the measured curves at LEVELS as records; empty if none are measured.

    A block's divergence is split between its cells by their numbers of weights, so that sums over cells and blocks
    agree.
    """
    costs = curves.state.get("costs")
    if costs is None:
        return ()
    layout = cells.layout
    records = []
    for block, row in zip(cells.blocks, _at_levels(costs), strict=True):
        counts = [layout.parameters[block.layer][column] for column in block.columns]
        for column, count in zip(block.columns, counts, strict=True):
            name, share = layout.projections[column], count / sum(counts)
            records += [
                LayerRecord(layer=block.layer, projection=name, metric=KL, value=share * max(cost, 0.0), x=level)
                for level, cost in zip(LEVELS, row, strict=True)
            ]
    return tuple(records)


def _at_levels(costs: Sequence[float]) -> list[list[float]]:
    rows: list[list[float]] = np.reshape(costs, (-1, len(LEVELS) - 1)).tolist()
    return [[0.0, *row] for row in rows]


def _by_refine(problem: Problem) -> Found:
    """Start from the curves' optimum; measure the effect of a little more and less in each block on the model's KL
    divergence, and move to the optimum of those parabolas within reach, while the divergence falls."""
    journal, rounds = problem.journal, problem.allocator.rounds
    divergence = problem.divergence(journal)

    def progress(fraction: float) -> None:
        cost = journal.state.get("cost")
        text = "" if cost is None else f"KL {cost:.4g}"
        problem.reporter.progress(1 + journal.state.get("round", 0) + fraction, rounds + 1, "rounds", text)

    if "values" not in journal.state:
        start = PlanCandidate(_on_curves(problem, rounds + 1, "rounds").values)
        (cost,) = divergence.measure([start], None, lambda _: None)
        journal.save(values=start.values, cost=cost, round=0, measured=None)
    while journal.state["round"] < rounds:
        now, cost = PlanCandidate(tuple(journal.state["values"])), journal.state["cost"]
        reach = _REACH * problem.allocator.step
        probed: list[float] | None = journal.state.get("probed")
        neighbours = [_moved(now, block, by) for block in range(len(now.values)) for by in (-reach, reach)]
        if probed is None:
            probed = divergence.measure(neighbours, now, lambda fraction: progress(0.9 * fraction))
            journal.save(probed=probed, measured=None)
        measured = [
            ((less.values[block], now.values[block], more.values[block]), (costs[0], cost, costs[1]))
            for block, (less, more, costs) in enumerate(
                zip(neighbours[::2], neighbours[1::2], np.reshape(probed, (-1, 2)).tolist(), strict=True)
            )
        ]
        trials = [
            PlanCandidate(
                spread([parabola(*three, within) for three in measured], problem.cells.weights, problem.budget).values
            )
            for within in (reach, reach / 2, reach / 4)  # smaller moves, too: parabolas hold only nearby
        ]
        trial_costs = divergence.measure(trials, now, lambda fraction: progress(0.9 + 0.1 * fraction))
        best = int(np.argmin(trial_costs))
        if trial_costs[best] >= cost:
            journal.save(round=rounds, probed=None, measured=None)
        else:
            last = trial_costs[best] > (1 - _WORTHWHILE) * cost
            done = rounds if last else journal.state["round"] + 1
            journal.save(values=trials[best].values, cost=trial_costs[best], round=done, probed=None, measured=None)
        progress(0.0)
    passes = divergence.passes + problem.divergence(problem.curves).passes
    return Found(tuple(journal.state["values"]), "KL", journal.state["cost"], passes=passes)


def _moved(candidate: PlanCandidate, block: int, by: float) -> PlanCandidate:
    value = min(max(candidate.values[block] + by, 0.0), MAX_TARGET)
    return PlanCandidate((*candidate.values[:block], value, *candidate.values[block + 1 :]))


def _by_evolution(problem: Problem) -> Found:
    """Breed generations from the uniform plan, each individual of the budget; for R-Sparse with its shares."""
    journal, rounds = problem.journal, problem.allocator.rounds
    divergence = problem.divergence(journal)

    def measured(individuals: list[Individual], progress: Callable[[float], None]) -> list[Individual]:
        costs = divergence.measure(individuals, None, progress)
        return [replace(individual, cost=cost) for individual, cost in zip(individuals, costs, strict=True)]

    if "population" not in journal.state:
        rho = get_method(problem.subject.method).rho
        shares = None if rho is None or rho == 1 else (rho,) * len(problem.cells.blocks)  # without low-rank parts: None
        first = Individual(problem.cells.uniform(problem.budget), shares)
        population = measured([first], lambda _: None)
        journal.save(population=[asdict(individual) for individual in population], generation=0, measured=None)
    while (generation := journal.state["generation"]) < rounds:
        parents = [_individual(entry) for entry in journal.state["population"]]
        # Seeded for each generation, so that a resumed search breeds the same children.
        generator = np.random.default_rng([problem.allocator.seed, generation])
        bred = children(parents, problem.cells, problem.budget, problem.allocator.step, generator)
        best = f"KL {parents[0].cost:.4g}"
        bred = measured(
            bred,
            lambda fraction: problem.reporter.progress(generation + fraction, rounds, "generations", best),  # noqa: B023 - not called after this round
        )
        population = survivors([*parents, *bred])
        journal.save(
            population=[asdict(individual) for individual in population], generation=generation + 1, measured=None
        )
    fittest = _individual(journal.state["population"][0])
    return Found(fittest.values, "KL", fittest.cost, rho=fittest.rho, passes=divergence.passes)


def _individual(entry: dict[str, Any]) -> Individual:
    rho = entry["rho"]
    return Individual(tuple(entry["values"]), None if rho is None else tuple(rho), entry["cost"])


_ALLOCATORS: dict[str, Callable[[Problem], Found]] = {
    "uniform": lambda problem: Found(problem.cells.uniform(problem.budget), "nothing", 0.0),
    "greedy": _by_greedy,
    "curves": _by_curves,
    "refine": _by_refine,
    "evolution": _by_evolution,
    "marginal": _by_marginals,
}
