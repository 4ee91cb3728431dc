"""Evaluation of runs, one measurement after the other."""

import json
import random
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from typing import Literal

import numpy as np
import torch

from wina_core.compute import pausable_clock
from wina_core.compute.evaluation import measure_fidelity, measure_original
from wina_core.compute.evaluation.fidelity import carry_fidelity
from wina_core.compute.evaluation.shared_passes import TEXT, SharedPasses, passes_name
from wina_core.compute.gating import Gates, attach
from wina_core.compute.gating.inspection import expert_records
from wina_core.compute.hooks import cancellable
from wina_core.compute.memory import release_memory, trim_memory
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.reporter import Level, Reporter
from wina_core.compute.session.model_session import Session, unchanged
from wina_core.compute.stages import Stages
from wina_core.compute.synthetic import measure_synthetic
from wina_core.engine.server.cost import cost_metrics, count_run
from wina_core.errors import Cancelled, WinaError, ran_out_of_memory, unforeseen
from wina_core.jobs import Emit, EvaluateJob, Partial, PendingRun, RunFailed, RunFinished, RunStarted
from wina_core.jobs.job_specs import Group, by_model, group_of
from wina_core.jobs.planning import counts_alone
from wina_core.jobs.progress import Stage
from wina_core.model_info import products
from wina_core.records import LayerRecord, RefinementStep, RotationReport, SampleRecord, UnitRecord
from wina_core.specs import (
    COST,
    FIDELITY,
    ORIGINAL,
    OWN_UNITS,
    SYNTHETIC,
    AllocatedSparsity,
    Configuration,
    EvaluationSpec,
    RotationSpec,
    RunSpec,
    TextSpec,
)
from wina_core.specs.allocations import check_allocator
from wina_core.specs.methods import get_method
from wina_core.specs.plans import SparsityPlan, UniformSparsity
from wina_core.specs.quantization import check_made

# ---- progress in measurements, which the runs report in turn ---------------------------------------------------------


class RunProgress:
    """Measurements of a job's runs that are done."""

    def __init__(self, runs: Sequence[PendingRun]) -> None:
        self.total = sum(len(run.units) for run in runs)
        self._done: set[tuple[str, str]] = set()
        """Runs, by their hash, and units that are measured, have failed, or have passed the layers with others."""
        self._reached = 0.0
        """Largest measurements done so far: what is measured again counts once."""

    def add(self, run: PendingRun, unit: str) -> None:
        if unit in run.units:
            self._done.add((run.spec.content_hash(), unit))

    def reached(self, under_way: Sequence[PendingRun] = (), unit: str = "", fraction: float = 0.0) -> float:
        """Return the number of measurements done, with a fraction for a unit that runs measure together."""
        more = sum((run.spec.content_hash(), unit) not in self._done for run in under_way)
        self._reached = max(self._reached, len(self._done) + fraction * more)
        return self._reached


class RunReporter(Reporter):
    """Reporter of one run within a job."""

    def __init__(self, reporter: Reporter, run: PendingRun, progress: RunProgress) -> None:
        spec = run.spec
        configuration = Configuration(rotation=spec.rotation, method=spec.method).label
        self._label = (
            configuration if spec.method.name == "dense" else f"{configuration}, {100 * spec.plan.budget:.4g} %"
        )
        self._reporter = reporter
        self._run = run
        self._progress = progress
        self._stage: Stage = ""
        self._unit: str | None = None
        self._together = [run]

    def of(self, run: PendingRun) -> "RunReporter":
        return RunReporter(self._reporter, run, self._progress)

    def begin(self, unit: str, together: Sequence[PendingRun] = ()) -> None:
        """Begin a unit, of this run or of several together, which later progress belongs to."""
        self._unit, self._together = unit, list(together) or [self._run]
        self.stage("")
        self.progress(0, 1, unit)

    def carried(self) -> None:
        """Count the unit of several runs as done: what follows the layers takes little time."""
        assert self._unit is not None  # `begin`
        for run in self._together:
            self._progress.add(run, self._unit)
        self._unit, self._together = None, [self._run]

    def close(self) -> None:
        """Count all units of the run as done, also those that a failed run has left out."""
        for unit in self._run.units:
            self._progress.add(self._run, unit)

    def end(self) -> None:
        assert self._unit is not None  # `begin`
        self.progress(1, 1, "")
        self._progress.add(self._run, self._unit)
        self._unit = None

    def stage(self, name: Stage) -> None:
        self._stage = name
        self._reporter.stage(name)

    def progress(self, done: float, total: float | None, unit: str, metric: str = "") -> None:
        fraction = min(1.0, done / total) if total else 0.0
        if self._unit is None:
            reached = self._progress.reached()
            share = f"{100 * fraction:.0f} %" if total else ""
            doing = ", ".join(filter(None, (": ".join(filter(None, (self._stage, metric))), share)))
        else:
            reached = self._progress.reached(self._together, self._unit, fraction)
            doing = metric or self._unit
        self._reporter.progress(reached, self._progress.total, "measurements", f"{self._label}: {doing or unit}")

    def refined(self, step: RefinementStep) -> None:
        self._reporter.refined(step)

    def log(self, level: Level, text: str) -> None:
        self._reporter.log(level, f"{self._label}: {text}")

    def check(self) -> None:
        self._reporter.check()


