"""Figures of stored results, drawn as the window exports them and reports show them."""

from os import PathLike, fspath
from typing import TYPE_CHECKING

from pydantic import PositiveFloat

from wina_core.analysis.comparison.axes import AXES, CostAxis, Quality
from wina_core.api.arguments import checked
from wina_core.api.stored import named_runs
from wina_core.errors import WinaError
from wina_core.report.drawing import FigureStyle, draw
from wina_core.report.figures import front_panel, sparsity_panel
from wina_core.specs.plans import SparsityPlan
from wina_core.store import Store

if TYPE_CHECKING:  # which take a second to import
    import pandas as pd
    from matplotlib.figure import Figure

Size = tuple[PositiveFloat, PositiveFloat]
_USUAL = Quality()
_LAYER_HEIGHT = 0.22
"""Inches of a row of a heatmap."""


@checked
def frontier_figure(
    results: "pd.DataFrame | None" = None,
    *,
    against: CostAxis = "bytes_read",
    task: str = _USUAL.task,
    metric: str = _USUAL.metric,
    model: str | None = None,
    size: Size = (7.0, 4.0),
    database: str | PathLike[str] | None = None,
) -> "Figure":
    """Draw quality against cost of a model's configurations, with the Pareto front.

    Dominated configurations are faded; error bars are standard errors; a KL divergence has a logarithmic axis.

    Parameters
    ----------
    results : pandas.DataFrame, optional
        Rows of `measure`, `run_study` or `query_results`; by default all that is stored.
    against : {"bytes_read", "memory", "flops", "tokens_per_s", "bits_read", "bits_held", "gated", "net"}
        The cost: per token in MB, MB held, MFLOP, tokens/s, bits per weight, or measured sparsity in percent.
    task, metric : str
        The quality; by default the KL divergence from the original model.
    model : str, optional
        Name of the original, where there are several.
    size : (float, float)
        Width and height in inches.
    database : str or path, optional
        The database of the results; by default the one of the window and the command line.

    Returns
    -------
    matplotlib.figure.Figure
        With one axes. In a notebook, run ``%matplotlib inline`` first.

    Raises
    ------
    WinaError
        If nothing is stored for the quality or the cost, or the model is not named where there are several.

    Examples
    --------
    >>> import wina_core
    >>> model = wina_core.open_model("demo", dtype="float32")
    >>> found = wina_core.measure(model, [0.25, 0.5], tokens=512)
    >>> figure = wina_core.frontier_figure(found, against="gated")
    >>> figure.axes[0].get_xlabel()
    'Gated sparsity (%)'
    """
    style = FigureStyle(*size, titled=True)
    with Store(None if database is None else fspath(database)) as store:
        rows = store.metrics() if results is None else results
        if not hasattr(rows, "columns"):
            raise WinaError(f"results: it should be a DataFrame, as measure returns, not {rows!r:.60}.")
        if rows.empty:
            raise WinaError("There are no results to draw; measure something first.")
        points, quality, name = points_of(store, rows, against, task, metric, model)
    return draw((front_panel(name, points, against, quality),), style)


@checked
def heatmap_figure(
    shown: SparsityPlan | str,
    *,
    title: str = "",
    size: Size | None = None,
    database: str | PathLike[str] | None = None,
) -> "Figure":
    """Draw sparsity over layers and projections.

    Parameters
    ----------
    shown : wina_core.specs.plans.SparsityPlan or str
        A plan, for its targets; or the beginning of a run's hash (column "run" of results), for what its masks dropped.
    title : str
        By default the plan's provenance and budget, or the run.
    size : (float, float), optional
        Width and height in inches; by default as many layers need.
    database : str or path, optional
        The database of the run; by default the one of the window and the command line.

    Returns
    -------
    matplotlib.figure.Figure
        Rows are decoder layers, columns projections, colours percent.

    Raises
    ------
    WinaError
        If no such run, or no measured sparsity of it, is stored.

    Examples
    --------
    >>> import wina_core
    >>> model = wina_core.open_model("demo", dtype="float32")
    >>> plan = wina_core.allocate(model, 0.5, allocator="marginal", tokens=512)
    >>> len(wina_core.heatmap_figure(plan).axes)  # the map and its colour bar
    2
    """
    if isinstance(shown, SparsityPlan):
        title = title or f"{shown.provenance}, {100 * shown.budget:.4g} %"
        panel = sparsity_panel(title, shown.layout.projections, shown.sparsity, "Target sparsity (%)")
    else:
        with Store(None if database is None else fspath(database)) as store:
            (run,) = named_runs([shown], list(store.run_details()))
            layers = store.layer_map(run)
        if layers is None:
            raise WinaError(f"No measured sparsity of the run {shown} is stored; measure it first.")
        panel = sparsity_panel(title or shown, layers.projections, layers.values, "Measured sparsity (%)")
    return draw((panel,), FigureStyle(*(size or (4.5, 1.2 + _LAYER_HEIGHT * len(panel.rows)))))


def points_of(
    store: Store, rows: "pd.DataFrame", axis: CostAxis, task: str, metric: str, model: str | None
) -> "tuple[pd.DataFrame, Quality, str]":
    """Return the frontier of stored rows, its quality, and the name of its model; WinaError where there is none."""
    from wina_core.analysis.comparison.frontier import frontier_points, originals  # which load pandas

    present = set(rows["model_hash"])
    sources = {key: source for key, source in store.model_sources().items() if key in present}
    named = originals(sources)
    original = _chosen(named, model)
    quality = _quality(rows, task, metric)
    points = frontier_points(rows, sources, original, quality, axis, store.decode_rows(), store.imports())
    if points.empty:
        raise WinaError(
            f'No configuration has both "{quality.title}" and "{AXES[axis].title.lower()}"; {AXES[axis].advice}'
        )
    return points, quality, named[original]


def _chosen(named: dict[str, str], model: str | None) -> str:
    """Return the hash of the named original, or of the only one."""
    keys = [key for key, name in named.items() if model in (None, name)]
    if len(keys) == 1:
        return keys[0]
    stored_names = ", ".join(f'"{name}"' for name in named.values()) or "none yet"
    if model is None and keys:
        raise WinaError(f"Several models are stored: {stored_names}; choose one of these models.")
    if keys:
        raise WinaError(f'"{model}" names several stored models of other files; narrow the results down by a filter.')
    raise WinaError(f'No results of "{model}" are stored; the stored models are: {stored_names}.')


def _quality(rows: "pd.DataFrame", task: str, metric: str) -> Quality:
    """Return the metric with its direction; WinaError where it is not stored."""
    task_rows = rows[rows["task"] == task]
    values = task_rows[task_rows["metric"] == metric]
    if values.empty:
        column = task_rows["metric"] if len(task_rows) else rows["task"]
        stored_names = ", ".join(sorted(set(column))) or "none yet"
        subject = f'the metric "{metric}" of "{task}"' if len(task_rows) else f'the task "{task}"'
        raise WinaError(f"Nothing is stored for {subject}; stored are: {stored_names}.")
    better = values["higher_is_better"].iloc[0]
    # An absent direction is None or, in a column of numbers, NaN.
    return Quality(task, metric, None if better is None or better != better else bool(better))
