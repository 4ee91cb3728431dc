"""`wina study`: the gallery of studies, the models of their roles, and running them."""

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

from wina_core.cli.arguments import options
from wina_core.cli.arguments.flags import taking
from wina_core.cli.arguments.options import panel
from wina_core.cli.arrays import compute_element, looks
from wina_core.cli.computing import RunOptions, queue_study, run_study
from wina_core.cli.counts import counted
from wina_core.cli.tables import print_table
from wina_core.errors import WinaError, near_matches
from wina_core.jobs import PendingRun
from wina_core.jobs.queued import RUNS_PER_ELEMENT
from wina_core.remote import slurm
from wina_core.specs.machine import RayCluster
from wina_core.specs.studies import Role, StudySpec
from wina_core.store import Store
from wina_core.studies.expand import bind, expand, rebind, with_data_folder
from wina_core.studies.gallery import GalleryEntry, count_measurements, find_study, gallery, needs
from wina_core.studies.model_roles import absolute, load_roles, parse_roles, save_role

in_queue = panel("Queue")

app = typer.Typer(help="List and run studies: the paper's tables and figures, and your own.", no_args_is_help=True)


@app.command()
@taking(ray=options.ray_options)
def run(
    *,
    study: options.StudyName,
    role: options.Roles = None,
    data_folder: options.DataFolder = None,
    run_model_code: options.RunModelCode = False,
    trust_task_code: options.TrustTaskCode = False,
    memory: options.Memory = None,
    engines: options.Engines = None,
    ray: RayCluster | None,
    background: options.Background = False,
    _machine: options.Machines = None,
    again: options.Again = False,
    _yes: options.Yes = False,
    samples: options.Samples = False,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Compute a study's missing measurements and print its tables."""
    options.allow_memory(memory)
    manner = RunOptions(
        again=again,
        samples=samples,
        run_model_code=run_model_code,
        trust_task_code=trust_task_code,
        engines=engines,
        ray=ray,
        background=background,
    )
    run_study(open_study(study, role, data_folder), manner, database, as_json)


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
    _yes: options.Yes = False,
    samples: options.Samples = False,
    database: options.Database = None,
) -> None:
    """Submit a study's missing measurements to Slurm as an array job, and return; `wina jobs` shows it."""
    manner = RunOptions(again=again, samples=samples, run_model_code=run_model_code, trust_task_code=trust_task_code)
    parsed = slurm.parse_settings(settings or ())
    spec = open_study(study, role, data_folder)
    if not spec.models:
        raise WinaError("This study measures latencies alone, which belong to one machine; use: wina study run.")
    if spec.latency:
        typer.echo("The study's latencies are not submitted; measure them on a machine with: wina study run.", err=True)
    with Store(database) as store:
        for _array, _look, problem in looks(store):  # what an element has left is submitted again
            if problem:
                raise WinaError(problem)
        _, job = queue_study(spec, manner, store)
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
    """Return the runs that no array job has in the queue."""
    queued = slurm.queued_runs(store)
    left = tuple(run for run in runs if run.spec.content_hash() not in queued)
    if len(left) < len(runs):
        typer.echo(f"{counted(len(runs) - len(left), 'run')} in a queue already: they are left out.", err=True)
    return left


def open_study(name: str, given: list[str] | None, data_folder: str | None = None) -> StudySpec:
    """Open a study by name or file, with models for its roles: those of `--role`, then the saved ones.

    `data_folder` replaces the tasks' data. Raises WinaError for a role without a model.
    """
    study = with_data_folder(find_study(name), data_folder)
    once = {role: absolute(location) for role, location in parse_roles(given or ()).items() if location}
    return bind(rebind(study, once), load_roles() if study.roles else {})


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
        f"{count:,} {what}{'s' if count > 1 else ''}" for count, what in ((runs, "run"), (points, "point")) if count
    )


def _state(entry: GalleryEntry, roles: dict[str, str], store: Store) -> str:
    """Say what keeps a study from running here, or how much of it is stored."""
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
    roles, known = load_roles(), _open_roles()
    given = {name: location and absolute(location) for name, location in parse_roles(mapping or ()).items()}
    for name in given:
        if name not in known and name not in roles:
            raise WinaError(_unknown_role(name, known))
    for name, location in given.items():
        roles = save_role(name, location)
    rows = [(name, known[name].hub if name in known else "", roles.get(name)) for name in sorted({*known, *roles})]
    print_table(("role", "published weights", "model"), rows, as_json)


def _open_roles() -> dict[str, Role]:
    """Return the roles of the gallery's studies whose files name no model, by name."""
    studies = (entry.study for entry in gallery() if entry.study)
    return {role.name: role for study in studies for role in study.roles if not role.location}


def _unknown_role(name: str, known: Iterable[str]) -> str:
    hint = near_matches(name, known) or f"its roles are {', '.join(sorted(known))}."
    return (
        f'No study of the gallery has a role "{name}"; {hint} For a study file elsewhere, give the model with each '
        f'call: --role "{name}=FOLDER".'
    )
