"""Cost of a generated token from a config alone, without the libraries of the other jobs."""

from wina_core.compute.models.architectures import view
from wina_core.compute.models.shape import empty_model, model_shape
from wina_core.compute.models.shortcuts import read_rotation_file
from wina_core.compute.reporter import Reporter
from wina_core.compute.rotation.transform import check_rotation
from wina_core.jobs import CostJob
from wina_core.model_info.cost.cost import costs
from wina_core.model_info.resolve import local_folder
from wina_core.records import CostRecord, CostRow, MetricRecord, ModelShape
from wina_core.specs import COST, ROTATION_MODES, ModelSource, RotationSpec, RunSpec
from wina_core.specs.plans import SparsityPlan, UniformSparsity

_SAVINGS = ("gated_flops_saving", "net_flops_saving", "gated_bytes_saving", "net_bytes_saving")
_TOTALS = ("net_flops", "net_bytes", "bytes_held", "gated_weights", "bits_held", "bits_read")


def count_costs(job: CostJob, reporter: Reporter) -> CostRecord:
    """Count the costs for each of the job's rotations, by default for all that are exact.

    An exported model is counted with its residual shortcuts alone. Raises WinaError for a rotation that is not exact,
    and the errors of `empty_model`.
    """
    model = view(empty_model(job.model, reporter))
    for mode in job.rotations or ():
        check_rotation(model, RotationSpec(mode=mode))
    return costs(
        _with_rotation(model_shape(model), job.model),
        job.method,
        job.plan,
        context=job.context,
        quantization=job.model.quantization,
        rotations=job.rotations or [mode for mode in ROTATION_MODES if mode not in model.refused_rotations],
        fold_norms=job.fold_norms,
    )


def count_run(spec: RunSpec, plan: UniformSparsity | SparsityPlan, reporter: Reporter) -> CostRow:
    """Count the costs of a token in a run with this plan, at its `cost_context`; raises like `count_costs`.

    A dense run has the model's own costs, and savings of 0.
    """
    context = spec.evaluation.cost_context
    assert context is not None  # else COST is none of its units
    job = CostJob(
        model=spec.model,
        method=spec.method,
        plan=plan,
        context=context,
        rotations=(spec.rotation.stream_mode,),
        fold_norms=None if spec.rotation.is_identity else spec.rotation.fold_norms,
    )
    return count_costs(job, reporter).rows[-1]


def _with_rotation(shape: ModelShape, source: ModelSource) -> ModelShape:
    """Return the shape with the residual shortcuts and the folded norms of an exported folder."""
    folder = local_folder(source)
    exported = None if folder is None else read_rotation_file(folder)
    if exported is None:
        return shape
    shortcuts = exported.rotation.mode if exported.shortcuts else "none"
    return shape.model_copy(update={"shortcuts": shortcuts, "folded": exported.report.folded})


def cost_metrics(row: CostRow) -> tuple[MetricRecord, ...]:
    """Return the savings against the dense model (fractions), totals (operations, bytes), and bits per gated weight."""
    values = {metric: getattr(row, metric) for metric in (*_SAVINGS, *_TOTALS)}
    values["mask_bytes"] = next((term.bytes for term in row.terms if term.name == "gating"), 0.0)
    return tuple(
        MetricRecord(task=COST, metric=metric, value=value, higher_is_better=metric in _SAVINGS)
        for metric, value in values.items()
    )
