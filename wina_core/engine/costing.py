"""What a generated token costs, from a config alone; apart from the other jobs, whose libraries this does not need."""

from wina_core.accounting import costs
from wina_core.engine.protocol import CostJob
from wina_core.models.architectures import view
from wina_core.models.shape import empty_model, model_shape
from wina_core.records import CostRecord
from wina_core.reporting import Reporter
from wina_core.rotation.transform import check_rotation
from wina_core.specs import ROTATION_MODES, RotationSpec


def count_costs(job: CostJob, reporter: Reporter) -> CostRecord:
    """Costs for each of the job's rotations, or for all that are exact; WinaError for one that is not, and for what
    `empty_model` refuses."""
    model = view(empty_model(job.model, reporter))
    for mode in job.rotations or ():
        check_rotation(model, RotationSpec(mode=mode))
    return costs(
        model_shape(model),
        job.method,
        job.plan,
        context=job.context,
        quantization=job.model.quantization,
        rotations=job.rotations or [mode for mode in ROTATION_MODES if mode not in model.refused_rotations],
    )
