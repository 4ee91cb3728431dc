"""Studies in a cluster's queue: listed, followed and cancelled on the command line."""

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

import typer

from wina_core.cli.counts import counted
from wina_core.cli.terminal import TerminalReporter
from wina_core.errors import WinaError, without_controls
from wina_core.jobs.queued import ArrayJob, ArrayReport
from wina_core.remote.cluster import arrays
from wina_core.remote.cluster.arrays import Update
from wina_core.remote.cluster.asking import ask
from wina_core.remote.cluster.kept import KeptArray, KeptArrays
from wina_core.store import Store

_LOOK_SECONDS = 5.0
"""Interval of asking a queue, which many users share."""
_CHECK_SECONDS = 0.2
"""Interval of checking for Ctrl-C."""
Row = tuple[object, ...]


def updates(store: Store) -> Iterator[tuple[KeptArray, Update | None, str]]:
    """Import what has come of all arrays; yield each with what was found, or why its machine does not answer."""
    for array in KeptArrays(store.url):
        try:
            yield array, arrays.update(array, store, ask), ""
        except WinaError as error:
            yield array, None, str(error)


def rows(store: Store) -> list[Row]:
    """Return a row for each array, as `wina jobs` prints them."""
    found: list[Row] = []
    for array, update, problem in updates(store):
        progress = update.progress if update else KeptArrays(store.url).progress(array)
        state, done = problem or progress.states, progress.results
        found.append((array.id, array.title, array.machine, state, done, array.units, "measurements", done))
    return found


def follow(store: Store, reporter: TerminalReporter) -> list[str]:
    """Import the results of all arrays until they have ended, and return the errors of their runs and elements."""
    failures: list[str] = []
    refused: dict[str, str] = {}
    while left := list(updates(store)):
        for array, update, problem in left:
            if problem and refused.get(array.id) != problem:
                reporter.log("warning", problem)
            refused[array.id] = problem
            if update is not None:
                progress = update.progress
                failures += [*update.failures, *progress.errors]
                metric = f"{array.title}: {progress.states}"
                reporter.progress(progress.results, array.units, "measurements", metric)
        until = time.monotonic() + _LOOK_SECONDS
        while time.monotonic() < until and KeptArrays(store.url).names():
            reporter.check()
            time.sleep(_CHECK_SECONDS)
    return failures


def watch(store: Store) -> Iterator[ArrayReport]:
    """Import the results of all arrays until they have ended; yield each after each look at it."""
    known: dict[str, KeptArray] = {}
    while left := list(updates(store)):
        for array, update, problem in left:
            known[array.id] = array
            yield _report(array, update, problem, store)
        for array in [array for array in known.values() if array.id not in {each.id for each, _, _ in left}]:
            yield _gone(known.pop(array.id))  # another program imported its end
        for array, update, _ in left:
            if update is not None and update.progress.ended:
                known.pop(array.id, None)
        time.sleep(_LOOK_SECONDS)
    for array in known.values():
        yield _gone(array)


def _report(array: KeptArray, update: Update | None, problem: str, store: Store) -> ArrayReport:
    progress = update.progress if update else KeptArrays(store.url).progress(array)
    log = ""
    if update is not None and update.dead and not progress.ended:
        with suppress(WinaError):
            log = arrays.log_tail(array, update.dead[0], ask)
    return ArrayReport(
        job=_job(array),
        title=array.title,
        states=problem or progress.states,
        done=progress.results,
        total=array.units,
        failures=() if update is None else (*update.failures, *progress.errors),
        log=log,
        ended=update is not None and progress.ended,
        cancelled=progress.cancelled,
    )


def _gone(array: KeptArray) -> ArrayReport:
    return ArrayReport(job=_job(array), title=array.title, states="", done=array.units, total=array.units, ended=True)


def _job(array: KeptArray) -> ArrayJob:
    return ArrayJob(array=array.id, machine=array.machine, job=array.job)


def cancel(ids: Sequence[str], store: Store) -> list[str]:
    """Cancel the arrays among these ids; return the other ids."""
    known = {array.id: array for array in KeptArrays(store.url)}
    for name in ids:
        if name in known:
            arrays.cancel(known[name], store, ask)
    return [name for name in ids if name not in known]


def print_log(name: str, element: int, store: Store) -> None:
    """Print the end of an element's log."""
    array = next((array for array in KeptArrays(store.url) if array.id == name), None)
    if array is None:
        raise WinaError(f'No array job "{name}" is in a queue; `wina jobs` lists them.')
    if element >= len(array.elements):
        raise WinaError(f"The array has {counted(len(array.elements), 'element')}, numbered from 0.")
    with suppress(BrokenPipeError):
        typer.echo(without_controls(arrays.log_tail(array, element, ask)) or "It has not begun: there is no log.")
