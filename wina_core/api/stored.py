"""Stored results as DataFrames, and stored runs by their hashes."""

from collections.abc import Iterable, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Annotated, Any, Literal

from wina_core.analysis.results.columns import COLUMNS
from wina_core.api.arguments import Several, checked
from wina_core.errors import WinaError
from wina_core.specs import FIDELITY, OWN_UNITS, EvaluationSpec, RunSpec
from wina_core.store import DecodeRow, LatencyRow, MetricFilter, MetricRow, Store
from wina_core.studies.published import preferred_metric

if TYPE_CHECKING:
    import pandas as pd

    from wina_core.analysis.results.table import Mask, MetricResults

PIVOT_COLUMNS = ("model", "method", "rotation", "gated", "net", "target")
DIFFERING = ("selection", "plan", "settings")
"""Columns of tables where not all rows have the same."""
_ADVICE = "the column run of query_results() has them"
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
            return pd.DataFrame([row.cells for row in rows], columns=list(kind.COLUMNS))
        chosen = metric_filter(store, study, list(methods), list(rotations), list(tasks), list(metrics))
        # A copy, since the store shares its frames between calls.
        frame = filtered_frame(store, chosen, filter).copy()
    if table == "metrics":
        return frame
    from wina_core.store.metric_frames import metric_rows_of  # which loads numpy

    columns, lines = pivot(shown_first(metric_rows_of(frame)))
    return pd.DataFrame(lines, columns=columns)


def filtered(store: Store, chosen: MetricFilter, line: str) -> list[MetricRow]:
    """Return the chosen rows that pass a filter line; all where it is empty."""
    if not line:
        return store.metric_rows(chosen)
    from wina_core.store.metric_frames import metric_rows_of  # which loads numpy

    return metric_rows_of(filtered_frame(store, chosen, line))


def filtered_frame(store: Store, chosen: MetricFilter, line: str) -> "pd.DataFrame":
    """Return the chosen rows that pass a filter line as `Store.metrics` does, which a million rows fit in."""
    if not line:
        return store.metrics(chosen)
    table, mask = filtered_table(store, chosen, line)
    assert table.metrics is not None
    return table.metrics[mask]


def filtered_table(store: Store, chosen: MetricFilter, line: str) -> "tuple[MetricResults, Mask]":
    """Return the chosen rows as a table, and which of them pass a filter line."""
    from wina_core.analysis.results.filter import parse_filter, passing
    from wina_core.analysis.results.table import MetricResults  # which load numpy and pandas
    from wina_core.store.metric_frames import details_frame

    table = MetricResults(store.metrics(chosen), details_frame(store.run_details()), COLUMNS)
    return table, passing(parse_filter(line, COLUMNS), table)


def metric_filter(
    store: Store,
    study: str | None,
    methods: Sequence[str] | None = None,
    rotations: Sequence[str] | None = None,
    tasks: Sequence[str] | None = None,
    metrics: Sequence[str] | None = None,
) -> MetricFilter:
    """Return the filter of a study, by name or hash, and of names; WinaError for an unknown study."""
    return MetricFilter(
        study=study_hash(store, study) if study else "",
        methods=tuple(methods or ()),
        rotations=tuple(rotations or ()),
        tasks=tuple(tasks or ()),
        metrics=tuple(metrics or ()),
    )


def study_hash(store: Store, name: str) -> str:
    """Return the hash of the study with this hash, or of the last launched one of this name. Raises WinaError."""
    studies = store.studies()
    for row in studies:  # the last launched first
        if name in (row.study, row.name):
            return row.study
    names = ", ".join(f'"{row.name}"' for row in studies) or "none yet"
    raise WinaError(f'No study "{name}" is stored; the stored ones are: {names}.')


def pivot(rows: Iterable[MetricRow]) -> tuple[list[str], list[list[Any]]]:
    """Return one row per run, one column per task and metric; columns for selection, plan and settings that differ.

    `gated` and `net` are those of the run's first metric, and so is the warning that some runs may have.
    """
    rows = list(rows)
    metrics = {
        (row.task, row.metric): row.metric if row.task == FIDELITY else f"{row.task} {row.metric}" for row in rows
    }
    runs: dict[str, list[MetricRow]] = {}
    for row in rows:
        runs.setdefault(row.run, []).append(row)
    extra = [name for name in DIFFERING if len({getattr(row, name) for row in rows}) > 1]
    warnings = {run: run_rows[0].warning for run, run_rows in runs.items()}
    warned = any(warnings.values())
    columns = [*PIVOT_COLUMNS, *extra, *metrics.values(), *(["warning"] if warned else [])]
    table = []
    for run, run_rows in runs.items():
        first = run_rows[0]
        values = {(row.task, row.metric): row.value for row in run_rows}
        table.append(
            [
                *(first.model, first.method, first.rotation),
                *(first.gated_sparsity, first.net_sparsity, first.target_sparsity),
                *(getattr(first, name) for name in extra),
                *(values.get(key) for key in metrics),
                *([warnings[run]] if warned else []),
            ]
        )
    return columns, table


def shown_first(rows: Iterable[MetricRow], evaluation: EvaluationSpec | None = None) -> list[MetricRow]:
    """Sort rows that tables show first to the front: the workbench's own numbers, and of every requested task the
    metric that `evaluation` declares or the published evaluation prefers."""
    rows = list(rows)
    metrics: dict[str, list[str]] = {}
    for row in rows:
        metrics.setdefault(row.task, []).append(row.metric)
    declared = evaluation.metrics if evaluation else {}
    preferred = {task: declared.get(task) or preferred_metric(names) for task, names in metrics.items()}
    return sorted(
        rows, key=lambda row: row.unit not in OWN_UNITS and (row.task, row.metric) != (row.unit, preferred[row.task])
    )


def named_runs(beginnings: Sequence[str], stored: Sequence[str], noun: str = "run", advice: str = _ADVICE) -> list[str]:
    """Return the known runs that beginnings of hashes name, each once; raise WinaError where one names none or several.

    The message names them by `noun`, and ends with the `advice` where to read hashes.
    """
    if not beginnings:
        raise WinaError(f"No {noun} is named; give beginnings of hashes.")
    runs = []
    for beginning in beginnings:
        alike = [run for run in stored if run.startswith(beginning)]
        if len(alike) != 1:
            number = "No" if not alike else f"More than one ({len(alike)})"
            raise WinaError(f'{number} {noun} begins with "{beginning}"; {advice}.')
        runs.append(alike[0])
    return list(dict.fromkeys(runs))


def stored_run(store: Store, beginning: str, advice: str = _ADVICE) -> RunSpec:
    """Return the stored run whose hash begins so; WinaError for none and for several."""
    (name,) = named_runs([beginning], list(store.run_details()), advice=advice)
    spec = store.run_spec(name)
    assert spec is not None  # it is one of the store's
    return spec
