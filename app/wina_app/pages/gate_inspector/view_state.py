"""State of the gate inspector: compared methods at the plan's targets, and the points and boundaries of its plots."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from wina_core.analysis.gate_views import COMPARED, InspectedCell, InspectedGate
from wina_core.records.gates import GateTarget
from wina_core.specs import MethodSpec
from wina_core.specs.methods import get_method
from wina_core.specs.plans import Cell, SparsityPlan, resolve_plan

PROMPT = (
    "The rows of a weight matrix that a sparse input leaves out are never read, so that a model decodes faster where "
    "memory is what it waits for."
)
"""First prompt: some thirty tokens of plain text."""
TICKED = ("teal", "wina")
"""Labels of methods ticked at first, beside the plan's method."""


@dataclass(frozen=True)
class ComparedMethod:
    """Method that can be ticked."""

    method: MethodSpec
    ticked: bool
    reason: str
    """Reason why it does not suit the cell; empty if it does."""


def compared_methods(current: MethodSpec, projection: str, ticks: Mapping[str, bool]) -> tuple[ComparedMethod, ...]:
    """Return the plan's method, then others with its selection; `ticks` are the user's, by label."""
    methods = [] if get_method(current).projections == () else [current]
    methods += [method.model_copy(update={"selection": current.selection}) for method in COMPARED.values()]
    return tuple(
        ComparedMethod(method, ticks.get(method.label, method.label in TICKED or method == current), reason)
        for method in dict.fromkeys(methods)
        for reason in (_reason(method, projection),)
    )


def _reason(method: MethodSpec, projection: str) -> str:
    rule = get_method(method)
    if not rule.gates(projection):
        return f"It leaves {projection} dense"
    if rule.by_gate_activation and projection != "down":
        return f"It drops rows of {projection} by the mask of down; select that"
    return ""


def target_of(plan: SparsityPlan, method: MethodSpec, cell: Cell) -> GateTarget:
    """Return a method's target in a cell: the plan's, or the mean under shared masks."""
    layer, column = cell
    low_rank = get_method(method).default_rho is not None
    rho = plan.rho[layer][column] if plan.rho is not None and low_rank else None
    sparsity = plan.sparsity[layer][column]
    if method.masks == "shared":
        method_plan = plan if low_rank else plan.model_copy(update={"rho": None})
        sparsity = resolve_plan(method_plan, plan.layout, method).targets.sparsity[layer][column]
    return GateTarget(method=method, target=sparsity, rho=rho)


@dataclass(frozen=True, eq=False)
class PlannedGate:
    """A method in the inspected cell at the plan's current target."""

    gate: InspectedGate
    target: float
    mask: np.ndarray
    """True where kept, bool [tokens, n]."""
    boundaries: np.ndarray
    """Thresholds of scores, float64 [tokens], NaN where nothing is dropped."""
    energy: float
    error: float | None
    """Output error of the cell; None if only the engine can compute it."""
    outdated: bool
    """True if the mask is another target's: only the engine can compute this one's."""

    @property
    def method(self) -> MethodSpec:
        return self.gate.method

    @property
    def kept(self) -> float:
        """Return the mean number of kept inputs per token."""
        return float(self.mask.sum()) / len(self.mask)


def planned_gates(cell: InspectedCell, plan: SparsityPlan) -> tuple[PlannedGate, ...]:
    indices = cell.record.layer, plan.layout.projections.index(cell.record.projection)
    return tuple(_planned_gate(gate, target_of(plan, gate.method, indices)) for gate in cell.gates)


def _planned_gate(gate: InspectedGate, requested: GateTarget) -> PlannedGate:
    same_rho = requested.rho == gate.decision.asked.rho
    # The record is of one rho: only the engine computes the mask of another.
    mask = gate.mask_at(requested.target) if same_rho else None
    outdated = mask is None
    target = gate.target if mask is None else requested.target
    mask = gate.mask if mask is None else mask
    measured = target == gate.target
    energy = gate.decision.kept_energy if measured else gate.kept_energy(mask)
    error = gate.decision.output_error if measured and not outdated else None
    return PlannedGate(gate, target, mask, gate.thresholds(target, mask), energy, error, outdated)