def evaluate_runs(job: EvaluateJob, session: Session, emit: Emit, reporter: Reporter, job_id: str) -> None:
    """Evaluate the runs, those of one rotated model together; report a run that fails and continue with the next."""
    progress = RunProgress(job.runs)

    @cache  # once per evaluation of the job, not per run: it reads the tasks' data
    def check(evaluation: EvaluationSpec) -> None:
        if evaluation.tasks:
            from wina_core.compute.evaluation.tasks import check_tasks  # loads lm-eval

            check_tasks(evaluation, job.run_model_code, job.metrics, job.task_code)

    reported: set[Group] = set()

    def chosen(spec: RunSpec, unit: UnitRecord, stage: Reporter) -> RotationReport | None:
        """Return the rotation that auto has chosen, once for each model, with a unit for which it is loaded."""
        group = (spec.model, spec.rotation)
        if not spec.rotation.is_auto or unit.unit in (COST, SYNTHETIC) or group in reported:
            return None
        reported.add(group)
        loaded = session.prepare(spec.model, spec.rotation, stage)
        choice = session.choice(spec.model, spec.rotation, stage)
        return session.rotation_report(loaded, spec.rotation, choice)

    with closing(_Passes(session, job.runs)) as passes:
        for pending in (run for group_runs in by_model(job.runs).values() for run in group_runs):
            run = pending.spec.content_hash()
            emit(RunStarted(job_id=job_id, run=run))
            stage = RunReporter(reporter, pending, progress)
            exhausted = False
            try:
                check_made(pending.spec.model.quantization, load=True)
                check_allocator(pending.spec.plan, load=True)
                if not set(pending.units) <= set(OWN_UNITS):
                    check(pending.spec.evaluation)

                def finished(unit: UnitRecord, pending: PendingRun = pending, stage: RunReporter = stage) -> None:
                    emit(Partial(job_id=job_id, unit=unit, rotation=chosen(pending.spec, unit, stage)))

                _measure(pending, session, passes, finished, stage, job)
            except Cancelled:
                raise
            except WinaError as error:
                emit(RunFailed(job_id=job_id, run=run, error=str(error)))
            except Exception as error:
                exhausted = ran_out_of_memory(error)
                if not exhausted:
                    if isinstance(error, torch.AcceleratorError):  # every later call fails, until the process ends
                        raise
                    stage.log("error", traceback.format_exc())  # a defect: log it in full, and continue
                emit(RunFailed(job_id=job_id, run=run, error=unforeseen(error), detail=traceback.format_exc()))
            else:
                emit(RunFinished(job_id=job_id, run=run))
            if exhausted:  # here, since the traceback of the error holds the model until its block ends
                passes.close()
                session.clear()
                release_memory()
            stage.close()
        passes.finish()


