"""Stored metrics as a DataFrame with categorical columns, and floats for measured values."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wina_core.store.metric_rows import MetricRow, RunDetails

if TYPE_CHECKING:  # pandas takes seconds to import; the command line and the window's first paint do without
    import pandas as pd

_FLOATS = frozenset(("target_sparsity", "gated_sparsity", "net_sparsity", "finished", "seconds"))
_DTYPES = dict.fromkeys(MetricRow._fields, "category") | {"value": "float64", "stderr": "float64"}


def metrics_frame(rows: Iterable[MetricRow]) -> "pd.DataFrame":
    """Return one line per row, with MetricRow's fields as columns; an absent stderr is NaN, all else of no category."""
    return table_frame(list(rows), MetricRow._fields)


def table_frame(rows: Sequence[Any], names: tuple[str, ...]) -> "pd.DataFrame":
    """Return rows of tuples as a DataFrame; columns named like a field of MetricRow get its dtype."""
    import pandas as pd

    cells = zip(*rows, strict=True) if rows else ((),) * len(names)
    return pd.DataFrame({name: _column(name, list(column)) for name, column in zip(names, cells, strict=True)})


def _column(name: str, cells: list[Any]) -> Any:
    import pandas as pd

    dtype = _DTYPES.get(name)
    if name == "higher_is_better":  # databases have 0 and 1
        cells = [None if cell is None else bool(cell) for cell in cells]
    if dtype == "category":
        codes, categories = pd.factorize(np.array(cells, np.float64 if name in _FLOATS else object))
        return pd.Categorical.from_codes(codes, pd.Index(categories, dtype=categories.dtype))
    return pd.Series(cells, dtype=dtype or "int64").array


def metric_rows_of(frame: "pd.DataFrame") -> list[MetricRow]:
    """Return the frame's lines as rows, absent values as None: the reverse of `metrics_frame`."""
    return list(map(MetricRow._make, zip(*(cells_of(frame[name]) for name in MetricRow._fields), strict=True)))


def cells_of(series: "pd.Series[Any]") -> list[Any]:
    """Return the cells of a column of `metrics_frame` as Python's own objects, absent ones as None."""
    if series.dtype == "category":
        if len(series) < len(series.cat.categories):  # a few rows of many
            series = series.cat.remove_unused_categories()
        categories = np.array([*series.cat.categories, None], object)
        return list(categories[series.array.codes])
    if series.dtype == "float64":
        cells: list[Any] = series.tolist()
        return [None if cell != cell else cell for cell in cells] if series.name == "stderr" else cells
    return list(series.array.to_numpy(dtype=object, na_value=None))


def details_frame(details: Mapping[str, RunDetails]) -> "pd.DataFrame":
    """Return one line per run, indexed by its hash, with RunDetails' fields as categorical columns."""
    import pandas as pd

    frame = pd.DataFrame.from_dict(dict(details), orient="index", columns=list(RunDetails._fields))
    return frame.astype("category")
