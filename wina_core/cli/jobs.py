"""`wina jobs`: jobs of other programs on a database or in a cluster's queue, and unfinished ones.

`wina jobs compute`, which no user types, is the process that computes jobs in the background.
"""

import logging
import queue
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import typer

from wina_core.api.progress import TerminalReporter, terminal_reporter
from wina_core.cli import arrays, options
from wina_core.cli.tables import counted, print_table
from wina_core.engine.client.background import Handover, start_in_background
from wina_core.engine.client.pool import EnginePool, open_engines
from wina_core.engine.client.rest import resumed
from wina_core.errors import Cancelled, WinaError
from wina_core.jobs import Cancel, Done, EvaluateJob, Event, Failed, Log, RunFailed, Submit
from wina_core.remote.machine_client import open_place
from wina_core.remote.slurm import submitted_arrays
from wina_core.specs.machine import LOCAL
from wina_core.store import Recorders, Store

_CHECK_SECONDS = 0.5
"""Interval of checking for Ctrl-C and for new results."""
_LIST_SECONDS = 5.0
"""Longest time without news until programs that died are noticed."""
POLL_SECONDS = 1.0
"""Interval of checking for cancelled jobs."""
COLUMNS = ("job", "title", "on", "state", "done", "total", "unit", "results")

_log = logging.getLogger(__name__)

Jobs = Annotated[list[str] | None, typer.Argument(metavar="JOB", help="Ids, as `wina jobs` lists them.")]

app = typer.Typer(
    help="List, follow, cancel and resume jobs of the background, of windows and of a cluster's queue.",
    invoke_without_command=True,
)


@app.callback()
def list_jobs(context: typer.Context, database: options.Database = None, as_json: options.Json = False) -> None:
    """List jobs of the background and of windows, array jobs, whose results it imports, and unfinished ones."""
    if context.invoked_subcommand is not None:
        return
    with Store(database) as store:
        jobs = store.list_jobs()
        rows: list[tuple[object, ...]] = [
            (job.submit.job_id, job.submit.title, _machines(job.submit), job.state)
            + ((None, None, "", None) if job.total is None else (job.done, job.total, "measurements", job.done))
            for job in sorted(jobs, key=lambda job: job.state == "unfinished")
        ]
        rows[sum(job.state != "unfinished" for job in jobs) : 0] = arrays.rows(store)
    print_table(COLUMNS, rows, as_json)
    if any(job.state == "unfinished" for job in jobs):
        typer.echo("Continue the unfinished jobs with: wina jobs resume", err=True)


def _machines(submit: Submit) -> str:
    return ", ".join(submit.machines or (LOCAL,))


@app.command()
def follow(database: options.Database = None) -> None:
    """Show the progress of the jobs until they have ended, and import what array jobs bring; Ctrl-C leaves them."""
    try:
        with terminal_reporter("The jobs continue.") as reporter, Store(database) as store:
            failures = [*_follow(store, reporter), *arrays.follow(store, reporter)]
    except Cancelled:
        return
    if failures:
        raise WinaError(" ".join(dict.fromkeys(failures)))


def _follow(store: Store, reporter: TerminalReporter) -> list[str]:
    """Show the jobs of living programs until they have ended; return the errors of their runs."""
    followed: set[str] = set()
    while jobs := [job for job in store.list_jobs() if job.state != "unfinished"]:
        for job in jobs:
            if isinstance(job.submit.job, EvaluateJob):
                followed |= {run.spec.content_hash() for run in job.submit.job.runs}
        done, total = sum(job.done for job in jobs), sum(job.total or 0 for job in jobs)
        reporter.progress(done, total or None, "measurements", ", ".join(job.submit.title for job in jobs))
        until = time.monotonic() + _LIST_SECONDS
        while not store.has_news() and time.monotonic() < until:
            reporter.check()
            time.sleep(_CHECK_SECONDS)
    return [run.error for run in store.runs() if run.run in followed and run.status == "failed"]


@app.command()
def cancel(
    jobs: Jobs = None,
    everything: Annotated[bool, typer.Option("--all", help="Cancel all jobs.")] = False,
    database: options.Database = None,
) -> None:
    """Cancel jobs of the background, of windows or of a queue at their next batch; stored results stay."""
    with Store(database) as store:
        living = [job.submit.job_id for job in store.list_jobs() if job.state != "unfinished"]
        ids = [*living, *(array.id for array in submitted_arrays(store))]
        chosen = ids if everything else list(jobs or ())
        unknown = [job for job in chosen if job not in ids]
        if unknown or not chosen:
            raise WinaError(
                f'There is no job "{unknown[0]}" in the background or in a queue; `wina jobs` lists them.'
                if unknown
                else "No job is named, or there is none; `wina jobs` lists them, --all cancels all."
            )
        store.forget_jobs(arrays.cancel(chosen, store))
    typer.echo(f"{counted(len(chosen), 'job')} cancelled.", err=True)


@app.command()
def log(
    job: Annotated[str, typer.Argument(metavar="JOB", help="Id of an array job, as `wina jobs` lists it.")],
    element: Annotated[int, typer.Option(min=0, help="The element's number.")] = 0,
    database: options.Database = None,
) -> None:
    """Print the end of the log of one element of an array job."""
    with Store(database) as store:
        arrays.print_log(job, element, store)


