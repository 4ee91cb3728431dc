"""Computing the missing measurements of a study, and printing all of it."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import typer

from wina_core.cli.asking import announce_products
from wina_core.cli.jobs import start
from wina_core.cli.latency import show_products, sweep_products
from wina_core.cli.places import chosen_machines
from wina_core.cli.running import run_recorded, run_recorded_in_pool
from wina_core.cli.tables import pivot, print_table, shown_first, summarized
from wina_core.errors import WinaError
from wina_core.jobs import EvaluateJob, Job, LatencyJob, PendingRun, RunFailed, Submit
from wina_core.model_info.cost.quantizers import check_made
from wina_core.specs.machine import RayCluster
from wina_core.specs.studies import StudySpec
from wina_core.store import MetricFilter, MetricRow, Store
from wina_core.studies.expand import labelled, specs_of
from wina_core.studies.tasks.check_runs import check_runs, unknown_metric
from wina_core.studies.tasks.task_code import task_code

if TYPE_CHECKING:  # torch takes seconds to import
    from wina_core.compute.session.model_session import Session


@dataclass(frozen=True)
class RunOptions:
    """Options of computing a study; no number depends on them."""

    again: bool = False
    """Recompute everything, stored measurements included."""
    samples: bool = False
    run_model_code: bool = False
    trust_task_code: bool = False
    engines: int | None = None
    """Processes that share the runs; 0 for one on each GPU. None for this process alone, on Ray for all that fit."""
    ray: RayCluster | None = None
    """The Ray cluster with the engines; None for this machine."""
    background: bool = False
    """Leave the runs to the background host and return."""


@dataclass(frozen=True)
class Computed:
    """A study that was computed as far as possible."""

    study: str
    """Hash in the store."""
    runs: int
    failures: tuple[RunFailed, ...]

    def check(self) -> None:
        """Raise WinaError with each distinct reason once, if any run failed."""
        if self.failures:
            reasons = " ".join(dict.fromkeys(failure.error for failure in self.failures))
            raise WinaError(f"{len(self.failures)} of {self.runs} runs failed: {reasons}")


def run_study(study: StudySpec, options: RunOptions, database: str | None, as_json: bool) -> None:
    """Compute the missing runs and latencies of a study, and print the tables of all.

    Raises WinaError if there is nothing to measure or a run failed.
    """
    rows: list[MetricRow] = []
    with Store(database) as store:
        if options.background:
            _start(study, options, store)
            return
        computed = compute(study, options, store)
        if study.models:
            rows = store.metric_rows(MetricFilter(study=computed.study))
            if rows:
                shown = rows if as_json else summarized(rows)
                print_table(*pivot(shown_first(shown, study.evaluation)), as_json)
        if study.latency:
            show_products(*sweep_products(study.latency, options.again, store), export=None, as_json=as_json)
    computed.check()
    _check_metrics(rows, study)


def _check_metrics(rows: Sequence[MetricRow], study: StudySpec) -> None:
    """Raise WinaError for a metric that its task lacks; the metrics of some tasks are known only afterwards."""
    for task, metric in study.evaluation.metrics.items():
        found = dict.fromkeys(row.metric for row in rows if row.unit == task)
        if found and metric not in found:
            raise WinaError(unknown_metric(task, metric, found))


def _start(study: StudySpec, options: RunOptions, store: Store) -> None:
    """Start a study's missing measurements in the background, those of its sweep included."""
    if options.ray is not None:
        raise WinaError("Engines on Ray belong to this command; leave out --background or --ray.")
    job = queue_study(study, options, store)[1]
    jobs: list[Job] = [] if job is None else [job]
    if job is not None:
        announce_products(job)
    if study.latency:
        stored = {} if options.again else store.measured_points(study.latency.hashes())
        jobs.append(LatencyJob(spec=study.latency, stored=stored))
    if jobs:
        submits = [
            Submit(job_id=uuid.uuid4().hex[:12], job=job, machines=chosen_machines(), title=study.name) for job in jobs
        ]
        start(submits, store, 1 if options.engines is None else options.engines)
        typer.echo("It is computed in the background; follow it with: wina jobs follow", err=True)


def compute(study: StudySpec, options: RunOptions, store: Store, session: "Session | None" = None) -> Computed:
    """Compute and store a study's missing measurements, or all with `again`; not those of its sweep.

    One engine computes with the models of `session`.
    """
    computed, job = queue_study(study, options, store)
    if job is None:
        return computed
    announce_products(job)
    if options.ray is not None and chosen_machines():
        raise WinaError("A job runs on a Ray cluster or on machines over ssh; leave out --ray or --machine.")
    if options.ray is not None:
        outcome = run_recorded_in_pool(job, store, options.engines or 0, ray=options.ray)
    elif options.engines in (None, 1):
        outcome = run_recorded(job, store, session=session)
    else:
        outcome = run_recorded_in_pool(job, store, options.engines or 0)
    return replace(computed, failures=outcome.failures)


def queue_study(study: StudySpec, options: RunOptions, store: Store) -> tuple[Computed, EvaluateJob | None]:
    """Save a study and return it with the job that computes its missing measurements; None where none are missing."""
    if study.models and not study.evaluation.units:
        raise WinaError(
            "Nothing would be measured; name tasks, or measure the fidelity to the original model (--original)."
        )
    named = labelled(study)
    runs = specs_of(named)
    every = [PendingRun(spec=spec, units=spec.evaluation.units) for spec in runs if spec.evaluation.units]
    pending = every if options.again else store.pending(runs, options.samples)
    check_runs(pending)
    for run in pending:
        check_made(run.spec.model.quantization)
    code = task_code(pending, options.trust_task_code)
    missing, total = (sum(len(run.units) for run in each) for each in (pending, every))
    computed = Computed(store.launch(study, named, pending), len(runs), ())
    if missing < total:
        typer.echo(f"{study.name}: {total - missing} of {total} measurements are stored and reused.", err=True)
    elif missing:
        typer.echo(f"{study.name}: {missing} measurements to compute.", err=True)
    if not pending:
        return computed, None
    job = EvaluateJob(
        runs=tuple(pending),
        samples=options.samples,
        run_model_code=options.run_model_code,
        task_code=code,
        metrics=study.evaluation.metrics,
    )
    return computed, job
