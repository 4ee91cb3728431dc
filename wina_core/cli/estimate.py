"""`wina study estimate`: the expected time of a study's missing measurements."""

import os

import typer

from wina_core.cli.arguments import options
from wina_core.cli.asking import announce_memory
from wina_core.cli.running import run_recorded
from wina_core.cli.study import app, open_study
from wina_core.cli.tables import print_table
from wina_core.jobs import EstimateJob
from wina_core.records import EstimateRecord
from wina_core.store import Store
from wina_core.studies.expand import expand
from wina_core.studies.tasks.check_runs import check_runs
from wina_core.studies.tasks.task_code import task_code

NOT_INCLUDED = "Loading, rotating, calibrating and allocating are not included."
NO_SWEEP = "The sweep of products is not included."


@app.command()
def estimate(
    study: options.StudyName,
    role: options.Roles = None,
    data_folder: options.DataFolder = None,
    run_model_code: options.RunModelCode = False,
    trust_task_code: options.TrustTaskCode = False,
    memory: options.Memory = None,
    samples: options.Samples = False,
    _machine: options.Machines = None,
    database: options.Database = None,
    as_json: options.Json = False,
) -> None:
    """Time a few documents of each missing measurement, and print the study's expected time with one engine.

    What is prepared for them has lines of its own: with the time that it took before, or else by a timed pass of the
    model, which is a rough guess.
    """
    options.allow_memory(memory)
    opened = open_study(study, role, data_folder)
    runs = expand(opened)
    with Store(database) as store:
        pending = tuple(store.pending(runs, samples))
        check_runs(pending)
        code = task_code(pending, trust_task_code)
        missing = [run.spec for run in pending]
        record = EstimateRecord(seconds=0.0, units=0, estimates=())
        if pending:
            os.environ.setdefault("TQDM_DISABLE", "1")  # before the import below
            from wina_core.compute.session.environment import environment

            stored = store.unit_seconds(missing, environment().hardware)
            job = EstimateJob(runs=pending, stored=stored, run_model_code=run_model_code, task_code=code)
            announce_memory(job)
            value = run_recorded(job, store).value
            assert isinstance(value, EstimateRecord)
            record = value
    columns = ("measurement", "seconds", "basis")
    print_table(columns, [(each.unit, round(each.seconds, 2), each.basis) for each in record.estimates], as_json)
    for each in record.preparations or ():
        basis = "as before" if each.basis == "stored" else "from a trial pass of the model"
        typer.echo(f"{each.stage}: {_duration(each.seconds)}, {basis}", err=True)
    lines = [f"{record.units} measurements are missing: {_duration(record.seconds)}."]
    lines += [f"With the preparations, {_duration(record.seconds + record.preparing_seconds)}."] * bool(record.units)
    if record.preparations is None and record.units:
        lines[1:] = [NOT_INCLUDED]
    typer.echo(" ".join([*lines, *([NO_SWEEP] if opened.latency else [])]), err=True)


def _duration(seconds: float) -> str:
    """Format a time in the fitting unit, such as "about 4 minutes"."""
    for length, unit in ((3600.0, "hour"), (60.0, "minute")):
        if seconds >= 1.5 * length:
            return f"about {seconds / length:.1f} {unit}s"
    return f"about {seconds:.0f} seconds"