@app.command()
def resume(
    run_model_code: options.RunModelCode = False,
    trust_task_code: options.TrustTaskCode = False,
    engines: options.Engines = 0,
    database: options.Database = None,
) -> None:
    """Continue the unfinished jobs of programs that died, in the background."""
    with Store(database) as store:
        submits = resumed(store, run_model_code=run_model_code, trust_task_code=trust_task_code)
        if submits:
            start(submits, store, engines or 0)
    more = "; follow with: wina jobs follow" if submits else ""
    typer.echo(f"{counted(len(submits), 'job')} resumed{more}.", err=True)


@app.command()
def discard(database: options.Database = None) -> None:
    """Forget the unfinished jobs of programs that died; their stored results stay."""
    with Store(database) as store:
        left = store.unfinished_jobs(take=True)
        store.forget_jobs([submit.job_id for submit in left])
    typer.echo(f"{counted(len(left), 'job')} discarded.", err=True)


def start(jobs: Sequence[Submit], store: Store, engines: int) -> None:
    """Compute jobs in the background; they are kept as unfinished before, so that none is lost on the way."""
    store.keep_jobs(jobs)
    # str(url) would mask the password, which the other process needs.
    database = store.url.render_as_string(hide_password=False)
    start_in_background(Handover(database=database, engines=engines, jobs=tuple(jobs)))


# ---- the process that computes jobs in the background ----------------------------------------------------------------


@app.command("compute", hidden=True)
def compute() -> None:
    """Take over the jobs of the line on standard input, compute them once that is closed, and store their results.

    An empty line on standard output says that they are taken over, else the line has the reason why not. SIGTERM
    interrupts them: they stay unfinished, to be resumed.
    """
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # it outlives terminals
    handover = Handover.model_validate_json(sys.stdin.buffer.readline())
    try:
        store = Store(handover.database)
    except WinaError as error:
        _answer(str(error))
        return
    with store:
        try:
            store.keep_jobs(handover.jobs)
        except WinaError as error:
            _answer(str(error))
            return
        _answer("")
        sys.stdin.buffer.read()  # until the program that computed them has stopped
        BackgroundJobs(store, handover.engines).run(handover.jobs)


def _answer(refusal: str) -> None:
    sys.stdout.write(f"{' '.join(refusal.split())}\n")
    sys.stdout.close()  # nobody reads what comes later


class BackgroundJobs:
    """Jobs of this process, computed as they were handed over. One whose row another program deletes is cancelled."""

    def __init__(self, store: Store, engines: int) -> None:
        self._store = store
        self._recorders = Recorders(store)
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._pool: EnginePool = open_engines(self._events.put, engines, machines=open_place)
        self._active: set[str] = set()
        """Ids of the jobs that have not ended."""
        self._refused: set[str] = set()
        """Ids of the jobs whose results the database has refused; `wina jobs resume` continues them."""
        self._listed: frozenset[str] = frozenset()
        """Ids of this process's jobs in the database at the last poll."""
        self._interrupted = False
        self._polled = time.monotonic()

    def run(self, jobs: Sequence[Submit]) -> None:
        """Compute the jobs, and return once they have ended."""
        # A signal may interrupt another put: that of a SimpleQueue is reentrant.
        signal.signal(signal.SIGTERM, lambda *_: self._events.put(None))
        self._listed = frozenset(submit.job_id for submit in jobs)
        for submit in jobs:
            self._submit(submit)
        self._poll()  # for what was cancelled while the process started
        while self._active and not self._interrupted:
            with suppress(queue.Empty):
                self._handle(self._events.get(timeout=POLL_SECONDS))
            if time.monotonic() - self._polled >= POLL_SECONDS:
                self._poll()
        self._pool.stop()
        while not self._events.empty():
            self._handle(self._events.get())

    def _submit(self, submit: Submit) -> None:
        try:
            self._recorders.record(submit)
        except WinaError as error:
            _log.error("%s is not computed: %s", submit.title, error)
            return
        self._active.add(submit.job_id)
        self._pool.send(submit)

    def _handle(self, event: Event | None) -> None:
        if event is None:
            self._interrupted = True
            return
        match event:
            case Log(level="warning" | "error"):
                _log.warning("%s", event.text)
            case Failed() | RunFailed():
                _log.error("%s", event.error)
            case Done() if self._interrupted or event.job_id in self._refused:
                event = Done(job_id=event.job_id)  # its runs are interrupted, not cancelled by the user
        ended = [event.job_id] if isinstance(event, Done | Failed) and not self._interrupted else []
        self._active.difference_update(ended)  # whatever the store says
        try:
            self._recorders.record(event)
            if self._refused.isdisjoint(ended):
                self._store.forget_jobs(ended)
        except WinaError as error:
            _log.error("A result could not be stored: %s", error)
            job_id = getattr(event, "job_id", None)
            if job_id in self._active:
                self._refused.add(str(job_id))
                self._pool.send(Cancel(job_id=str(job_id)))  # its next results would be refused too

    def _poll(self) -> None:
        """Cancel the jobs whose rows are gone."""
        self._polled = time.monotonic()
        try:
            listed = self._store.kept_jobs()
            for job_id in (self._listed - listed) & self._active:
                self._pool.send(Cancel(job_id=job_id))
            self._listed = listed
        except WinaError as error:
            _log.error("%s", error)
