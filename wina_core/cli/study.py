"""`wina study`: the gallery of studies, the models of their roles, their expected time, and running them."""

import uuid
from collections.abc import Sequence
from functools import partial
from statistics import fmean
from typing import Annotated

import typer

from wina_core.api.stored import pivot, shown_first
from wina_core.api.studies import compute_study, launch_study, open_study, sweep_products
from wina_core.cli import options
from wina_core.cli.arrays import compute_element
from wina_core.cli.jobs import start
from wina_core.cli.latency import show_timings
from wina_core.cli.makers import confirm_products, machines_of
from wina_core.cli.options import panel
from wina_core.cli.tables import counted, print_table, summarized
from wina_core.errors import WinaError, near_matches
from wina_core.files.hardware import allow_memory
from wina_core.jobs import Job, LatencyJob, PendingRun, Submit
from wina_core.jobs.progress import expected_seconds
from wina_core.remote import slurm
from wina_core.remote.slurm_settings import RUNS_PER_ELEMENT, parse_settings
from wina_core.specs.studies import StudySpec
from wina_core.store import MetricFilter, MetricRow, Store
from wina_core.studies.expand import bind, expand
from wina_core.studies.gallery import (
    GalleryEntry,
    absolute,
    count_measurements,
    gallery,
    load_roles,
    needs,
    parse_roles,
    save_role,
)
from wina_core.studies.launch import LaunchOptions
from wina_core.studies.tasks.check_runs import check_runs, unknown_metric

NO_SWEEP = "The sweep of products is not included."
in_queue = panel("Queue")

app = typer.Typer(help="List and run studies: the paper's tables and figures, and your own.", no_args_is_help=True)


