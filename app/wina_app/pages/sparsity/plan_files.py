"""Plans from the clipboard, and in studies."""

from pydantic import ValidationError

from wina_app.style.translation import tr
from wina_core.errors import WinaError, explain
from wina_core.files.user_file import LIMITS
from wina_core.specs import Configuration, EvaluationSpec, MethodSpec, ModelSource, RotationSpec
from wina_core.specs.plans import SparsityPlan
from wina_core.specs.quantization import PlanPair
from wina_core.specs.studies import StudySpec


def parse_plan(text: str) -> PlanPair:
    """Parse the text of a plan's file. Raise WinaError if it is none."""
    hint = tr("copy one with Copy the plan as text, or the whole content of a plan's file")
    if not text.strip():
        raise WinaError(tr("The clipboard holds no text; {hint}.", hint=hint))
    if len(text) > LIMITS["plan"]:
        raise WinaError(
            tr("The clipboard holds more than {size} MiB; {hint}.", size=LIMITS["plan"] // 2**20, hint=hint)
        )
    try:
        return PlanPair.parse(text)
    except ValidationError as error:
        reason = explain(error).rstrip(".")
        raise WinaError(
            tr("The text on the clipboard is no sparsity plan ({reason}); {hint}.", reason=reason, hint=hint)
        ) from error


def plan_study(
    name: str, plan: SparsityPlan, model: ModelSource, rotation: RotationSpec, method: MethodSpec
) -> StudySpec:
    """Return a study that measures one plan's fidelity, to the original and to the same model without gates."""
    return StudySpec(
        name=name,
        models=(model,),
        configurations=(Configuration(rotation=rotation, method=method),),
        plans=(plan,),
        evaluation=EvaluationSpec(original=EvaluationSpec().fidelity),
    )
