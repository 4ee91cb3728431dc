"""Texts about finished allocations, and comparison of plans."""

from wina_app.style.translation import tr
from wina_core.records import AllocationRecord
from wina_core.specs import AllocatorSpec
from wina_core.specs.plans import SparsityPlan


def outcome(allocator: AllocatorSpec, record: AllocationRecord) -> str:
    """Return for example "curves: curve error 0.0123, at most 2 % above the optimum on the curves"."""
    value = f"{record.value:.3g}"
    if record.objective == "KL":
        value = tr("{value} nats per token", value=value)
    text = f"{allocator.label}: {record.objective} {value}"
    gap = _gap(record)
    if gap is None:
        return text
    if gap < 5e-5:
        return tr("{outcome}, the optimum on the curves", outcome=text)
    return tr("{outcome}, at most {gap} % above the optimum on the curves", outcome=text, gap=f"{100 * gap:.2g}")


def effort(record: AllocationRecord) -> str:
    """Return the passes and seconds of a search, in words."""
    return tr(
        "{passes} forward passes of the model, {seconds} s",
        passes=f"{record.evaluations:,}",
        seconds=f"{record.seconds:.0f}",
    )


def same_table(one: SparsityPlan | None, other: SparsityPlan) -> bool:
    """Return whether two plans have the same targets and shares."""
    return one is not None and (one.layout, one.sparsity, one.rho) == (other.layout, other.sparsity, other.rho)


def _gap(record: AllocationRecord) -> float | None:
    """Return the largest gap of objective and bound, as a fraction of the bound; None without a bound."""
    if record.bound is None:
        return None
    if record.bound <= 0:
        return 0.0 if record.value <= 0 else None
    return max(0.0, record.value / record.bound - 1)