@app.command()
def run(
    *,
    study: options.StudyName,
    role: options.Roles = None,
    data_folder: options.DataFolder = None,
    run_model_code: options.RunModelCode = False,
    trust_task_code: options.TrustTaskCode = False,
    memory: options.Memory = None,
    engines: options.Engines = None,
    background: options.Background = False,
    machine: options.Machines = None,
    again: options.Again = False,
    yes: options.Yes = False,
    samples: options.Samples = False,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Compute a study's missing measurements and print its tables."""
    allow_memory(memory)
    launch = LaunchOptions(
        recompute=again,
        samples=samples,
        run_model_code=run_model_code,
        trust_task_code=trust_task_code,
        machines=machines_of(machine),
    )
    opened = open_study(study, parse_roles(role or ()), data_folder)
    run_study(opened, launch, database, as_json, engines=engines, background=background, yes=yes)


@app.command()
def submit(
    study: options.StudyName,
    settings: Annotated[
        list[str] | None,
        in_queue(
            "--slurm",
            metavar="NAME=VALUE,...",
            help="Repeatable: partition, account, qos, gpus, cpus, mem, time (of an element), parallel (elements at "
            "once), signal (seconds before the limit), and any long option of sbatch.",
        ),
    ] = None,
    runs_per_element: Annotated[
        int, in_queue(min=1, help="Most runs of an element of the array, which share a rotated model.")
    ] = RUNS_PER_ELEMENT,
    role: options.Roles = None,
    data_folder: options.DataFolder = None,
    run_model_code: options.RunModelCode = False,
    trust_task_code: options.TrustTaskCode = False,
    again: options.Again = False,
    samples: options.Samples = False,
    database: options.Database = None,
) -> None:
    """Submit a study's missing measurements to Slurm as an array job, and return; `wina jobs` shows it."""
    launch = LaunchOptions(
        recompute=again, samples=samples, run_model_code=run_model_code, trust_task_code=trust_task_code
    )
    parsed = parse_settings(settings or ())
    spec = open_study(study, parse_roles(role or ()), data_folder)
    if not spec.models:
        raise WinaError("This study measures latencies alone, which belong to one machine; use: wina study run.")
    if spec.latency:
        typer.echo("The study's latencies are not submitted; measure them on a machine with: wina study run.", err=True)
    with Store(database) as store:
        for array in slurm.submitted_arrays(store):  # what an element has left is submitted again
            slurm.update_array(array, store)
        job = launch_study(spec, launch, store).job
        runs = _not_queued(job.runs, store) if job is not None else ()
        if job is None or not runs:
            return
        elements = slurm.split_job(job.model_copy(update={"runs": runs}), runs_per_element)
        array = slurm.submit(elements, spec, parsed, store, compute_element)
    typer.echo(
        f"Submitted as array job {array.job} of {counted(len(elements), 'element')} ({array.id}); follow it with: "
        "wina jobs follow",
        err=True,
    )


def _not_queued(runs: Sequence[PendingRun], store: Store) -> tuple[PendingRun, ...]:
    """Return the runs that no array job has in the queue, and print how many are left out."""
    queued = slurm.queued_runs(store)
    left = tuple(run for run in runs if run.spec.content_hash() not in queued)
    if len(left) < len(runs):
        typer.echo(f"{counted(len(runs) - len(left), 'run')} in a queue already: they are left out.", err=True)
    return left


def run_study(
    study: StudySpec,
    options: LaunchOptions,
    database: str | None,
    as_json: bool,
    *,
    engines: int | None = None,
    background: bool = False,
    yes: bool = False,
) -> None:
    """Compute the missing runs and latencies of a study, and print the tables of all; in the background, only start.

    Raises WinaError if there is nothing to measure or a run failed.
    """
    rows: list[MetricRow] = []
    confirm = partial(confirm_products, machines=options.machines, yes=yes)
    with Store(database) as store:
        if background:
            _start(study, options, store, 1 if engines is None else engines, yes)
            return
        computed = compute_study(study, options, store, confirm=confirm, engines=engines)
        if study.models:
            rows = store.metric_rows(MetricFilter(study=computed.study))
            if rows:
                printed = rows if as_json else summarized(rows)
                print_table(*pivot(shown_first(printed, study.evaluation)), as_json)
        if study.latency:
            timed = sweep_products(study.latency, options.recompute, store, machines=options.machines)
            show_timings(*timed, as_json=as_json)
    computed.check()
    _check_metrics(rows, study)


def _check_metrics(rows: Sequence[MetricRow], study: StudySpec) -> None:
    """Raise WinaError for a metric that its task lacks."""
    # After the evaluation: before it, the metrics of some tasks are not known.
    for task, metric in study.evaluation.metrics.items():
        metrics = dict.fromkeys(row.metric for row in rows if row.unit == task)
        if metrics and metric not in metrics:
            raise WinaError(unknown_metric(task, metric, metrics))


def _start(study: StudySpec, options: LaunchOptions, store: Store, engines: int, yes: bool) -> None:
    """Start a study's missing measurements in the background, those of its sweep included."""
    job = launch_study(study, options, store).job
    jobs: list[Job] = [] if job is None else [job]
    if job is not None:
        confirm_products(job, options.machines, yes)
    if study.latency:
        stored = {} if options.recompute else store.measured_points(study.latency.hashes())
        jobs.append(LatencyJob(spec=study.latency, stored=stored))
    if jobs:
        submits = [
            Submit(job_id=uuid.uuid4().hex[:12], job=job, machines=options.machines, title=study.name) for job in jobs
        ]
        start(submits, store, engines)
        typer.echo("It is computed in the background; follow it with: wina jobs follow", err=True)


@app.command()
def estimate(
    study: options.StudyName,
    role: options.Roles = None,
    data_folder: options.DataFolder = None,
    samples: options.Samples = False,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Print the expected time of a study's missing measurements with one engine, by equal ones stored on this machine.

    Loading, and preparations such as rotations, are not included.
    """
    opened = open_study(study, parse_roles(role or ()), data_folder)
    with Store(database) as store:
        pending = tuple(store.pending(expand(opened), samples))
        check_runs(pending)
        stored: dict[str, float] = {}
        if pending:
            from wina_core.compute.session.environment import environment

            stored = store.unit_seconds([run.spec for run in pending], environment().hardware)
    rows, known_seconds, unknown = list[tuple[object, ...]](), 0.0, 0
    for unit, seconds in expected_seconds(pending, stored).items():
        known = [value for value in seconds if value is not None]
        known_seconds += sum(known)
        unknown += len(seconds) - len(known)
        rows.append((unit, round(fmean(known), 2) if known else None, "stored" if known else "unknown"))
    print_table(("measurement", "seconds", "basis"), rows, as_json)
    units = sum(len(run.units) for run in pending)
    lines = [f"{units} measurements are missing: {_duration(known_seconds)}."]
    if unknown:
        lines.append(f"The time of {unknown} of them is unknown: none like them was measured on this machine.")
    typer.echo(" ".join([*lines, *([NO_SWEEP] if opened.latency else [])]), err=True)


def _duration(seconds: float) -> str:
    """Format a time in the fitting unit, such as "about 4 minutes"."""
    for length, unit in ((3600.0, "hour"), (60.0, "minute")):
        if seconds >= 1.5 * length:
            return f"about {seconds / length:.1f} {unit}s"
    return f"about {seconds:.0f} seconds"


@app.command("list")
def list_studies(database: options.Database = None, as_json: options.Json = False) -> None:
    """List the gallery: each study with its size, and what it needs or how much of it is stored."""
    roles = load_roles()
    with Store(database) as store:
        rows = [(entry.kind, entry.name, entry.title, _size(entry), _state(entry, roles, store)) for entry in gallery()]
    print_table(("kind", "study", "title", "measures", "state"), rows, as_json)


def _size(entry: GalleryEntry) -> str:
    if entry.study is None:
        return ""
    runs, points = count_measurements(entry.study)
    return " and ".join(
        f"{count:,} {noun}{'s' if count > 1 else ''}" for count, noun in ((runs, "run"), (points, "point")) if count
    )


def _state(entry: GalleryEntry, roles: dict[str, str], store: Store) -> str:
    """Return the reason why a study does not run here, or how much of it is stored."""
    if entry.study is None:
        return entry.error
    missing = needs(entry.study, roles)
    if missing:
        return "needs " + ", ".join(f"{role.name} ({role.hub})" if role.hub else role.name for role in missing)
    try:
        stored, total = _stored(bind(entry.study, roles), store)
    except WinaError as error:
        return str(error)
    return f"runs here, {stored} of {total} measurements stored" if stored else "runs here"


def _stored(study: StudySpec, store: Store) -> tuple[int, int]:
    """Count the stored measurements and all; a sweep's points count on the machine that has most of them."""
    runs = expand(study)
    units = sum(len(run.evaluation.units) for run in runs)
    missing = sum(len(run.units) for run in store.pending(runs))
    if study.latency is None:
        return units - missing, units
    points = store.measured_points(study.latency.hashes()).values()
    return units - missing + max(map(len, points), default=0), units + len(study.latency.points())


@app.command("roles")
def map_roles(
    mapping: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME=FOLDER",
            help='For example "Llama-2-7B=/models/llama-2-7b"; a Hugging Face id works too. NAME= removes the model.',
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Choose the models for the studies' roles, and print all roles."""
    roles = load_roles()
    studies = [entry.study for entry in gallery() if entry.study]
    study_roles = {role.name: role for study in studies for role in study.roles if not role.location}
    mapped = {name: location and absolute(location) for name, location in parse_roles(mapping or ()).items()}
    for name in mapped:
        if name not in study_roles and name not in roles:
            hint = near_matches(name, study_roles) or f"its roles are {', '.join(sorted(study_roles))}."
            raise WinaError(
                f'No study of the gallery has a role "{name}"; {hint} For a study file elsewhere, give the model with '
                f'each call: --role "{name}=FOLDER".'
            )
    for name, location in mapped.items():
        roles = save_role(name, location)
    names = sorted({*study_roles, *roles})
    rows = [(name, study_roles[name].hub if name in study_roles else "", roles.get(name)) for name in names]
    print_table(("role", "published weights", "model"), rows, as_json)
