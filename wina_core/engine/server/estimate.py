"""Estimated time of missing measurements, from a few documents of each, timed on the dense model."""

import math
import statistics
from collections.abc import Callable, Sequence
from functools import cache

import torch

from wina_core.compute import pausable_clock
from wina_core.compute.evaluation import measure_fidelity
from wina_core.compute.gating import attach
from wina_core.compute.hooks import cancellable
from wina_core.compute.latency.products import time_turns
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.reporter import NullReporter, Reporter
from wina_core.compute.session.model_session import Session
from wina_core.compute.synthetic import measure_synthetic
from wina_core.engine.server.cost import count_run
from wina_core.jobs import EstimateJob, EvaluateJob, PendingRun
from wina_core.jobs.planning import missing_products
from wina_core.records import EstimateRecord, PreparationEstimate, ProductKind, UnitEstimate
from wina_core.specs import (
    COST,
    DENSE,
    FIDELITY,
    NO_ROTATION,
    ORIGINAL,
    SYNTHETIC,
    AllocatedSparsity,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    RunSpec,
    SyntheticSpec,
    TextSpec,
)
from wina_core.specs.methods import get_method
from wina_core.specs.plans import SparsityPlan, UniformSparsity
from wina_core.specs.runs import measurement_key

PROBE_SECONDS = 2.0
"""Time for the timed documents of one unit together; a single one may take longer."""
PROBE_PIECES = 16
"""Maximum number of timed documents or rows."""
_ROWS, _TOKENS, _TURNS = 4, 64, 3
"""Batch, length and repetitions of the forward passes that compare gated and dense."""

Plan = UniformSparsity | SparsityPlan


def estimate(job: EstimateJob, session: Session, reporter: Reporter) -> EstimateRecord:
    """Estimate the seconds of every missing measurement on one engine, and of what is prepared for them.

    Stored times of similar measurements replace timing. One forward pass of a gated run, without its rotation, gives
    the slowdown of all gated runs. Preparations take their stored seconds; those without any are counted.
    Raises the errors of measuring, such as WinaError for an unknown task.
    """
    return _Estimate(job, session, _Quiet(reporter)).record()


class _Estimate:
    """The estimate of one job; everything is timed at most once."""

    def __init__(self, job: EstimateJob, session: Session, reporter: "_Quiet") -> None:
        self._job = job
        self._session = session
        self._reporter = reporter
        self._slowdown = cache(self._measure_slowdown)
        self._dense: dict[str, float] = {}

    def record(self) -> EstimateRecord:
        timings: dict[tuple[ModelSource, str], list[tuple[float, bool]]] = {}
        total = sum(len(run.units) for run in self._job.runs)
        for done, (spec, unit) in enumerate((run.spec, unit) for run in self._job.runs for unit in run.units):
            self._reporter.count(done, total, f"timing {unit}")
            timings.setdefault((spec.model, unit), []).append(self._seconds(spec, unit))
        estimates = tuple(
            UnitEstimate(
                unit=unit,
                seconds=statistics.fmean(seconds for seconds, _ in unit_timings),
                basis="stored" if all(stored for _, stored in unit_timings) else "probe",
            )
            for (_, unit), unit_timings in timings.items()
        )
        seconds = math.fsum(seconds for unit_timings in timings.values() for seconds, _ in unit_timings)
        return EstimateRecord(
            seconds=seconds, units=total, estimates=estimates, preparations=_preparations(self._job.runs)
        )

    def _seconds(self, spec: RunSpec, unit: str) -> tuple[float, bool]:
        """Return the seconds of a measurement, and whether they are stored ones of similar measurements."""
        stored = self._job.stored
        if (key := measurement_key(spec, unit)) in stored:
            return stored[key], True
        if unit in (COST, SYNTHETIC):
            return self._probed(spec, unit, key), False
        dense_key = measurement_key(spec.model_copy(update={"method": DENSE}), unit)
        dense = stored.get(dense_key)
        dense = self._probed(spec, unit, dense_key) if dense is None else dense
        if spec.method.name == DENSE.name:
            return dense, False
        factor = self._slowdown(spec.model)
        # A fidelity reads the text twice, with gates and without.
        return dense * (1.0 + factor if unit == FIDELITY else factor), dense_key in stored

    def _probed(self, spec: RunSpec, unit: str, key: str) -> float:
        if key not in self._dense:
            self._reporter.check()
            self._dense[key] = self._probe(spec, unit)
        return self._dense[key]

    def _probe(self, spec: RunSpec, unit: str) -> float:
        """Return the seconds of a unit without gates."""
        evaluation, reporter = spec.evaluation, self._reporter
        if unit == COST:
            return _timed(lambda _: count_run(spec, _spread_evenly(spec), reporter), 1)
        if unit == SYNTHETIC:
            assert evaluation.synthetic is not None  # else SYNTHETIC is none of its units
            synthetic = evaluation.synthetic
            return _timed(
                lambda seeds: measure_synthetic(_with_seeds(spec, synthetic, seeds), reporter), synthetic.seeds
            )
        loaded = self._session.prepare(spec.model, NO_ROTATION, reporter)
        with cancellable(loaded.model, reporter):
            if unit in (FIDELITY, ORIGINAL):
                text = evaluation.fidelity if unit == FIDELITY else evaluation.original
                assert text is not None  # likewise
                return _fidelity_seconds(loaded, evaluation, text, reporter)
            return self._task_seconds(loaded, evaluation, unit)

    def _task_seconds(self, loaded: LoadedModel, evaluation: EvaluationSpec, unit: str) -> float:
        from wina_core.compute.evaluation.harness import evaluate_task  # these load lm-eval
        from wina_core.compute.evaluation.tasks import load_task

        programs, code = self._job.run_model_code, self._job.task_code
        task_spec = evaluation.task(unit)
        members = load_task(unit, evaluation.task_folders, evaluation.data_folder, programs, code)["tasks"]
        documents = [min(len(task.eval_docs), task_spec.limit or len(task.eval_docs)) for task in members.values()]

        def measure(limit: int) -> object:
            few = evaluation.model_copy(update={"tasks": (task_spec.model_copy(update={"limit": limit}),)})
            return evaluate_task(loaded, None, few, unit, self._reporter, None, programs, code)

        return _timed(measure, max(documents), lambda limit: sum(min(count, limit) for count in documents))

    def _measure_slowdown(self, model: ModelSource) -> float:
        """Return the time of a gated forward pass of a model divided by that of a dense one."""
        loaded = self._session.prepare(model, NO_ROTATION, self._reporter)
        method, plan = _example(self._job.runs, model)
        ids = _random_ids(loaded)

        def forward(gated: bool) -> Callable[[], object]:
            def work() -> object:
                gates.enabled = gated
                with torch.no_grad():
                    return loaded.model(ids, use_cache=False)

            return work

        with attach(loaded, method, plan, None, 0.0) as gates, cancellable(loaded.model, self._reporter):
            # In turns, so that a change of the processor's clock or load slows both alike.
            contenders = [lambda _, gated=gated: forward(gated) for gated in (False, True)]
            dense, sparse = time_turns(contenders, _TURNS, loaded.device, self._reporter)
            gates.enabled = True
        return statistics.median(sparse) / statistics.median(dense)


