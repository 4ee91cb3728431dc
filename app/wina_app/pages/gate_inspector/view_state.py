"""State of the gate inspector: compared methods, and their masks at the plan's targets."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from wina_app.style.translation import tr
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
        return tr("It leaves {projection} dense", projection=projection)
    if rule.by_gate_activation and projection != "down":
        return tr("It drops rows of {projection} by the mask of down; select that", projection=projection)
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
        """Return the method."""
        return self.gate.method

    @property
    def kept(self) -> float:
        """Return the mean number of kept inputs per token."""
        return float(self.mask.sum()) / len(self.mask)


def planned_gates(cell: InspectedCell, plan: SparsityPlan) -> tuple[PlannedGate, ...]:
    """Return all inspected methods at the plan's targets."""
    indices = cell.record.layer, plan.layout.projections.index(cell.record.projection)
    return tuple(_planned_gate(gate, target_of(plan, gate.method, indices)) for gate in cell.gates)


def _planned_gate(gate: InspectedGate, requested: GateTarget) -> PlannedGate:
    same_rho = requested.rho == gate.decision.asked.rho
    mask = gate.mask_at(requested.target) if same_rho else None
    outdated = mask is None
    target = gate.target if mask is None else requested.target
    mask = gate.mask if mask is None else mask
    measured = target == gate.target
    energy = gate.decision.kept_energy if measured else gate.kept_energy(mask)
    error = gate.decision.output_error if measured and not outdated else None
    return PlannedGate(gate, target, mask, gate.thresholds(target, mask), energy, error, outdated)
