"""The results database as DataFrames."""

from collections.abc import Iterable
from os import PathLike, fspath
from typing import TYPE_CHECKING, Annotated, Literal

from wina_core.api.arguments import Several, checked
from wina_core.cli.results import filtered_frame, wanted
from wina_core.cli.tables import pivot, shown_first
from wina_core.store import DecodeRow, LatencyRow, Store
from wina_core.store.metric_frames import metric_rows_of

if TYPE_CHECKING:
    import pandas as pd

Table = Literal["metrics", "runs", "latency", "decoding"]


@checked
def query_results(
    filter: str = "",
    *,
    table: Table = "metrics",
    study: str | None = None,
    methods: Annotated[Iterable[str], Several] = (),
    rotations: Annotated[Iterable[str], Several] = (),
    tasks: Annotated[Iterable[str], Several] = (),
    metrics: Annotated[Iterable[str], Several] = (),
    database: str | PathLike[str] | None = None,
) -> "pd.DataFrame":
    """Return stored results.

    Parameters
    ----------
    filter : str
        A filter line as on the Results page: words, ``method:wina``, ``gated>50``, ``task:/regex/``, ``tags:best``; a
        minus excludes. Timings are not filtered.
    table : {"metrics", "runs", "latency", "decoding"}
        One row per run and metric; one per run with metrics as columns; timed products; timed decoding.
    study : str, optional
        Only this study, by name or hash.
    methods, rotations, tasks, metrics : iterable of str
        Only these; empty for all.
    database : str or path, optional
        SQLite file or PostgreSQL address; by default the one of the window and the command line.

    Returns
    -------
    pandas.DataFrame
        Of "metrics", the columns are run (hash), model, rotation, method, selection, plan, target_sparsity,
        gated_sparsity, net_sparsity (fractions; gated and net are measured), task, metric, value, stderr, n and more.

    Raises
    ------
    WinaError
        For an unknown study, or a database that cannot be read.

    Examples
    --------
    >>> import wina_core
    >>> model = wina_core.open_model("demo", dtype="float32")
    >>> _ = wina_core.measure(model, 0.5, tokens=512, name="example")
    >>> found = wina_core.query_results("method:wina", study="example", metrics=["kl"])
    >>> sorted(found.task)
    ['fidelity', 'original']
    """
    import pandas as pd

    with Store(None if database is None else fspath(database)) as store:
        if table in ("latency", "decoding"):
            kind = LatencyRow if table == "latency" else DecodeRow
            rows = store.latency_rows() if table == "latency" else store.decode_rows()
            return pd.DataFrame(rows, columns=list(kind._fields))
        chosen = wanted(store, study, list(methods), list(rotations), list(tasks), list(metrics))
        found = filtered_frame(store, chosen, filter).copy()
    if table == "metrics":
        return found
    columns, lines = pivot(shown_first(metric_rows_of(found)))
    return pd.DataFrame(lines, columns=columns)