def _measure(
    pending: PendingRun,
    session: Session,
    passes: "_Passes",
    finished: Callable[[UnitRecord], None],
    stage: RunReporter,
    job: EvaluateJob,
) -> None:
    """Gate the model by the run's spec, and measure its pending units one by one; COST reads no weights."""
    spec = pending.spec
    if spec.evaluation.synthetic is not None:
        stage.begin(SYNTHETIC)
        finished(measure_synthetic(spec, stage))
        stage.end()
        return
    get_method(spec.method)
    plan, units = spec.plan, pending.units
    if COST in units and counts_alone(spec):
        assert not isinstance(plan, AllocatedSparsity)
        _count(spec, spec.rotation, plan, (), finished, stage)
        units = tuple(unit for unit in units if unit != COST)
    if not units:
        return
    text, batch_size = spec.evaluation.original, spec.evaluation.batch_size
    reference = None
    if text is not None and ORIGINAL in units:
        # Before the configuration's model is loaded: beside it, memory may not hold the original in float32.
        reference = session.reference(spec.model, text, batch_size, stage)
    loaded = session.prepare(spec.model, spec.rotation, stage)
    allocated = tuple[LayerRecord, ...]()
    if isinstance(plan, AllocatedSparsity):
        plan, _ = session.allocation(loaded, spec.rotation, spec.method, plan, spec.calibration, stage)
        allocated = _cells(plan)
    with passes.gates(pending, loaded, plan, stage) as gates, cancellable(loaded.model, stage):
        shared = passes.shared
        # The fidelity first: its passes and their counts may be shared with other runs.
        for unit in sorted(units, key=lambda unit: unit != FIDELITY):
            if unit == COST:
                _count(spec, session.chosen(spec.model, spec.rotation, stage), plan, allocated, finished, stage)
                continue
            stage.begin(unit)
            start = pausable_clock.now()
            samples: list[SampleRecord] | None = [] if job.samples else None
            _seed(spec.evaluation.seed)
            start -= passes.carried_seconds(spec.content_hash(), unit)  # its share counts as time of its own
            if unit == FIDELITY:
                assert spec.evaluation.fidelity is not None  # else FIDELITY is none of its units
                metrics = measure_fidelity(loaded, gates, spec.evaluation.fidelity, batch_size, stage, shared=shared)
            elif unit == ORIGINAL:
                assert reference is not None  # likewise
                assert text is not None
                samples = []  # a few rows, which comparisons need
                metrics = measure_original(loaded, gates, reference, batch_size, stage, samples, shared, text.scored)
            else:
                from wina_core.compute.evaluation.harness import evaluate_task  # loads lm-eval

                shared.forget(gates, TEXT)
                gates.reset_counts()  # of the text before: a task's sparsity is that of its own tokens
                metrics = evaluate_task(
                    loaded,
                    gates,
                    spec.evaluation,
                    unit,
                    stage,
                    samples=samples,
                    run_model_code=job.run_model_code,
                    task_code=job.task_code,
                    shared=shared,
                    sharing=passes.later(unit, spec.evaluation),
                )
            finished(
                UnitRecord(
                    run=spec.content_hash(),
                    unit=unit,
                    metrics=metrics,
                    layers=(*gates.measured(), *allocated),
                    experts=expert_records(loaded.view.layers, gates.forwards),
                    gated_sparsity=gates.gated_sparsity,
                    net_sparsity=gates.net_sparsity,
                    seconds=pausable_clock.now() - start,
                    samples=tuple(samples or ()),
                )
            )
            shared.forget(gates, passes_name(unit))
            stage.end()
            # The C library keeps what this unit has freed between pieces in use.
            trim_memory()


