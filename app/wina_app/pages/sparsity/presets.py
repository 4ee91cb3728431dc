"""Preset plans: pure functions of layout, method and target."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from wina_app.pages.sparsity.cell_values import MAX_SPARSITY, balanced
from wina_app.style.number_format import percent
from wina_core.errors import WinaError
from wina_core.specs import MethodSpec
from wina_core.specs.methods import get_method
from wina_core.specs.plans import PlanLayout, SparsityPlan

PAPER_BUDGETS = (0.25, 0.4, 0.5, 0.65)
"""The sparsities of the paper's tables."""
ATTENTION = ("q", "k", "v", "o")
_REACH = 0.15
"""Distance of the first and last layer of `rising` from the budget."""


@dataclass(frozen=True)
class Preset:
    """A named way to fill a plan."""

    name: str
    explanation: str
    make: Callable[[PlanLayout, MethodSpec, float], SparsityPlan]
    """Function of layout, method and target to a plan; it raises WinaError if impossible."""


def uniform(layout: PlanLayout, method: MethodSpec, budget: float) -> SparsityPlan:
    return _met(layout, method, budget, np.zeros(1), _everywhere(layout))


def dense_ends(layout: PlanLayout, method: MethodSpec, budget: float) -> SparsityPlan:
    """Return a plan with dense first and last layers that meets the budget."""
    inner = _everywhere(layout)
    inner[[0, -1]] = False
    return _met(layout, method, budget, np.zeros(1), inner)


def rising(layout: PlanLayout, method: MethodSpec, budget: float) -> SparsityPlan:
    slope = np.linspace(-_REACH, _REACH, layout.layers)[:, None]
    return _met(layout, method, budget, slope, _everywhere(layout))


def attention_only(layout: PlanLayout, method: MethodSpec, target: float) -> SparsityPlan:
    return _only(layout, method, target, attention=True)


def mlp_only(layout: PlanLayout, method: MethodSpec, target: float) -> SparsityPlan:
    return _only(layout, method, target, attention=False)


_RISING = "Targets rise evenly from the first to the last layer by 30 points, and meet the budget"
_ATTENTION = "The budget's percentage as the target of q, k, v and o; the MLP stays dense"
_MLP = "The budget's percentage as the target of gate, up and down; the attention stays dense"
PRESETS = (
    Preset("Uniform", "One target in all gated cells that meets the budget", uniform),
    Preset(
        "First and last layer dense",
        "Dense first and last layer; one target elsewhere that meets the budget",
        dense_ends,
    ),
    Preset("Rising with depth", _RISING, rising),
    Preset("Attention only", _ATTENTION, attention_only),
    Preset("MLP only", _MLP, mlp_only),
)
"""All presets in the order of the menu."""


def _met(layout: PlanLayout, method: MethodSpec, budget: float, offsets: np.ndarray, cells: np.ndarray) -> SparsityPlan:
    """Return a plan of `offsets` plus a constant in the marked gated cells that meets the budget."""
    free = cells & _gated(layout, method)
    parameters = np.asarray(layout.parameters, dtype=float)
    table = balanced(np.where(free, budget + offsets, 0.0), parameters, free, budget, MAX_SPARSITY)
    reached = float(np.average(table, weights=parameters))
    if not math.isclose(reached, budget, abs_tol=1e-6):
        raise WinaError(
            f"This preset cannot meet a budget of {percent(budget)}: its cells reach only {percent(reached)}; "
            "lower the budget or choose another preset."
        )
    return _plan(layout, table)


def _only(layout: PlanLayout, method: MethodSpec, target: float, attention: bool) -> SparsityPlan:
    block = np.array([(name in ATTENTION) == attention for name in layout.projections])
    cells = block & _gated(layout, method)
    if not cells.any():
        names = ", ".join(name for name, inside in zip(layout.projections, block, strict=True) if inside)
        raise WinaError(f'The method "{method.name}" gates none of {names}; choose another preset or method.')
    return _plan(layout, np.where(cells, target, 0.0))


def _plan(layout: PlanLayout, table: np.ndarray) -> SparsityPlan:
    # Rounded as edits are: a percentage is one fraction.
    rows = tuple(tuple(round(value, 6) for value in row) for row in table.tolist())
    alike = len({value for row in rows for value in row}) == 1
    return SparsityPlan(layout=layout, sparsity=rows, provenance="uniform" if alike else "preset")


def _everywhere(layout: PlanLayout) -> np.ndarray:
    return np.ones((layout.layers, len(layout.projections)), dtype=bool)


def _gated(layout: PlanLayout, method: MethodSpec) -> np.ndarray:
    """Return the cells that the method gates, bool [layers, projections]."""
    return _everywhere(layout) & np.array([get_method(method).gates(name) for name in layout.projections])
