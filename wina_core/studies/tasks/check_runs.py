"""Checks of runs before anything is loaded."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from wina_core.errors import WinaError, near_matches
from wina_core.jobs import PendingRun
from wina_core.model_info.resolve import demo_folder
from wina_core.specs import FIDELITY, ORIGINAL, AllocatedSparsity, RunSpec, TextSpec
from wina_core.specs.allocations import check_allocator
from wina_core.studies.tasks.index import index_file, load_index


def check_runs(runs: Sequence[PendingRun]) -> None:
    """Raise WinaError for an unknown task (`check_names`) or allocator, and for a text without a row of tokens."""
    check_names(runs)
    for run in runs:
        check_allocator(run.spec.plan)
    for text in {text for run in runs for text in _texts(run.spec, run.units)}:
        check_rows(text)


def check_rows(text: TextSpec) -> None:
    """Raise WinaError for a text of fewer tokens than one row has."""
    if text.tokens < text.sequence:
        raise WinaError(
            f"{text.tokens:,} tokens do not fill one row of {text.sequence:,}; choose more tokens or shorter rows."
        )


def check_names(runs: Iterable[PendingRun]) -> None:
    """Raise WinaError, with close matches, for a task to compute that is neither stock nor the demo's.

    Nothing is refused without the index of stock names, which is slow to build, nor in runs with the user's own task
    folders, whose names only lm-eval knows: loading the tasks refuses unknown names then.
    """
    evaluations = {(run.spec.evaluation, run.units) for run in runs if not run.spec.evaluation.task_folders}
    requested = {task for evaluation, units in evaluations for task in evaluation.task_names if task in units}
    existing = _known_names() if requested else None
    if existing is not None and requested - existing:
        raise WinaError(unknown_task(min(requested - existing), existing))


def unknown_task(name: str, names: Iterable[str]) -> str:
    hint = near_matches(name, names) or "check its name, or add the folder of its task file."
    return f'There is no task "{name}"; {hint}'


def unknown_metric(task: str, metric: str, metrics: Iterable[str]) -> str:
    """Return the sentence for a task without the requested metric."""
    return (
        f'The task "{task}" has no metric "{metric}"; it has {", ".join(metrics)}: correct the study\'s file; '
        "computed results stay."
    )


def _known_names() -> frozenset[str] | None:
    """Return all stock tasks, groups and tags, and the demo's tasks; None without an index."""
    try:
        file = index_file()
        stock = _stock_names(file, file.stat().st_mtime_ns)
    except (OSError, WinaError):
        return None
    return None if stock is None else stock | {file.stem for file in (demo_folder() / "tasks").glob("*.yaml")}


@lru_cache(maxsize=1)
def _stock_names(_file: Path, _changed: int) -> frozenset[str] | None:
    # The arguments are the key of the cache alone: a changed file is read again.
    index = load_index()
    return None if index is None else frozenset(entry.name for entry in index.entries)


def _texts(run: RunSpec, units: Iterable[str]) -> Iterator[TextSpec]:
    """Return the texts that a run reads; those that it does not need are the default."""
    if run.calibration is not None:
        yield run.calibration.text
    if run.rotation.reads_text:
        yield run.rotation.text
    if isinstance(run.plan, AllocatedSparsity):
        yield run.plan.allocator.text
    if FIDELITY in units and run.evaluation.fidelity is not None:
        yield run.evaluation.fidelity
    if ORIGINAL in units and run.evaluation.original is not None:
        yield run.evaluation.original
