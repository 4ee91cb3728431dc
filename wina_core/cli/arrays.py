"""Studies in a cluster's queue: computed, listed, followed and cancelled on the command line."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import typer

from wina_core.api.progress import TerminalReporter
from wina_core.api.running import run_recorded
from wina_core.cli.tables import counted
from wina_core.errors import WinaError, without_controls
from wina_core.jobs import EvaluateJob, PendingRun
from wina_core.remote import slurm
from wina_core.remote.slurm import ArrayUpdate, SlurmArray
from wina_core.specs.machine import LOCAL
from wina_core.specs.studies import StudySpec
from wina_core.store import Store

_POLL_SECONDS = 5.0
"""Interval of asking a queue, which many users share."""
_CHECK_SECONDS = 0.2
"""Interval of checking for Ctrl-C."""


def compute_element(study: StudySpec, job: EvaluateJob, file: Path) -> None:
    """Compute the measurements of a job of a study that an SQLite file lacks, and store them there.

    The file is on a file system that machines share.
    """
    with Store(file, shared=True) as store:
        specs = [run.spec for run in job.runs]
        store.save_study(study, specs)
        missing = {run.spec.content_hash(): run.units for run in store.pending(specs, job.samples)}
        runs = [(run, missing.get(run.spec.content_hash(), ())) for run in job.runs]
        common = [(run, tuple(unit for unit in run.units if unit in units)) for run, units in runs]
        left = tuple(PendingRun(spec=run.spec, units=units) for run, units in common if units)
        if left:
            run_recorded(job.model_copy(update={"runs": left}), store)


def update_arrays(store: Store) -> Iterator[tuple[SlurmArray, ArrayUpdate]]:
    """Update all arrays; yield each with its update, or with the reason why Slurm does not answer as its states."""
    for array in slurm.submitted_arrays(store):
        try:
            yield array, slurm.update_array(array, store)
        except WinaError as error:
            yield array, ArrayUpdate(str(error))


def rows(store: Store) -> list[tuple[object, ...]]:
    """Return a row for each array, as `wina jobs` prints them."""
    return [
        (array.id, array.title, LOCAL, update.states, update.done, sum(map(len, array.runs)), "runs", update.done)
        for array, update in update_arrays(store)
    ]


def follow(store: Store, reporter: TerminalReporter) -> list[str]:
    """Merge the results of all arrays until they have ended, and return the errors of their runs and elements."""
    failures: list[str] = []
    while slurm.submitted_arrays(store):
        for array, update in update_arrays(store):
            failures += update.failures
            total = sum(map(len, array.runs))
            reporter.progress(update.done, total, "runs", f"{array.title}: {update.states}")
        until = time.monotonic() + _POLL_SECONDS
        while time.monotonic() < until and slurm.submitted_arrays(store):
            reporter.check()
            time.sleep(_CHECK_SECONDS)
    return failures


def cancel(ids: Sequence[str], store: Store) -> list[str]:
    """Cancel the arrays among these ids; return the other ids."""
    arrays = {array.id: array for array in slurm.submitted_arrays(store)}
    for name in ids:
        if name in arrays:
            slurm.cancel(arrays[name], store)
    return [name for name in ids if name not in arrays]


def print_log(name: str, element: int, store: Store) -> None:
    """Print the end of an element's log."""
    array = next((array for array in slurm.submitted_arrays(store) if array.id == name), None)
    if array is None:
        raise WinaError(f'No array job "{name}" is in a queue; `wina jobs` lists them.')
    if element >= len(array.names):
        raise WinaError(f"The array has {counted(len(array.names), 'element')}, numbered from 0.")
    with suppress(BrokenPipeError):
        typer.echo(without_controls(slurm.log_tail(array, element)) or "It has not begun: there is no log.")
