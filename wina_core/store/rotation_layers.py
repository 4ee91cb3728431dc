"""A rotation's numbers as rows of layer_stats: residuals before and after, and the steps of its refinement."""

from collections.abc import Mapping, Sequence
from typing import Any

from wina_core.records import LayerRecord, RefinementStep, RotationReport, SiteSpectrum

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
