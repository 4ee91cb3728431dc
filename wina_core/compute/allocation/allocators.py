"""The allocators on a model: what each measures, in which order, and what it writes to its journal on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wina_core.compute.allocation import greedy
from wina_core.compute.allocation.cells import LARGEST, Cells, Values
from wina_core.compute.allocation.curves import Spread, between, parabola, spread
from wina_core.compute.allocation.divergence import Candidate, Divergence
from wina_core.compute.allocation.evolution import Individual, children, survivors
from wina_core.compute.allocation.gated import Subject
from wina_core.compute.allocation.journal import Journal
from wina_core.compute.allocation.layer_error import LayerErrors
from wina_core.compute.models.finite import check_numbers
from wina_core.compute.reporter import Reporter
from wina_core.methods import get_method
from wina_core.records import LayerRecord
from wina_core.specs import AllocatorSpec

KL = "kl"
"""Metric of the curves in `cell_curves`."""
LEVELS = (0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, LARGEST)
"""Sparsities at which each block's divergence is measured; nothing is dropped at the first."""
_REACH = 4
"""How far a round of `refine` moves a block at most, in steps."""
_WORTHWHILE = 1e-3
"""A round of `refine` that gains a smaller fraction than this is its last."""


@dataclass(frozen=True)
class Found:
    """What a search ends with: a value for each block, and what was minimized."""

    values: Values
    objective: str
    cost: float
    bound: float | None = None
    rho: Values | None = None
    passes: float = 0.0
    """Forward passes, in whole models over the whole text."""


@dataclass(frozen=True)
class Problem:
    """What a search is given, and where it tells how far it is."""

    subject: Subject
    cells: Cells
    budget: float
    allocator: AllocatorSpec
    tokens: Tensor
    """[rows, sequence]."""
    journal: Journal
    """What this search has found so far."""
    curves: Journal
    """The measured curves, which are the same for every budget."""
    reporter: Reporter

    def divergence(self, journal: Journal) -> Divergence:
        """Measures this problem's candidates."""
        return Divergence(self.subject, self.cells, self.tokens, journal, self.reporter)


def search(problem: Problem) -> Found:
    """Spread the budget as the problem's allocator does; Cancelled between two forward passes."""
    return _ALLOCATORS[problem.allocator.name](problem)


def _by_uniform(problem: Problem) -> Found:
    """The same target everywhere; nothing is measured."""
    return Found(problem.cells.uniform(problem.budget), "nothing", 0.0)


def _by_greedy(problem: Problem) -> Found:
    """TEAL's search in each decoder layer on its own, all with the same budget, in the dense model's stream.

    The cost is the mean over layers of the error of the layer's output.
    """
    journal, reporter = problem.journal, problem.reporter
    prefix = greedy.RELEASED_PREFIX.get(problem.allocator.variant, 0.0)
    layers: list[list[float]] = journal.state.get("layers", [])
    costs: list[float] = journal.state.get("costs", [])
    passes: int = journal.state.get("passes", 0)
    count = problem.cells.layout.layers
    tokens = problem.tokens.to(problem.subject.loaded.device)
    if not layers:
        _check_dense(problem, tokens)
    for layer in range(len(layers), count):
        cells = problem.cells.in_layer(layer)
        if cells.blocks:
            errors = LayerErrors(problem.subject, cells, layer, tokens, reporter.check, prefix)
            steps = _steps(problem, cells)
            done = partial(_greedy_step, problem, layer, steps, errors, passes)
            start = tuple(journal.state.get("values") or (0.0,) * len(cells.blocks))
            values = tuple(min(value, LARGEST) for value in greedy.search(errors, steps, start, done))
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
    """The steps of the allocator's variant in one layer, whose blocks `cells` are."""
    allocator, view = problem.allocator, problem.subject.loaded.view
    given = cells.blocks, cells.layout, problem.budget, allocator.step
    if allocator.variant == "corrected":
        return greedy.corrected_steps(*given)
    by_table = allocator.variant == "teal_released"
    weight = greedy.teal_key_value_weight(view.family, cells.layout) if by_table else None
    return greedy.released_steps(*given, weight)


@torch.no_grad()
def _check_dense(problem: Problem, tokens: Tensor) -> None:
    """Refuse at once what would else be found out in the layer where it begins, hours later."""
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
    """One budget for all layers, on curves of the KL divergence that each block causes alone.

    Divergences of small independent errors add up, so the sum of the curves stands for the whole model's; the
    optimum on the curves is proven up to the gap between cost and bound.
    """
    found = _on_curves(problem, 1, "curves")
    return Found(found.values, "curve error", found.cost, found.bound, passes=problem.divergence(problem.curves).passes)


def _on_curves(problem: Problem, total: int, unit: str) -> Spread:
    """The optimum on the measured curves; measuring them is the first of `total` units of progress."""
    blocks = len(problem.cells.blocks)
    costs: list[float] | None = problem.curves.state.get("costs")
    if costs is None:
        alone = [
            Candidate(tuple(level if block == other else 0.0 for other in range(blocks)))
            for block in range(blocks)
            for level in LEVELS[1:]
        ]
        costs = problem.divergence(problem.curves).measure(
            alone, None, lambda part: problem.reporter.progress(part, total, unit, "one block at a time")
        )
        problem.curves.save(costs=costs, measured=None)
    problem.reporter.progress(1, total, unit, "one block at a time")
    curves = [between(LEVELS, row, problem.allocator.step) for row in _at_levels(costs)]
    return spread(curves, problem.cells.weights, problem.budget)