MOST_POINTS = 3000
"""Most points drawn, sampled with a fixed seed."""


@dataclass(frozen=True, eq=False)
class Points:
    """Inputs in the plane of magnitude and weight."""

    token: np.ndarray
    """int64 [points]."""
    neuron: np.ndarray
    x: np.ndarray
    """log10 of the scored magnitude."""
    y: np.ndarray
    """log10 of c."""
    kept_mask: np.ndarray
    """bool."""
    total: int
    """Number of inputs, drawn or not."""


def rows(token: int | None, tokens: int) -> slice:
    """Return the rows of one token, or of all for None."""
    return slice(tokens) if token is None else slice(token, token + 1)


def logs(values: np.ndarray) -> np.ndarray:
    """Return log10; zeros become a tenth of the least positive value."""
    positive = values[values > 0]
    least = float(positive.min()) / 10 if positive.size else 1.0
    return np.log10(np.maximum(values, least, dtype=np.float64))


def weights(cell: InspectedCell, planned: PlannedGate) -> np.ndarray:
    """Return the plane's second axis: the method's c, or the matrix's column norms if that is 1."""
    return cell.norms if planned.gate.scale is None else planned.gate.scale


def points(cell: InspectedCell, planned: PlannedGate, token: int | None) -> Points:
    """Return the inputs of one token, or of all for None."""
    chosen = rows(token, len(planned.mask))
    magnitudes = planned.gate.magnitudes[chosen]
    total = magnitudes.size
    picked = np.arange(total)
    if total > MOST_POINTS:
        # A fixed seed: the same inputs are drawn for every method, and while the plan changes.
        picked = np.sort(np.random.default_rng(0).choice(total, MOST_POINTS, replace=False))
    row, neuron = np.divmod(picked, magnitudes.shape[1])
    return Points(
        token=row + (token or 0),
        neuron=neuron,
        x=logs(magnitudes.reshape(-1)[picked]),
        y=logs(weights(cell, planned))[neuron],
        kept_mask=planned.mask[chosen].reshape(-1)[picked],
        total=total,
    )


def boundaries(
    cell: InspectedCell, gates: Sequence[PlannedGate], current: PlannedGate, token: int | None
) -> list[tuple[PlannedGate, tuple[float, float], tuple[float, float]]]:
    """Return the boundaries of methods in the shown one's plane, each with x and y of its two ends: vertical for c = 1,
    a hyperbola for its own c, which is straight in log10. All tokens have their median's."""
    axis, lines = weights(cell, current), []
    low, high = float(logs(axis).min()), float(logs(axis).max())
    low, high = low - 0.05, high + 0.05  # beyond the outermost points
    for planned in gates:
        thresholds = finite(planned.boundaries[rows(token, len(planned.mask))])
        if planned.gate.decision.scored != current.gate.decision.scored or not thresholds.size:
            continue
        level = float(logs(np.array([np.median(thresholds)]))[0])
        if planned.gate.scale is None:
            lines.append((planned, (level, level), (low, high)))
        elif np.array_equal(planned.gate.scale, axis):  # with another c, its boundary is no line in this plane
            lines.append((planned, (level - high, level - low), (high, low)))
    return lines


def finite(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)]


def order(cell: InspectedCell, planned: PlannedGate, by: str) -> np.ndarray:
    """Return neurons, int64 [n], by "index", or descending by "norm" or by the "kept" share."""
    if by == "norm":
        return np.argsort(-weights(cell, planned), kind="stable")
    if by == "kept":
        return np.argsort(-planned.mask.sum(axis=0), kind="stable")
    return np.arange(planned.mask.shape[1])