def _preparations(runs: Sequence[PendingRun]) -> tuple[PreparationEstimate, ...]:
    """Return the stored time of each kind of preparation that is not on disk."""
    seconds_by_kind: dict[ProductKind, list[float | None]] = {}
    for product in missing_products(EvaluateJob(runs=tuple(runs))):
        seconds_by_kind.setdefault(product.kind, []).append(product.seconds)
    return tuple(
        PreparationEstimate(
            kind=kind,
            seconds=math.fsum(known_seconds for known_seconds in seconds if known_seconds is not None),
            unknown=seconds.count(None),
        )
        for kind, seconds in seconds_by_kind.items()
    )


def _random_ids(loaded: LoadedModel) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, loaded.view.head.out_features, (_ROWS, _TOKENS), generator=generator).to(loaded.device)


def _timed(measure: Callable[[int], object], total: int, amount: Callable[[int], int] = lambda pieces: pieces) -> float:
    """Return the estimated seconds of `measure(total)`: those of one piece, plus the rest of `amount` at the rate
    between one piece and several."""
    measure(1)  # not timed, since the first call imports, reads and compiles
    one = _seconds(measure, 1)
    several = min(total, PROBE_PIECES, int(PROBE_SECONDS / one) if one > 0.0 else PROBE_PIECES)
    if several < 2:
        return one * amount(total) / amount(1)
    more = _seconds(measure, several)
    rate = (more - one) / max(amount(several) - amount(1), 1)
    if rate <= 0.0:  # within the noise
        rate = more / amount(several)
    return one + rate * (amount(total) - amount(1))


def _seconds(measure: Callable[[int], object], pieces: int) -> float:
    start = pausable_clock.now()
    measure(pieces)
    return pausable_clock.now() - start


def _fidelity_seconds(loaded: LoadedModel, evaluation: EvaluationSpec, text: TextSpec, reporter: Reporter) -> float:
    """Return the seconds of reading the text once; gates read it a second time."""
    least = math.ceil(64 / text.sequence)  # rows of the shortest valid text

    def measure(rows: int) -> object:
        few = text.model_copy(update={"tokens": rows * least * text.sequence})
        return measure_fidelity(loaded, None, few, evaluation.batch_size, reporter)

    return _timed(measure, max(1, text.tokens // (least * text.sequence)))


def _with_seeds(spec: RunSpec, synthetic: SyntheticSpec, seeds: int) -> RunSpec:
    fewer = synthetic.model_copy(update={"seeds": seeds})
    return spec.model_copy(update={"evaluation": spec.evaluation.model_copy(update={"synthetic": fewer})})


def _spread_evenly(spec: RunSpec) -> Plan:
    """Return the run's plan, or a uniform one of the same budget if it is still to be allocated."""
    plan = spec.plan
    return UniformSparsity(sparsity=plan.budget) if isinstance(plan, AllocatedSparsity) else plan


def _example(runs: Sequence[PendingRun], model: ModelSource) -> tuple[MethodSpec, Plan]:
    """Return method and plan of a gated run that needs no calibration: one of the job's, else WINA at 50 %."""
    gated = [run.spec for run in runs if run.spec.model == model and run.spec.method.name != DENSE.name]
    for spec in gated:
        if not spec.method.needs_calibration and get_method(spec.method).default_rho is None:
            return spec.method, _spread_evenly(spec)
    return MethodSpec(name="wina"), UniformSparsity(sparsity=0.5)


class _Quiet(NullReporter):
    """Reporter of the estimate that drops the messages of the timed measurements: measuring logs them again."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def count(self, done: int, total: int, activity: str) -> None:
        self._reporter.progress(done, total, "measurements", activity)

    def check(self) -> None:
        self._reporter.check()
