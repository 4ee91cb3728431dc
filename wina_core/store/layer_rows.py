"""Rows of layer_stats, made of records."""

from collections.abc import Sequence
from typing import Any

from wina_core.records import ExpertRecord, LayerRecord


def layer_rows(layers: Sequence[LayerRecord], experts: Sequence[ExpertRecord] = ()) -> list[dict[str, Any]]:
    """Return a row for each record, and one for each expert of which something is known, x being its number."""
    return [record.model_dump() for record in layers] + [
        {"layer": each.layer, "projection": each.projection, "metric": each.metric, "value": value, "x": float(number)}
        for each in experts
        for number, value in enumerate(each.values)
        if value is not None
    ]
