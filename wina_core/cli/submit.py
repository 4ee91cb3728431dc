"""`wina study submit`: a study's missing measurements as an array job in a cluster's queue."""

import typer

from wina_core.cli.computing import RunOptions, queue_study
from wina_core.cli.counts import counted
from wina_core.errors import WinaError
from wina_core.remote.cluster import arrays
from wina_core.remote.cluster.asking import ask
from wina_core.remote.cluster.slurm.settings import SlurmSettings
from wina_core.specs.studies import StudySpec
from wina_core.store import Store


def submit_study(
    study: StudySpec,
    options: RunOptions,
    machine: str,
    settings: SlurmSettings,
    runs_per_element: int,
    database: str | None,
) -> None:
    """Submit a study's missing measurements as an array job; runs that are in a queue already stay there."""
    if not study.models:
        raise WinaError("This study measures latencies alone, which belong to one machine; use: wina study run.")
    if study.latency:
        typer.echo("The study's latencies are not submitted; measure them on a machine with: wina study run.", err=True)
    with Store(database) as store:
        _, job = queue_study(study, options, store)
        if job is None:
            return
        elements = arrays.split_job(job, runs_per_element)
        array = arrays.submit(elements, study.name, machine, settings, store, ask)
    typer.echo(
        f"Submitted as array job {array.job} of {counted(len(elements), 'element')} ({array.id}); follow it with: "
        "wina jobs follow",
        err=True,
    )