def cell_curves(cells: Cells, curves: Journal) -> tuple[LayerRecord, ...]:
    """The measured curves at LEVELS as records; empty where none are measured.

    A block's divergence is split between its cells by their numbers of weights: as these always have one target, the
    sum over cells is that over blocks.
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
    """Each block's divergences at LEVELS; nothing is lost at the first."""
    rows: list[list[float]] = np.reshape(costs, (-1, len(LEVELS) - 1)).tolist()
    return [[0.0, *row] for row in rows]


def _by_refine(problem: Problem) -> Found:
    """From the curves' optimum, measure what a little more and a little less in each block does to the model's KL
    divergence, and move to the optimum of those parabolas within reach, for as long as the divergence falls."""
    journal, rounds = problem.journal, problem.allocator.rounds
    divergence = problem.divergence(journal)

    def progress(part: float) -> None:
        known = journal.state.get("cost")
        told = "" if known is None else f"KL {known:.4g}"
        problem.reporter.progress(1 + journal.state.get("round", 0) + part, rounds + 1, "rounds", told)

    if "values" not in journal.state:
        start = Candidate(_on_curves(problem, rounds + 1, "rounds").values)
        (cost,) = divergence.measure([start], None, lambda _: None)
        journal.save(values=start.values, cost=cost, round=0, measured=None)
    while journal.state["round"] < rounds:
        now, cost = Candidate(tuple(journal.state["values"])), journal.state["cost"]
        reach = _REACH * problem.allocator.step
        probed: list[float] | None = journal.state.get("probed")
        neighbours = [_moved(now, block, by) for block in range(len(now.values)) for by in (-reach, reach)]
        if probed is None:
            probed = divergence.measure(neighbours, now, lambda part: progress(0.9 * part))
            journal.save(probed=probed, measured=None)
        measured = [
            ((less.values[block], now.values[block], more.values[block]), (costs[0], cost, costs[1]))
            for block, (less, more, costs) in enumerate(
                zip(neighbours[::2], neighbours[1::2], np.reshape(probed, (-1, 2)).tolist(), strict=True)
            )
        ]
        trials = [
            Candidate(
                spread([parabola(*three, within) for three in measured], problem.cells.weights, problem.budget).values
            )
            for within in (reach, reach / 2, reach / 4)
        ]
        found = divergence.measure(trials, now, lambda part: progress(0.9 + 0.1 * part))
        best = int(np.argmin(found))
        if found[best] >= cost:
            journal.save(round=rounds, probed=None, measured=None)
        else:
            last = found[best] > (1 - _WORTHWHILE) * cost
            done = rounds if last else journal.state["round"] + 1
            journal.save(values=trials[best].values, cost=found[best], round=done, probed=None, measured=None)
        progress(0.0)
    passes = divergence.passes + problem.divergence(problem.curves).passes
    return Found(tuple(journal.state["values"]), "KL", journal.state["cost"], passes=passes)


def _moved(candidate: Candidate, block: int, by: float) -> Candidate:
    value = min(max(candidate.values[block] + by, 0.0), LARGEST)
    return Candidate((*candidate.values[:block], value, *candidate.values[block + 1 :]))


def _by_evolution(problem: Problem) -> Found:
    """Generations bred from the uniform plan, each parent and child of the budget; for R-Sparse with its shares."""
    journal, rounds = problem.journal, problem.allocator.rounds
    divergence = problem.divergence(journal)

    def measured(individuals: list[Individual], progress: Callable[[float], None]) -> list[Individual]:
        costs = divergence.measure([Candidate(each.values, each.rho) for each in individuals], None, progress)
        return [replace(each, cost=cost) for each, cost in zip(individuals, costs, strict=True)]

    if "population" not in journal.state:
        rho = _first_rho(problem)
        first = Individual(problem.cells.uniform(problem.budget), rho)
        population = measured([first], lambda _: None)
        journal.save(population=[asdict(each) for each in population], generation=0, measured=None)
    while (generation := journal.state["generation"]) < rounds:
        parents = [_individual(entry) for entry in journal.state["population"]]
        generator = np.random.default_rng([problem.allocator.seed, generation])
        bred = children(parents, problem.cells, problem.budget, problem.allocator.step, generator)
        best = f"KL {parents[0].cost:.4g}"
        bred = measured(
            bred,
            lambda part: problem.reporter.progress(generation + part, rounds, "generations", best),  # noqa: B023
        )
        population = survivors([*parents, *bred])
        journal.save(population=[asdict(each) for each in population], generation=generation + 1, measured=None)
    found = _individual(journal.state["population"][0])
    return Found(found.values, "KL", found.cost, rho=found.rho, passes=divergence.passes)


def _first_rho(problem: Problem) -> Values | None:
    """The masks' uniform shares, from which their search begins; None for a method without low-rank parts."""
    rho = get_method(problem.subject.method).rho
    return None if rho is None or rho == 1 else (rho,) * len(problem.cells.blocks)


def _individual(entry: dict[str, Any]) -> Individual:
    rho = entry["rho"]
    return Individual(tuple(entry["values"]), None if rho is None else tuple(rho), entry["cost"])


_ALLOCATORS: dict[str, Callable[[Problem], Found]] = {
    "uniform": _by_uniform,
    "greedy": _by_greedy,
    "curves": _by_curves,
    "refine": _by_refine,
    "evolution": _by_evolution,
}
