"""Allocation: from a model, a method and a budget to a SparsityPlan and its record."""

from __future__ import annotations

from pathlib import Path

from wina_core.compute.allocation.allocators import Problem, cell_curves, search
from wina_core.compute.allocation.gated import Subject, cells_of
from wina_core.compute.allocation.journal import Journal
from wina_core.compute.calibration import Calibration
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import Reporter
from wina_core.model_info.products import searched
from wina_core.records import AllocationRecord, LayerRecord
from wina_core.specs import AllocatedSparsity, MethodSpec
from wina_core.specs.plans import PlanLayout


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

    Top-k selection is searched, whichever is used later; `calibration` is for methods that need one even so. As
    released, the dense thresholds of `calibration` are searched instead (see `greedy`), and so are those of `mixed` by
    `marginal`. The search writes its progress
    to `state` and resumes from it; remove the file once the record is kept. The measured curves stay in `curves` for
    other budgets. The names of both files must identify all that the search and the curves depend on. The plan's budget
    is the requested one within 1e-3, except for greedy as released, which takes whole steps.

    Raises WinaError for an unreachable budget, a method that gates nothing, and an unreadable text; Cancelled between
    two forward passes.
    """
    subject = Subject(loaded, searched(method, plan.allocator), calibration)
    whole = plan.allocator.variant == "wina_released"
    cells = cells_of(loaded.view.layout, method, subject.fused if whole else ())
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
    found = search(problem)
    return AllocationRecord(
        key=key,
        plan=cells.plan(found.values, plan.provenance, found.rho),
        objective=found.objective,
        value=found.cost,
        bound=found.bound,
        evaluations=round(found.passes),
        seconds=journal.seconds,
        curves=cell_curves(cells, problem.curves),
    )


def stored_curves(layout: PlanLayout, method: MethodSpec, curves: Path, reporter: Reporter) -> tuple[LayerRecord, ...]:
    """Return the curves that `allocate` left in the file `curves`, as in its record; empty without the file."""
    return cell_curves(cells_of(layout, method), Journal(curves, reporter))
