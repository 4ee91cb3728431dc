"""The file in an exported sparse model's folder that holds what no flag names: an uneven plan, or a plan of bits."""

from wina_core.model_info.names import shared_quantization
from wina_core.specs import BitsPlan, ModelSource, Plan, QuantizationSpec, RunSpec
from wina_core.specs.plan_pair import PlanPair
from wina_core.specs.plans import PlanLayout, SparsityPlan, UniformSparsity, same_table

PLAN_FILE = "plan.wina.json"


def one_target(plan: Plan) -> float | None:
    """Return the one target of a plan; None for an uneven table, and for an allocation, whose table may be uneven."""
    if isinstance(plan, SparsityPlan):
        first = plan.sparsity[0][0]
        return first if same_table(SparsityPlan.uniform(plan.layout, first), plan) else None
    return plan.sparsity if isinstance(plan, UniformSparsity) else None


def has_bits_plan(source: ModelSource) -> bool:
    """Return whether a model's bits are a plan."""
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
