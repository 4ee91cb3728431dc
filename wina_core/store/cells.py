"""Stored numbers on a model's cells (decoder layer x projection) beside those of runs, and the plans of runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, and_, desc, func, select

from wina_core.errors import WinaError
from wina_core.records import EXPERT_METRICS, LayerRecord, RefinementStep, RotationReport, SiteSpectrum
from wina_core.specs import MethodSpec, ModelSource, RotationSpec
from wina_core.specs.plans import PlanLayout, SparsityPlan
from wina_core.store.metrics import Query
from wina_core.store.rows import CellStat, LayerMap, PlannedRun
from wina_core.store.tables import Calibration, LayerStat, Model, Rotation, Run, Unit

# ---- rotations -------------------------------------------------------------------------------------------------------

DENSE = "dense "
"""Prefix of the metrics of the weights before the rotation."""
REFINEMENT = "refinement "
"""Prefix of the metrics of a refinement's losses: "refinement kl 0.5"; the site is in the place of the projection, the
step is x, and the layer the place of the site among all."""


SPECTRUM = "spectrum"
"""Metric of a point of an input's cumulative spectrum: the site is in the place of the projection, the number of
directions is x."""


def rotation_layers(report: RotationReport) -> tuple[LayerRecord, ...]:
    """Return the rows of a report."""
    sites = {site: place for place, site in enumerate(dict.fromkeys(step.site for step in report.refinement))}
    return (
        *report.residuals,
        *(each.model_copy(update={"metric": f"{DENSE}{each.metric}"}) for each in report.dense_residuals),
        *(
            LayerRecord(
                layer=sites[step.site],
                projection=step.site,
                metric=f"{REFINEMENT}{step.objective} {step.sparsity!r}",
                value=step.loss,
                x=step.step,
            )
            for step in report.refinement
        ),
        *(
            LayerRecord(layer=each.layer, projection=each.site, metric=SPECTRUM, value=share, x=count)
            for each in report.spectra
            for count, share in zip(each.directions, each.cumulative, strict=True)
        ),
    )


def report_layers(rows: Sequence[LayerRecord], steps: int) -> dict[str, Any]:
    """Return the fields of a RotationReport that these rows hold; `steps` are those of its spec."""
    found: dict[str, list[LayerRecord | RefinementStep]] = {"residuals": [], "dense_residuals": [], "refinement": []}
    points: dict[tuple[int, str], dict[int, float]] = {}
    for row in rows:
        if row.metric.startswith(DENSE):
            found["dense_residuals"].append(row.model_copy(update={"metric": row.metric.removeprefix(DENSE)}))
        elif row.metric.startswith(REFINEMENT) and row.x is not None:
            _, objective, sparsity = row.metric.split()
            step = {"site": row.projection, "objective": objective, "sparsity": float(sparsity), "step": int(row.x)}
            found["refinement"].append(RefinementStep.model_validate({**step, "steps": steps, "loss": row.value}))
        elif row.metric == SPECTRUM and row.x is not None:
            points.setdefault((row.layer, row.projection), {})[int(row.x)] = row.value
        else:
            found["residuals"].append(row)
    spectra = tuple(_spectrum(layer, site, shares) for (layer, site), shares in points.items())
    return {**found, "spectra": spectra}


def _spectrum(layer: int, site: str, shares: Mapping[int, float]) -> SiteSpectrum:
    counts = sorted(shares)
    return SiteSpectrum.model_validate(
        {"layer": layer, "site": site, "directions": counts, "cumulative": [shares[count] for count in counts]}
    )


def stamp(connection: Connection, model: ModelSource, rotation: RotationSpec, method: MethodSpec) -> tuple[float, ...]:
    """Return a value that changes whenever `cell_stats` does."""
    rows = [
        *connection.execute(_calibrations(model, rotation, method)),
        *connection.execute(_rotation(model, rotation)),
    ]
    return tuple(row.recorded for row in rows)


def cell_stats(
    connection: Connection, model: ModelSource, rotation: RotationSpec, method: MethodSpec
) -> list[CellStat]:
    """Return every metric of the latest calibration that has it, and the rotation's residuals where no calibration has
    them, in the order of measurement."""
    owners = [LayerStat.calibration_id == row.id for row in connection.execute(_calibrations(model, rotation, method))]
    owners += [LayerStat.rotation_id == row.id for row in connection.execute(_rotation(model, rotation))]
    found: list[CellStat] = []
    known: set[str] = set()
    for owner in owners:
        query = select(LayerStat.metric, LayerStat.layer, LayerStat.projection, LayerStat.x, LayerStat.value)
        others = (~LayerStat.metric.startswith(prefix) for prefix in (DENSE, REFINEMENT))
        query = query.where(owner, LayerStat.metric.not_in(known), *others).order_by(LayerStat.id)
        new = [CellStat._make(row) for row in connection.execute(query)]
        known |= {row.metric for row in new}
        found += new
    return found


def expert_stats(connection: Connection, run: str) -> list[CellStat]:
    """Return EXPERT_METRICS of a run, x being the expert, as measured during its first unit that has some."""
    query = (
        select(Unit.id, LayerStat.metric, LayerStat.layer, LayerStat.projection, LayerStat.x, LayerStat.value)
        .join(Unit, Unit.id == LayerStat.unit_id)
        .join(Run, Run.id == Unit.run_id)
        .where(Run.hash == run, LayerStat.metric.in_(EXPERT_METRICS))
        .order_by(Unit.id, LayerStat.id)
    )
    rows = connection.execute(query).all()
    return [CellStat._make(row[1:]) for row in rows if row[0] == rows[0][0]]


def planned_runs(connection: Connection, model: ModelSource, limit: int) -> list[PlannedRun]:
    """Return the latest runs of a model that are not superseded, one for each configuration, plan and budget."""
    latest = (
        select(func.max(Run.id))
        .join(Model, and_(Model.id == Run.model_id, Model.hash == model.content_hash()))
        .where(Run.target_sparsity > 0, Run.deleted.is_(None), Run.superseded == "")
        .group_by(Run.configuration_label, Run.plan_provenance, Run.target_sparsity)
    )
    query = select(Run.hash, Run.configuration_label, Run.plan_provenance, Run.target_sparsity)
    query = query.where(Run.id.in_(latest)).order_by(desc(Run.id)).limit(limit)
    return [PlannedRun._make(row) for row in connection.execute(query)]


def allocated_plan(targets: LayerMap | None, rho: LayerMap | None, layout: PlanLayout) -> SparsityPlan:
    """Return the table that an allocator found for a run. Raises WinaError where none is stored, or one of another
    layout."""
    if targets is None or targets.projections != layout.projections or len(targets.values) != layout.layers:
        raise WinaError("The table of this run's plan is not stored yet; evaluate it first, or choose another run.")
    return SparsityPlan(
        layout=layout, sparsity=targets.values, provenance="a stored run's", rho=None if rho is None else rho.values
    )


def _calibrations(model: ModelSource, rotation: RotationSpec, method: MethodSpec) -> Query:
    """Select calibrations, the latest first."""
    return (
        select(Calibration.id, Calibration.recorded)
        .join(Model, Model.id == Calibration.model_id)
        .where(
            Model.hash == model.content_hash(),
            Calibration.rotation_hash == rotation.content_hash(),
            Calibration.method_label == method.label,
        )
        .order_by(desc(Calibration.recorded), desc(Calibration.id))
    )


def _rotation(model: ModelSource, rotation: RotationSpec) -> Query:
    return (
        select(Rotation.id, Rotation.recorded)
        .join(Model, Model.id == Rotation.model_id)
        .where(Model.hash == model.content_hash(), Rotation.hash == rotation.content_hash())
    )