class _Passes:
    """Passes of texts that the runs of a rotated model share.

    Where memory does not hold the weights, a text passes each layer for all runs of the model before the next one.
    """

    def __init__(self, session: Session, runs: Sequence[PendingRun]) -> None:
        self._session = session
        self._runs = runs
        self._group: Group | None = None
        self._ahead: dict[str, tuple[PendingRun, Gates, ExitStack]] = {}
        """Gates of later runs, by their hash, which are removed until the stack is closed."""
        self.stages = Stages()
        """Interrupted passes of the model in use."""
        self.shared = SharedPasses()
        """Passes of the model in use."""
        self._carried: dict[tuple[str, str], float] = {}
        """Each run's share of the seconds of passing the layers together, by its hash and unit."""

    def carried_seconds(self, run: str, unit: str) -> float:
        """Return, once, a run's share of the seconds in which a unit's text passed the layers for several runs."""
        return self._carried.pop((run, unit), 0.0)

    @contextmanager
    def gates(
        self, pending: PendingRun, loaded: LoadedModel, plan: UniformSparsity | SparsityPlan, stage: RunReporter
    ) -> Iterator[Gates]:
        """Gate a model by a run's spec within the block."""
        if group_of(pending) != self._group:
            self.finish()
            self._group = group_of(pending)
            self.stages = self._session.passes(loaded, pending.spec.rotation, stage)
            self.shared = SharedPasses(self.stages)
            if loaded.view.mapped is not None:
                self._carry(loaded, stage)
        ahead = self._ahead.pop(pending.spec.content_hash(), None)
        if ahead is None:
            gates = self._attach(pending.spec, loaded, plan, stage)
        else:
            _, gates, removed = ahead
            removed.close()
        with gates:
            try:
                yield gates
            finally:
                self.shared.forget(gates)

    def finish(self) -> None:
        """Close, and remove the files of the passes: all runs of the model have ended."""
        self.shared.finish()
        self.close()

    def close(self) -> None:
        """Detach the gates of later runs, and free what has passed the layers."""
        for _, gates, removed in self._ahead.values():
            removed.close()
            gates.detach()
        self._group, self._ahead, self.stages, self.shared, self._carried = None, {}, Stages(), SharedPasses(), {}

    def _attach(
        self, spec: RunSpec, loaded: LoadedModel, plan: UniformSparsity | SparsityPlan, stage: RunReporter
    ) -> Gates:
        calibration, resolved = self._session.gating(loaded, spec.rotation, spec.method, plan, spec.calibration, stage)
        gates = attach(loaded, spec.method, resolved, calibration, spec.evaluation.dense_prefix)
        identity = {
            "run": spec.content_hash(),
            "calibration": "" if calibration is None else calibration.digest,
            "fractions": json.dumps(resolved.fractions),
        }
        self.shared.name(gates, products.digest(identity))
        return gates

    def later(self, unit: str, evaluation: EvaluationSpec) -> list[Gates]:
        ahead = self._ahead.values()
        return [gates for run, gates, _ in ahead if unit in run.units and run.spec.evaluation == evaluation]

    def _carry(self, loaded: LoadedModel, stage: RunReporter) -> None:
        """Gate the model by all runs of the group, and carry their texts through the layers, the dense model's with
        them.

        A run whose gates cannot be made fails in its turn.
        """
        lanes: dict[tuple[TextSpec, int | Literal["auto"]], dict[PendingRun, tuple[str, Gates]]] = {}
        for pending in self._runs:
            spec = pending.spec
            # An allocated plan is known only in the turn of its run, which computes it.
            if group_of(pending) != self._group or isinstance(spec.plan, AllocatedSparsity):
                continue
            try:
                gates = self._attach(spec, loaded, spec.plan, stage.of(pending))
            except WinaError:
                continue
            stack = ExitStack()
            stack.enter_context(gates.removed())
            self._ahead[spec.content_hash()] = pending, gates, stack
            for unit, text in ((FIDELITY, spec.evaluation.fidelity), (ORIGINAL, spec.evaluation.original)):
                if unit in pending.units and text is not None:
                    lanes.setdefault((text, spec.evaluation.batch_size), {}).setdefault(pending, (unit, gates))
        for (text, size), lane in lanes.items():
            units = {unit for unit, _ in lane.values()}
            stage.begin(min(units), list(lane))  # the fidelity, if it is among them
            start = pausable_clock.now()
            gated = [gates for _, gates in lane.values() if not gates.is_dense]
            # A fidelity compares with the dense model, and dense runs have its pass as their own.
            dense = [None] if FIDELITY in units or len(gated) < len(lane) else []
            try:
                carry_fidelity(loaded, [*dense, *gated], text, size, stage, self.shared)
            except WinaError as error:
                stage.log("warning", f"The runs pass the layers one by one, since together: {error}")
            share = (pausable_clock.now() - start) / len(lane)
            self._carried |= {(pending.spec.content_hash(), unit): share for pending, (unit, _) in lane.items()}
            stage.carried()


def _count(
    spec: RunSpec,
    rotation: RotationSpec,
    plan: UniformSparsity | SparsityPlan,
    allocated: tuple[LayerRecord, ...],
    finished: Callable[[UnitRecord], None],
    stage: RunReporter,
) -> None:
    """Count the cost of a token, with the plan's sparsities instead of measured ones."""
    stage.begin(COST)
    start = pausable_clock.now()
    unchanged(spec.model)
    row = count_run(spec.model_copy(update={"rotation": rotation}), plan, stage)
    finished(
        UnitRecord(
            run=spec.content_hash(),
            unit=COST,
            metrics=cost_metrics(row),
            layers=allocated,
            gated_sparsity=row.gated_sparsity,
            net_sparsity=row.net_sparsity,
            seconds=pausable_clock.now() - start,
        )
    )
    stage.end()


def _cells(plan: SparsityPlan) -> tuple[LayerRecord, ...]:
    """Return an allocated plan as records, so that it is stored with its measurements."""
    tables = {"target": plan.sparsity, "rho": plan.rho}
    return tuple(
        LayerRecord(layer=layer, projection=projection, metric=metric, value=value)
        for metric, table in tables.items()
        for layer, row in enumerate(table or ())
        for projection, value in zip(plan.layout.projections, row, strict=True)
    )


def _seed(seed: int) -> None:
    """Seed every unit alike, so that no number depends on earlier computations."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
