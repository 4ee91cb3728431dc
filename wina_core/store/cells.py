"""Stored numbers on a model's cells (decoder layer x projection) beside those of runs, and the plans of runs."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, insert

from wina_core.records import ExpertRecord, LayerRecord, RefinementStep, RotationReport, SiteSpectrum
from wina_core.store.tables import LayerStatTable

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
