"""`wina jobs`: jobs of other programs on a database or in a cluster's queue, and unfinished ones."""

import time
from collections.abc import Sequence
from typing import Annotated

import typer

from wina_core.api.progress import TerminalReporter, terminal_reporter
from wina_core.cli import arrays, background, options
from wina_core.cli.tables import counted, print_table
from wina_core.engine.client.background import Handover, start_in_background
from wina_core.engine.client.rest import resumed
from wina_core.errors import Cancelled, WinaError
from wina_core.jobs import EvaluateJob, Submit
from wina_core.remote.slurm import submitted_arrays
from wina_core.specs.machine import LOCAL
from wina_core.store import Store

_LOOK_SECONDS = 0.5
"""Interval of checking for Ctrl-C and for new results."""
_LIST_SECONDS = 5.0
"""Longest time without news until programs that died are noticed."""
COLUMNS = ("job", "title", "on", "state", "done", "total", "unit", "results")

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
            (job.submit.job_id, job.submit.title, _place(job.submit), job.state)
            + ((None, None, "", None) if job.total is None else (job.done, job.total, "measurements", job.done))
            for job in sorted(jobs, key=lambda job: job.state == "unfinished")
        ]
        rows[sum(job.state != "unfinished" for job in jobs) : 0] = arrays.rows(store)
    print_table(COLUMNS, rows, as_json)
    if any(job.state == "unfinished" for job in jobs):
        typer.echo("Continue the unfinished jobs with: wina jobs resume", err=True)


def _place(submit: Submit) -> str:
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
            time.sleep(_LOOK_SECONDS)
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


app.command("compute", hidden=True)(background.compute)


def start(jobs: Sequence[Submit], store: Store, engines: int) -> None:
    """Compute jobs in the background; they are kept as unfinished before, so that none is lost on the way."""
    store.keep_jobs(jobs)
    database = store.url.render_as_string(hide_password=False)
    start_in_background(Handover(database=database, engines=engines, jobs=tuple(jobs)))
