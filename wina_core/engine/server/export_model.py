"""Export of a run's gated model as a folder."""

import math
from pathlib import Path

from wina_core.compute.gating import attach
from wina_core.compute.reporter import Reporter
from wina_core.compute.session.model_session import Session
from wina_core.compute.sparse.export import save_sparse
from wina_core.files.disk import check_room
from wina_core.files.paths import check_new_folder
from wina_core.jobs import ExportModelJob
from wina_core.model_info.plan_file import plan_text
from wina_core.model_info.sizes import weights_bytes
from wina_core.records import ExportRecord
from wina_core.specs import AllocatedSparsity
from wina_core.specs.methods import get_method
from wina_core.specs.targets import resolve_plan


def export_model(job: ExportModelJob, session: Session, reporter: Reporter) -> ExportRecord:
    """Write the gated model of the job's run, which is prepared as for a measurement.

    Raises WinaError if the folder is in use or the disk has no room, before anything is computed, and as preparing and
    gating do.
    """
    spec, folder = job.spec, Path(job.folder).expanduser()
    get_method(spec.method)
    check_new_folder(folder)
    size = weights_bytes(spec.model)
    if math.isfinite(size):  # else it is not downloaded
        check_room(folder, size, "The sparse model takes up to", "free some space or choose another folder")
    loaded = session.prepare(spec.model, spec.rotation, reporter)
    plan = spec.plan
    if isinstance(plan, AllocatedSparsity):
        plan, _ = session.allocation(loaded, spec.rotation, spec.method, plan, spec.calibration, reporter)
    calibration, corrected = session.gating(loaded, spec.rotation, spec.method, plan, spec.calibration, reporter)
    prefix = spec.evaluation.dense_prefix
    card = job.card
    if spec.rotation.is_auto:
        card += f"\n## Rotation\n\n{session.choice(spec.model, spec.rotation, reporter).verdict}\n"
    with attach(loaded, spec.method, plan, calibration, prefix, corrected=corrected) as gates:
        save_sparse(
            loaded,
            gates,
            spec.method,
            resolve_plan(plan, loaded.view.layout, spec.method),
            folder,
            dense_prefix=prefix,
            run=job.run,
            card=card,
            plan_file=plan_text(spec, plan, loaded.view.layout),
        )
    size = sum(file.stat().st_size for file in folder.iterdir())
    return ExportRecord(folder=job.folder, bytes=size)
