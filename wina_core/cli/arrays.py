"""Studies in a cluster's queue: computed, listed, followed and cancelled on the command line."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import typer

from wina_core.api.progress import TerminalReporter
from wina_core.api.running import run_recorded
from wina_core.cli import options
from wina_core.cli.tables import counted
from wina_core.errors import WinaError, without_controls
from wina_core.jobs import EvaluateJob, PendingRun, encode
from wina_core.jobs.hosted import ArrayJob, ArrayReport
from wina_core.remote import slurm
from wina_core.remote.slurm import ArrayUpdate, SlurmArray
from wina_core.specs.machine import LOCAL
from wina_core.specs.studies import StudySpec
from wina_core.store import Store

_POLL_SECONDS = 5.0
"""Interval of asking a queue, which many users share."""
_CHECK_SECONDS = 0.2
"""Interval of checking for Ctrl-C."""
Row = tuple[object, ...]

app = typer.Typer(help="Commands that the window runs.", no_args_is_help=True)


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


def update_arrays(store: Store) -> Iterator[tuple[SlurmArray, ArrayUpdate | None, str]]:
    """Update all arrays; yield each with its update, or the reason why Slurm does not answer."""
    for array in slurm.submitted_arrays(store):
        try:
            yield array, slurm.update_array(array, store), ""
        except WinaError as error:
            yield array, None, str(error)


def rows(store: Store) -> list[Row]:
    """Return a row for each array, as `wina jobs` prints them."""
    reports = (_report(*updated) for updated in update_arrays(store))
    return [
        (report.job.array, report.title, LOCAL, report.states, report.done, report.total, "measurements", report.done)
        for report in reports
    ]


def follow(store: Store, reporter: TerminalReporter) -> list[str]:
    """Merge the results of all arrays until they have ended, and return the errors of their runs and elements."""
    failures: list[str] = []
    for report in watch(store, reporter.check):
        failures += report.failures
        reporter.progress(report.done, report.total, "measurements", f"{report.title}: {report.states}")
    return failures


@app.command("watch")
def print_reports(database: options.Database = None) -> None:
    """Merge the results of all array jobs until they have ended, and print a line of JSON for each at each poll."""
    with Store(database) as store:
        for report in watch(store):
            print(encode(report), end="", flush=True)


def watch(store: Store, check: Callable[[], object] = lambda: None) -> Iterator[ArrayReport]:
    """Merge the results of all arrays until they have ended; yield a report of each after each poll of its queue.

    `check` is called between polls, and may end it by an exception.
    """
    watched: dict[str, SlurmArray] = {}
    while left := list(update_arrays(store)):
        for array, update, problem in left:
            watched[array.id] = array
            yield _report(array, update, problem)
            if update is not None and update.progress.ended:
                del watched[array.id]
        for name in watched.keys() - {array.id for array, _, _ in left}:
            yield _ended_report(watched.pop(name))
        until = time.monotonic() + _POLL_SECONDS
        while time.monotonic() < until and slurm.submitted_arrays(store):
            check()
            time.sleep(_CHECK_SECONDS)
    for array in watched.values():
        yield _ended_report(array)


def _report(array: SlurmArray, update: ArrayUpdate | None, problem: str) -> ArrayReport:
    progress = update.progress if update else array.progress
    return ArrayReport(
        job=ArrayJob(array=array.id, job=array.job),
        title=array.title,
        states=problem or progress.states,
        done=progress.measurements,
        total=array.measurements,
        failures=() if update is None else tuple(update.failures),
        log=slurm.log_tail(array, update.dead[0]) if update is not None and update.dead else "",
        ended=update is not None and progress.ended,
        cancelled=progress.cancelled,
    )


def _ended_report(array: SlurmArray) -> ArrayReport:
    # Another program has merged its end, so that its states are unknown.
    job, total = ArrayJob(array=array.id, job=array.job), array.measurements
    return ArrayReport(job=job, title=array.title, states="", done=total, total=total, ended=True)


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
