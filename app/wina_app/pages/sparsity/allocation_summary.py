"""Texts about finished allocations, and comparison of plans."""

from wina_app.style.translation import tr
from wina_core.records import AllocationRecord, JointRecord
from wina_core.specs import AllocatorSpec, JointSpec


def outcome(allocator: AllocatorSpec, record: AllocationRecord) -> str:
    """Return for example "curves: curve error 0.0123, at most 2 % above the optimum on the curves"."""
    value = f"{record.value:.3g}"
    if record.objective == "KL":
        value = tr("{value} nats per token", value=value)
    return _with_gap(f"{allocator.label}: {record.objective} {value}", _gap(record.value, record.bound))


def joint_outcome(spec: JointSpec, record: JointRecord) -> str:
    """Return for example "joint, 4.5 bits read: KL 0.0123 nats per token, 4.49 bits read and 5.2 held".

    Gates of planes select by threshold, which is said of them instead of the gap.
    """
    text = tr(
        "{name}: KL {kl} nats per token, {read} bits read and {held} held",
        name=spec.label,
        kl=f"{record.kl:.3g}",
        read=f"{record.bits_read:.3g}",
        held=f"{record.bits_held:.3g}",
    )
    if spec.in_planes:
        return tr("{outcome}, by threshold selection", outcome=text)
    return _with_gap(text, _gap(record.value, record.bound))


def effort(record: AllocationRecord | JointRecord) -> str:
    """Return the passes and seconds of a search, in words."""
    return tr(
        "{passes} forward passes of the model, {seconds} s",
        passes=f"{record.evaluations:,}",
        seconds=f"{record.seconds:.0f}",
    )


def _with_gap(text: str, gap: float | None) -> str:
    if gap is None:
        return text
    if gap < 5e-5:
        return tr("{outcome}, the optimum on the curves", outcome=text)
    return tr("{outcome}, at most {gap} % above the optimum on the curves", outcome=text, gap=f"{100 * gap:.2g}")


def _gap(value: float, bound: float | None) -> float | None:
    """Return the largest gap of objective and bound, as a fraction of the bound; None without a bound."""
    if bound is None:
        return None
    if bound <= 0:
        return 0.0 if value <= 0 else None
    return max(0.0, value / bound - 1)
