"""Numbers of the experts of a Mixture of Experts: `wina results experts`, and a summary of a calibration."""

from collections.abc import Iterable
from typing import Annotated

import typer

from wina_core.cli.annotating import named_runs
from wina_core.cli.arguments import options
from wina_core.cli.results import app
from wina_core.cli.tables import print_table
from wina_core.errors import WinaError
from wina_core.records import (
    EXPERT_SHARE,
    EXPERT_SPARSITY,
    EXPERT_THRESHOLD,
    LEAST_EXPERT_TOKENS,
    CalibrationRecord,
)
from wina_core.store import Store
from wina_core.store.rows import CellStat

CALIBRATED = {
    "own thresholds": "experts_with_own_threshold",
    "layer's thresholds": "experts_with_layer_threshold",
    "smallest share of tokens": "smallest_expert_share",
    "largest share of tokens": "largest_expert_share",
}
"""Columns of `calibrated_experts` after the layer, and their metrics in JSON."""
_METRICS = {"sparsity": EXPERT_SPARSITY, "share of tokens": EXPERT_SHARE, "threshold": EXPERT_THRESHOLD}
"""Metrics of an expert in a run, by their columns."""


def calibrated_experts(record: CalibrationRecord) -> list[tuple[int, int, int, float, float]]:
    """Return for each layer with experts how many have thresholds of their own and how many take their layer's, and the
    smallest and the largest share of the text's tokens that an expert read."""
    layers: dict[int, list[float]] = {}
    for each in record.experts:  # a layer's projections read the same tokens
        layers.setdefault(each.layer, [value or 0.0 for value in each.values])
    rows = []
    for layer, tokens in layers.items():
        own = sum(count >= LEAST_EXPERT_TOKENS for count in tokens)
        rows.append((layer, own, len(tokens) - own, min(tokens) / record.tokens, max(tokens) / record.tokens))
    return rows


@app.command()
def experts(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Beginning of a hash; `wina results --annotations` lists them.")
    ],
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Print what each expert of a run dropped, the share of tokens that read it, and its threshold."""
    with Store(database) as store:
        (name,) = named_runs([run], list(store.run_details()), "run")
        rows = _rows(store.expert_stats(name))
    if not rows:
        raise WinaError(
            f"The run {name} has no numbers of experts: its model has no experts, or an earlier version measured it; "
            "measure it again with --recompute."
        )
    print_table(("layer", "expert", "projection", *_METRICS), rows, as_json)


def _rows(stats: Iterable[CellStat]) -> list[tuple[int | str | float | None, ...]]:
    """Return one row for each expert's matrix."""
    found: dict[tuple[int, int, str], dict[str, float]] = {}
    for row in stats:
        if row.x is not None:
            found.setdefault((row.layer, int(row.x), row.projection), {})[row.metric] = row.value
    places = sorted(found, key=lambda place: place[:2])
    return [(*place, *(found[place].get(metric) for metric in _METRICS.values())) for place in places]
