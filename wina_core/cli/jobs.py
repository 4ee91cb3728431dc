"""`wina jobs`: jobs that run in the background of a database or in a cluster's queue, and unfinished ones."""

from collections.abc import Sequence
from typing import Annotated

import typer

from wina_core.cli import arrays
from wina_core.cli.arguments import options
from wina_core.cli.counts import counted
from wina_core.cli.tables import print_table
from wina_core.cli.terminal import terminal_reporter
from wina_core.engine.client.rest import resumed
from wina_core.engine.host.background import background_jobs, run_in_background
from wina_core.errors import Cancelled, WinaError
from wina_core.jobs import Failed, JobStatus, Log, Progress, RunFailed, Submit
from wina_core.remote.cluster.kept import KeptArrays
from wina_core.specs.machine import LOCAL
from wina_core.store import Store

_LOOK_SECONDS = 0.2
"""Interval of checking for Ctrl-C."""
COLUMNS = ("job", "title", "on", "state", "done", "total", "unit", "results")

Jobs = Annotated[list[str] | None, typer.Argument(metavar="JOB", help="Ids, as `wina jobs` lists them.")]

app = typer.Typer(
    help="List, follow, cancel and resume jobs of the background and of a cluster's queue.", invoke_without_command=True
)


@app.callback()
def list_jobs(context: typer.Context, database: options.Database = None, as_json: options.Json = False) -> None:
    """List background jobs, array jobs in a queue, whose results it imports, and unfinished ones of dead programs."""
    if context.invoked_subcommand is not None:
        return
    host = background_jobs(database)
    try:
        rows = [_row(status) for status in host.jobs.values()]
    finally:
        host.leave()
    with Store(database) as store:
        rows += arrays.rows(store)
        left = store.unfinished_jobs()
    rows += [(submit.job_id, submit.title, _place(submit), "unfinished", None, None, "", None) for submit in left]
    print_table(COLUMNS, rows, as_json)
    if left:
        typer.echo("Continue the unfinished jobs with: wina jobs resume", err=True)


def _row(status: JobStatus) -> tuple[object, ...]:
    state = "paused" if status.held else "running" if status.started is not None else "waiting"
    progress = status.progress
    done, total, unit = (progress.done, progress.total, progress.unit) if progress is not None else (None, None, "")
    return status.submit.job_id, status.submit.title, _place(status.submit), state, done, total, unit, status.units


def _place(submit: Submit) -> str:
    return ", ".join(submit.machines or (LOCAL,))


@app.command()
def follow(database: options.Database = None) -> None:
    """Show the progress of the jobs until they have ended, and import what array jobs bring; Ctrl-C leaves them."""
    host = background_jobs(database)
    failures: list[str] = []
    try:
        with terminal_reporter("The jobs continue.") as reporter:
            while host.jobs:
                reporter.check()
                match host.next_event(_LOOK_SECONDS):
                    case Progress() as event:
                        reporter.follow(event)
                    case Log(level="warning" | "error") as event:
                        reporter.log(event.level, event.text)
                    case (Failed() | RunFailed()) as event:
                        failures.append(event.error)
            with Store(database) as store:
                failures += arrays.follow(store, reporter)
    except Cancelled:
        return
    finally:
        host.leave()
    if failures:
        raise WinaError(" ".join(dict.fromkeys(failures)))


@app.command()
def cancel(
    jobs: Jobs = None,
    everything: Annotated[bool, typer.Option("--all", help="Cancel all jobs.")] = False,
    database: options.Database = None,
) -> None:
    """Cancel jobs of the background or of a queue; stored results stay."""
    host = background_jobs(database)
    try:
        with Store(database) as store:
            ids = [*host.jobs, *KeptArrays(store.url).names()]
            chosen = ids if everything else list(jobs or ())
            unknown = [job for job in chosen if job not in ids]
            if unknown or not chosen:
                raise WinaError(
                    f'There is no job "{unknown[0]}" in the background or in a queue; `wina jobs` lists them.'
                    if unknown
                    else "No job is named, or there is none; `wina jobs` lists them, --all cancels all."
                )
            host.cancel(arrays.cancel(chosen, store))
    finally:
        host.leave()
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
        found = resumed(store, run_model_code=run_model_code, trust_task_code=trust_task_code)
        if found:
            start(found, store, engines or 0)
    typer.echo(f"{counted(len(found), 'job')} resumed{'; follow with: wina jobs follow' if found else ''}.", err=True)


@app.command()
def discard(database: options.Database = None) -> None:
    """Forget the unfinished jobs of programs that died; their stored results stay."""
    with Store(database) as store:
        left = store.unfinished_jobs(take=True)
        store.forget_jobs([submit.job_id for submit in left])
    typer.echo(f"{counted(len(left), 'job')} discarded.", err=True)


def start(jobs: Sequence[Submit], store: Store, engines: int) -> None:
    """Run jobs in the background; they are kept as unfinished before, so that none is lost on the way."""
    store.keep_jobs(jobs)
    run_in_background(jobs, store.url.render_as_string(hide_password=False), engines)
