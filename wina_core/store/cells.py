"""Stored numbers on a model's cells (decoder layer x projection) beside those of runs, and the plans of runs."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, desc, insert, select

from wina_core.errors import WinaError
from wina_core.records import EXPERT_METRICS, ExpertRecord, LayerRecord, RefinementStep, RotationReport, SiteSpectrum
from wina_core.specs import AllocatedSparsity, MethodSpec, ModelSource, RotationSpec
from wina_core.specs.plans import PlanLayout, SparsityPlan
from wina_core.specs.quantization import PlanPair
from wina_core.store.metrics import Query
from wina_core.store.rows import CellStat, RunLayerMap
from wina_core.store.run_reader import RunReader
from wina_core.store.sql import CellError
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


# ---- queries ---------------------------------------------------------------------------------------------------------

_STAT = (
    LayerStatTable.metric,
    LayerStatTable.layer,
    LayerStatTable.projection,
    LayerStatTable.x,
    LayerStatTable.value,
)
"""Columns of a CellStat."""
_MOST_LAYERS = 100_000
"""Far above any model: a larger number of a layer is damage, and would make a huge table."""


class CellReader(RunReader):
    """Queries on the numbers of a model's cells and experts, and on the plans of runs."""

    def layer_map(self, run: str, metric: str = "sparsity", unit: str = "") -> RunLayerMap | None:
        """Return a metric of a run over layers x projections, as measured during `unit` or else its first unit."""
        query = (
            select(UnitTable.unit, LayerStatTable.layer, LayerStatTable.projection, LayerStatTable.value)
            .join(UnitTable, UnitTable.id == LayerStatTable.unit_id)
            .join(RunTable, RunTable.id == UnitTable.run_id)
            .where(RunTable.hash == run, LayerStatTable.metric == metric)
            .order_by(UnitTable.id, LayerStatTable.id)
        )
        if unit:
            query = query.where(UnitTable.unit == unit)
        with self._reading() as connection:
            rows = connection.execute(query).all()
            if not all(0 <= row.layer < _MOST_LAYERS for row in rows):
                raise CellError("the number of a layer")
        if not rows:
            return None
        first = rows[0][0]
        cells = {(layer, projection): value for name, layer, projection, value in rows if name == first}
        projections = tuple(dict.fromkeys(projection for _, projection in cells))
        layers = 1 + max(layer for layer, _ in cells)
        table = tuple(tuple(cells.get((row, column), math.nan) for column in projections) for row in range(layers))
        return RunLayerMap(first, projections, table)

    def cells_stamp(self, model: ModelSource, rotation: RotationSpec, method: MethodSpec) -> tuple[float, ...]:
        """Return a value that changes whenever `cell_stats` does, and is read faster."""
        with self._reading() as connection:
            owners = _calibrations(model, rotation, method), _rotation(model, rotation)
            return tuple(row.recorded for query in owners for row in connection.execute(query))

    def cell_stats(self, model: ModelSource, rotation: RotationSpec, method: MethodSpec) -> list[CellStat]:
        """Return each metric of the latest calibration that has it, else the rotation's, in the order of measurement.
        A rotation's spectra and the course of its refinement are in its report alone."""
        stats: list[CellStat] = []
        with self._reading() as connection:
            calibrations = connection.execute(_calibrations(model, rotation, method))
            owners = [LayerStatTable.calibration_id == row.id for row in calibrations]
            owners += [LayerStatTable.rotation_id == row.id for row in connection.execute(_rotation(model, rotation))]
            for owner in owners:
                read_metrics = {SPECTRUM, *(row.metric for row in stats)}
                other_metrics = (~LayerStatTable.metric.startswith(prefix) for prefix in (DENSE, REFINEMENT))
                query = select(*_STAT).where(owner, LayerStatTable.metric.not_in(read_metrics), *other_metrics)
                stats += [CellStat._make(row) for row in connection.execute(query.order_by(LayerStatTable.id))]
        return stats

    def expert_stats(self, run: str) -> list[CellStat]:
        """Return EXPERT_METRICS of a run, with the expert as x, as measured during its first unit that has some."""
        query = (
            select(UnitTable.id, *_STAT)
            .join(UnitTable, UnitTable.id == LayerStatTable.unit_id)
            .join(RunTable, RunTable.id == UnitTable.run_id)
            .where(RunTable.hash == run, LayerStatTable.metric.in_(EXPERT_METRICS))
            .order_by(UnitTable.id, LayerStatTable.id)
        )
        with self._reading() as connection:
            rows = connection.execute(query).all()
        return [CellStat._make(row[1:]) for row in rows if row[0] == rows[0][0]]

    def run_plan(self, run: str, layout: PlanLayout) -> PlanPair:
        """Return the plan of the run with this hash, and its model's quantization. Raises WinaError for an unknown run,
        a plan of another layout, and one that is to be allocated and not stored yet."""
        spec = self.run_spec(run)
        if spec is None:
            raise WinaError(f"No run {run} is stored; choose one of the stored runs.")
        if isinstance(spec.plan, AllocatedSparsity):
            plan = _allocated_plan(self.layer_map(run, "target"), self.layer_map(run, "rho"), layout)
        else:
            plan = spec.plan.for_layout(layout)
        return PlanPair(plan=plan, quantization=spec.model.quantization)


def _allocated_plan(targets: RunLayerMap | None, rho: RunLayerMap | None, layout: PlanLayout) -> SparsityPlan:
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
