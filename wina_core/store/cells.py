"""Stored numbers on a model's cells (decoder layer x projection) beside those of runs, and the plans of runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, and_, desc, func, insert, select

from wina_core.errors import WinaError
from wina_core.records import EXPERT_METRICS, ExpertRecord, LayerRecord, RefinementStep, RotationReport, SiteSpectrum
from wina_core.specs import MethodSpec, ModelSource, RotationSpec
from wina_core.specs.plans import PlanLayout, SparsityPlan
from wina_core.store.metrics import Query
from wina_core.store.rows import CellStat, PlannedRun, RunLayerMap
from wina_core.store.tables import CalibrationTable, LayerStatTable, ModelTable, RotationTable, RunTable, UnitTable

# ---- rows of layer_stats ---------------------------------------------------------------------------------------------


def layer_rows(layers: Sequence[LayerRecord], experts: Sequence[ExpertRecord] = ()) -> list[dict[str, Any]]:
    """Return a row for each record, and one for each expert that has a value, with the expert's number as x."""
    return [record.model_dump() for record in layers] + [
        {
            "layer": expert.layer,
            "projection": expert.projection,
            "metric": expert.metric,
            "value": value,
            "x": float(number),
        }
        for expert in experts
        for number, value in enumerate(expert.values)
        if value is not None
    ]


def insert_layers(connection: Connection, rows: Sequence[dict[str, Any]], **owner: int) -> None:
    if rows:
        connection.execute(insert(LayerStatTable), [row | owner for row in rows])


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
    sites = {site: index for index, site in enumerate(dict.fromkeys(step.site for step in report.refinement))}
    return (
        *report.residuals,
        *(record.model_copy(update={"metric": f"{DENSE}{record.metric}"}) for record in report.dense_residuals),
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
            LayerRecord(layer=spectrum.layer, projection=spectrum.site, metric=SPECTRUM, value=share, x=count)
            for spectrum in report.spectra
            for count, share in zip(spectrum.directions, spectrum.cumulative, strict=True)
        ),
    )


def report_layers(rows: Sequence[LayerRecord], steps: int) -> dict[str, Any]:
    """Return the fields of a RotationReport that these rows hold; `steps` are those of its spec."""
    fields: dict[str, list[LayerRecord | RefinementStep]] = {"residuals": [], "dense_residuals": [], "refinement": []}
    points: dict[tuple[int, str], dict[int, float]] = {}
    for row in rows:
        if row.metric.startswith(DENSE):
            fields["dense_residuals"].append(row.model_copy(update={"metric": row.metric.removeprefix(DENSE)}))
        elif row.metric.startswith(REFINEMENT) and row.x is not None:
            _, objective, sparsity = row.metric.split()
            step = {"site": row.projection, "objective": objective, "sparsity": float(sparsity), "step": int(row.x)}
            fields["refinement"].append(RefinementStep.model_validate({**step, "steps": steps, "loss": row.value}))
        elif row.metric == SPECTRUM and row.x is not None:
            points.setdefault((row.layer, row.projection), {})[int(row.x)] = row.value
        else:
            fields["residuals"].append(row)
    spectra = tuple(_spectrum(layer, site, shares) for (layer, site), shares in points.items())
    return {**fields, "spectra": spectra}


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
    """Return each metric of the latest calibration that has it, else the rotation's, in the order of measurement."""
    owners = [
        LayerStatTable.calibration_id == row.id for row in connection.execute(_calibrations(model, rotation, method))
    ]
    owners += [LayerStatTable.rotation_id == row.id for row in connection.execute(_rotation(model, rotation))]
    stats: list[CellStat] = []
    read_metrics: set[str] = set()
    for owner in owners:
        query = select(
            LayerStatTable.metric,
            LayerStatTable.layer,
            LayerStatTable.projection,
            LayerStatTable.x,
            LayerStatTable.value,
        )
        other_metrics = (~LayerStatTable.metric.startswith(prefix) for prefix in (DENSE, REFINEMENT))
        # A spectrum has a row for each of many directions, and is shown with its rotation alone.
        query = query.where(owner, LayerStatTable.metric.not_in({*read_metrics, SPECTRUM}), *other_metrics)
        query = query.order_by(LayerStatTable.id)
        new = [CellStat._make(row) for row in connection.execute(query)]
        read_metrics |= {row.metric for row in new}
        stats += new
    return stats


def expert_stats(connection: Connection, run: str) -> list[CellStat]:
    """Return EXPERT_METRICS of a run, with the expert as x, as measured during its first unit that has some."""
    query = (
        select(
            UnitTable.id,
            LayerStatTable.metric,
            LayerStatTable.layer,
            LayerStatTable.projection,
            LayerStatTable.x,
            LayerStatTable.value,
        )
        .join(UnitTable, UnitTable.id == LayerStatTable.unit_id)
        .join(RunTable, RunTable.id == UnitTable.run_id)
        .where(RunTable.hash == run, LayerStatTable.metric.in_(EXPERT_METRICS))
        .order_by(UnitTable.id, LayerStatTable.id)
    )
    rows = connection.execute(query).all()
    return [CellStat._make(row[1:]) for row in rows if row[0] == rows[0][0]]


def planned_runs(connection: Connection, model: ModelSource, limit: int) -> list[PlannedRun]:
    """Return the latest runs of a model that are not superseded, one for each configuration, plan and budget."""
    latest = (
        select(func.max(RunTable.id))
        .join(ModelTable, and_(ModelTable.id == RunTable.model_id, ModelTable.hash == model.content_hash()))
        .where(RunTable.target_sparsity > 0, RunTable.deleted.is_(None), RunTable.superseded == "")
        .group_by(RunTable.configuration_label, RunTable.plan_provenance, RunTable.target_sparsity)
    )
    query = select(RunTable.hash, RunTable.configuration_label, RunTable.plan_provenance, RunTable.target_sparsity)
    query = query.where(RunTable.id.in_(latest)).order_by(desc(RunTable.id)).limit(limit)
    return [PlannedRun._make(row) for row in connection.execute(query)]


def allocated_plan(targets: RunLayerMap | None, rho: RunLayerMap | None, layout: PlanLayout) -> SparsityPlan:
    """Return the table that an allocator found for a run. Raises WinaError if none of this layout is stored."""
    if targets is None or targets.projections != layout.projections or len(targets.values) != layout.layers:
        raise WinaError("The table of this run's plan is not stored yet; evaluate it first, or choose another run.")
    return SparsityPlan(
        layout=layout, sparsity=targets.values, provenance="a stored run's", rho=None if rho is None else rho.values
    )


def _calibrations(model: ModelSource, rotation: RotationSpec, method: MethodSpec) -> Query:
    """Select calibrations, the latest first."""
    return (
        select(CalibrationTable.id, CalibrationTable.recorded)
        .join(ModelTable, ModelTable.id == CalibrationTable.model_id)
        .where(
            ModelTable.hash == model.content_hash(),
            CalibrationTable.rotation_hash == rotation.content_hash(),
            CalibrationTable.method_label == method.label,
        )
        .order_by(desc(CalibrationTable.recorded), desc(CalibrationTable.id))
    )


def _rotation(model: ModelSource, rotation: RotationSpec) -> Query:
    return (
        select(RotationTable.id, RotationTable.recorded)
        .join(ModelTable, ModelTable.id == RotationTable.model_id)
        .where(ModelTable.hash == model.content_hash(), RotationTable.hash == rotation.content_hash())
    )
