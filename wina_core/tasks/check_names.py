"""Names of tasks and metrics that there are not, told before anything is loaded or computed. Light: never lm_eval."""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from wina_core.engine.protocol import PendingRun
from wina_core.errors import WinaError, near_matches
from wina_core.sources.resolve import demo_folder
from wina_core.tasks.index import index_file, load_index


def check_names(runs: Iterable[PendingRun]) -> None:
    """Raise WinaError for a task to be computed that is neither a stock one nor the demo's, naming close matches.

    Nothing is refused while the index of the stock names is not there, which takes long to build, nor of runs with task
    folders of the user's, whose names only lm-eval can tell: what there is not is refused on loading the tasks then.
    """
    evaluations = {(run.spec.evaluation, run.units) for run in runs if not run.spec.evaluation.task_folders}
    asked = {task for evaluation, units in evaluations for task in evaluation.task_names if task in units}
    known = _known_names() if asked else None
    if known is not None and asked - known:
        raise WinaError(unknown_task(min(asked - known), known))


def unknown_task(name: str, names: Iterable[str]) -> str:
    """The sentence for a task that is none of `names`."""
    hint = near_matches(name, names) or "check its name, or add the folder of its task file."
    return f'There is no task "{name}"; {hint}'


def unknown_metric(task: str, metric: str, metrics: Iterable[str]) -> str:
    """The sentence for a task that has other `metrics` than the one that tables are to show."""
    return (
        f'The task "{task}" has no metric "{metric}"; it has {", ".join(metrics)}: correct the study\'s file, what was '
        "computed stays."
    )


def _known_names() -> frozenset[str] | None:
    """All stock tasks, groups and tags, and the demo's tasks; None where no index is kept."""
    try:
        file = index_file()
        stock = _stock_names(file, file.stat().st_mtime_ns)
    except (OSError, WinaError):
        return None
    return None if stock is None else stock | {file.stem for file in (demo_folder() / "tasks").glob("*.yaml")}


@lru_cache(maxsize=1)
def _stock_names(_file: Path, _changed: int) -> frozenset[str] | None:
    """Read anew when the file changes."""
    index = load_index()
    return None if index is None else frozenset(entry.name for entry in index.entries)
