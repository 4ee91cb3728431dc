"""Checks of runs before anything is loaded."""

from collections.abc import Iterable, Iterator, Sequence

from wina_core.errors import WinaError
from wina_core.jobs import PendingRun
from wina_core.specs import FIDELITY, ORIGINAL, AllocatedSparsity, RunSpec, TextSpec
from wina_core.specs.allocations import check_allocator
from wina_core.studies.tasks.check_names import check_names


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
