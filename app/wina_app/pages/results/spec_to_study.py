"""A stored run as a study of its own, to be computed again anywhere."""

from wina_core.specs import AllocatedSparsity, AllocatorSpec, Configuration, RunSpec
from wina_core.specs.plans import SparsityPlan
from wina_core.specs.studies import StudySpec


def study_of(spec: RunSpec) -> StudySpec:
    """Return the study that expands to exactly this run."""
    table = isinstance(spec.plan, SparsityPlan)
    study = StudySpec(
        name=f"run {spec.content_hash()}",
        models=(spec.model,),
        configurations=(Configuration(rotation=spec.rotation, method=spec.method),),
        sparsities=() if table else (spec.plan.sparsity,),
        allocators=(spec.plan.allocator if isinstance(spec.plan, AllocatedSparsity) else AllocatorSpec(),),
        plans=(spec.plan,) if table else (),
        evaluation=spec.evaluation,
    )
    return study if spec.calibration is None else study.model_copy(update={"calibration": spec.calibration})
