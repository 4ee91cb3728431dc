"""A stored run as a study of its own, to be computed again anywhere."""

from wina_core.plan import SparsityPlan
from wina_core.specs import Arm, RunSpec, StudySpec


def study_of(spec: RunSpec) -> StudySpec:
    """The study that expands to exactly this run."""
    study = StudySpec(
        name=f"run {spec.content_hash()}",
        models=(spec.model,),
        arms=(Arm(rotation=spec.rotation, method=spec.method),),
        sparsities=() if isinstance(spec.plan, SparsityPlan) else (spec.plan.sparsity,),
        plans=(spec.plan,) if isinstance(spec.plan, SparsityPlan) else (),
        evaluation=spec.evaluation,
    )
    return study if spec.calibration is None else study.model_copy(update={"calibration": spec.calibration})
