"""Sharing of a model: names without the folders of users, and a file of settings that no flag of a command names.

The file lies in an exported sparse model's folder: an uneven plan, or a plan of bits.
"""

import re
from pathlib import PurePosixPath, PureWindowsPath

from wina_core.specs import BitsPlan, ModelSource, Plan, Quantization, QuantizationSpec, RotationSpec, RunSpec, TextSpec
from wina_core.specs.plans import PlanLayout, SparsityPlan, UniformSparsity, same_table
from wina_core.specs.quantization import PlanPair


def last_part(name: str) -> str:
    """Return a path without its folders; any other name as it is."""
    return re.split(r"[/\\]", name.rstrip("/\\"))[-1] if is_folder(name) else name


def is_folder(location: str) -> bool:
    """Return True for a path on a machine, POSIX or Windows."""
    absolute = PurePosixPath(location).is_absolute() or PureWindowsPath(location).is_absolute()
    return absolute or location.startswith((".", "~")) or "\\" in location


def shared_text(text: TextSpec) -> TextSpec:
    return text.model_copy(update={"source": last_part(text.source)})


def shared_rotation(rotation: RotationSpec) -> RotationSpec:
    matrices = rotation.matrices and last_part(rotation.matrices)
    return rotation.model_copy(update={"matrices": matrices, "text": shared_text(rotation.text)})


def shared_quantization(quantization: Quantization) -> Quantization:
    """Return a quantization without the folders of its text."""
    if not isinstance(quantization, QuantizationSpec):
        return quantization
    return quantization.model_copy(update={"text": shared_text(quantization.text)})


PLAN_FILE = "plan.wina.json"


def one_target(plan: Plan) -> float | None:
    """Return the one target of a plan; None for an uneven table, and for an allocation, whose table may be uneven."""
    if isinstance(plan, SparsityPlan):
        first = plan.sparsity[0][0]
        return first if same_table(SparsityPlan.uniform(plan.layout, first), plan) else None
    return plan.sparsity if isinstance(plan, UniformSparsity) else None


def has_bits_plan(source: ModelSource) -> bool:
    return isinstance(source.quantization, QuantizationSpec) and isinstance(source.quantization.bits, BitsPlan)


def needs_plan_file(spec: RunSpec) -> bool:
    """Return whether flags alone do not name a run's targets and bits."""
    return one_target(spec.plan) is None or has_bits_plan(spec.model)


def plan_text(spec: RunSpec, plan: UniformSparsity | SparsityPlan, layout: PlanLayout) -> str:
    """Return the text of a run's plan file, without folders; empty where flags are enough. `plan` is the run's, after
    an allocation."""
    if not needs_plan_file(spec):
        return ""
    bits = shared_quantization(spec.model.quantization) if has_bits_plan(spec.model) else None
    return PlanPair(plan=plan.for_layout(layout), quantization=bits).text()
