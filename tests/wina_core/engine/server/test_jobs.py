"""Events of a job whose measurements succeed, fail, run out of memory, or are cancelled."""

import weakref
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.wina_core.compute.evaluation.task_files import write_tasks
from tests.wina_core.engine.in_process import compute
from tests.wina_core.tiny import tiny_folder, tiny_text, tiny_tokens
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.reporter import NullReporter
from wina_core.compute.session.model_session import Session
from wina_core.engine.server import evaluate as evaluating
from wina_core.engine.server.run_job import run_job
from wina_core.errors import Cancelled, WinaError
from wina_core.jobs import EvaluateJob, Event, InspectGateJob, Partial, PendingRun, RotateJob, RunFailed
from wina_core.records import MetricRecord, SampleRecord
from wina_core.records.gates import GateTarget
from wina_core.specs import (
    FIDELITY,
    NO_ROTATION,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    RotationSpec,
    RunSpec,
    TextSpec,
)
from wina_core.specs.plans import UniformSparsity

Measure = Callable[..., tuple[MetricRecord, ...]]
Evaluate = Callable[[Measure], tuple[list[Event], BaseException | None]]


@pytest.fixture
def model(tmp_path: Path) -> ModelSource:
    return ModelSource(location=str(tiny_folder(tmp_path / "model")))


@pytest.fixture
def job(model: ModelSource) -> EvaluateJob:
    """Two runs of the two units FIDELITY and "task"."""
    specs = [
        RunSpec(
            model=model,
            method=MethodSpec(name="wina"),
            plan=UniformSparsity(sparsity=sparsity),
            evaluation=EvaluationSpec(tasks=("task",), fidelity=TextSpec()),
        )
        for sparsity in (0.25, 0.5)
    ]
    return EvaluateJob(runs=tuple(PendingRun(spec=spec, units=spec.evaluation.units) for spec in specs))


@pytest.fixture
def session() -> Session:
    return Session()


@pytest.fixture
def measure_by(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replaces the measurement of tasks and of the fidelity."""

    def use(task: Measure, fidelity: Measure = lambda *_, **__: (record(FIDELITY, 0.0),)) -> None:
        monkeypatch.setattr("wina_core.compute.evaluation.tasks.check_tasks", lambda *_: None)
        monkeypatch.setattr(evaluating, "measure_fidelity", fidelity)
        monkeypatch.setattr("wina_core.compute.evaluation.harness.evaluate_task", task)

    return use


@pytest.fixture
def evaluate(job: EvaluateJob, session: Session, measure_by: Callable[..., None]) -> Evaluate:
    """Do the job with a given function in place of lm-eval; events, and what was raised."""

    def do(task: Measure) -> tuple[list[Event], BaseException | None]:
        measure_by(task)
        events: list[Event] = []
        try:
            run_job(job, session, events.append, NullReporter())
        except Exception as error:
            return events, error
        return events, None

    return do


def record(task: str, value: float) -> MetricRecord:
    return MetricRecord(task=task, metric="m", value=value)


def raising(error: BaseException) -> Measure:
    def measure(*_: object, **__: object) -> tuple[MetricRecord, ...]:
        raise error

    return measure


def names(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def test_numbers_do_not_depend_on_what_was_computed_before(
    model: ModelSource, session: Session, tmp_path: Path
) -> None:
    """On the order of units, or on another job that an evaluation made room for."""
    text = TextSpec(source=tiny_text(tmp_path), tokens=64, sequence=32)
    folder = str(write_tasks(tmp_path))
    spec = RunSpec(
        model=model,
        method=MethodSpec(name="wina"),
        plan=UniformSparsity(sparsity=0.5),
        evaluation=EvaluationSpec(tasks=("tiny_choice",), task_folders=(folder,), fidelity=text),
    )
    inspect = InspectGateJob(
        model=model,
        rotation=NO_ROTATION,
        layer=1,
        projection="q",
        prompt="a text",
        gates=(GateTarget(method=MethodSpec(name="teal"), target=0.4),),
    )
    results = []
    for parts in ([("fidelity", "tiny_choice")], [("tiny_choice", "fidelity")], [("tiny_choice",), ("fidelity",)]):
        events: list[Event] = []
        for units in parts:
            pending = PendingRun(spec=spec, units=units)
            run_job(EvaluateJob(runs=(pending,)), session, events.append, NullReporter())
            compute(inspect, session=session)
        found = {event.unit.unit: event.unit for event in events if isinstance(event, Partial)}
        results.append({unit: record.model_copy(update={"seconds": 0.0}) for unit, record in found.items()})
    assert len(results[0]) == 2
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (WinaError("The data is not reachable; go online once."), "The data is not reachable; go online once."),
        (torch.OutOfMemoryError("CUDA out of memory"), "The GPU's memory ran out; lower the batch size"),
        (MemoryError(), "Memory ran out; lower the batch size"),
        (KeyError("oops\nsecond line"), "Something unforeseen happened (KeyError: "),
    ],
)
def test_a_failing_run_keeps_its_finished_units_and_the_next_one_begins(
    evaluate: Evaluate, error: Exception, message: str
) -> None:
    events, raised = evaluate(raising(error))
    assert raised is None
    assert names(events) == ["RunStarted", "Partial", "RunFailed"] * 2
    failed = [event for event in events if isinstance(event, RunFailed)]
    assert all(event.error.startswith(message) and "\n" not in event.error for event in failed)
    assert all(("Traceback" in event.detail) is not isinstance(error, WinaError) for event in failed)


def test_the_model_is_freed_when_memory_ran_out(evaluate: Evaluate) -> None:
    models: list[weakref.ref[torch.nn.Module]] = []
    alive: list[int] = []

    def measure(loaded: LoadedModel, *_: object, **__: object) -> tuple[MetricRecord, ...]:
        alive.append(sum(each() is not None for each in models))
        models.append(weakref.ref(loaded.model))
        raise MemoryError

    evaluate(measure)
    alive.append(sum(each() is not None for each in models))
    assert alive == [0, 0, 0]


@pytest.mark.parametrize("error", [Cancelled(), torch.AcceleratorError("device-side assert")])
def test_cancellation_and_an_accelerators_fault_end_the_job(evaluate: Evaluate, error: Exception) -> None:
    events, raised = evaluate(raising(error))
    assert raised is error
    assert names(events) == ["RunStarted", "Partial"]


@pytest.mark.parametrize("error", [None, WinaError("No."), Cancelled()])
def test_the_model_is_left_without_gates(
    evaluate: Evaluate, session: Session, model: ModelSource, error: Exception | None
) -> None:
    gated: list[bool] = []

    def measure(*_: object, **__: object) -> tuple[MetricRecord, ...]:
        gated.append(is_gated())
        if error:
            raise error
        return ()

    def is_gated() -> bool:
        loaded = session.prepare(model, NO_ROTATION, NullReporter())
        return any("forward" in module.__dict__ for module in loaded.model.modules())

    evaluate(measure)
    assert all(gated)
    assert gated
    assert not is_gated()


def test_a_measurement_is_cancelled_within_its_forward_pass(
    job: EvaluateJob, session: Session, measure_by: Callable[..., None]
) -> None:
    class Patient(NullReporter):
        cancelled = False

        def check(self) -> None:
            if self.cancelled:
                raise Cancelled

    def measure(loaded: LoadedModel, *_: object, **__: object) -> tuple[MetricRecord, ...]:
        reporter.cancelled = True
        loaded.model(tiny_tokens())
        raise AssertionError("the forward pass went on")

    reporter = Patient()
    measure_by(measure, measure)
    with pytest.raises(Cancelled):
        compute(job, reporter, session)


@pytest.mark.parametrize("asked", [False, True])
def test_documents_own_scores_are_sent_where_they_are_asked_for(
    job: EvaluateJob, session: Session, measure_by: Callable[..., None], asked: bool
) -> None:
    sample = SampleRecord(task="task", doc=0, scores={"m": (1.0, 1.0)}, target="a", response="[]")

    def measure(*_: object, samples: list[SampleRecord] | None, **__: object) -> tuple[MetricRecord, ...]:
        assert (samples is not None) is asked
        if samples is not None:
            samples.append(sample)
        return ()

    measure_by(measure, lambda *_, **__: ())
    events = compute(job.model_copy(update={"samples": asked}), session=session)
    sent = [event.unit.samples for event in events if isinstance(event, Partial)]
    assert sent == [(), (sample,) if asked else ()] * 2


@pytest.mark.parametrize(
    ("folder", "reason"),
    [
        (".", "already exists and is not an empty folder; choose another name"),
        ("rotated", r"The rotated weights take .* choose another folder"),
    ],
)
def test_a_rotation_is_not_computed_for_a_folder_in_use_or_a_full_disk(
    model: ModelSource, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, reason: str
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000})())
    monkeypatch.setattr(session, "prepare", lambda *_, **__: pytest.fail("the model was loaded"))
    job = RotateJob(model=model, rotation=RotationSpec(), export_to=str(tmp_path / folder))
    with pytest.raises(WinaError, match=reason):
        compute(job, session=session)


def test_runs_of_one_rotated_model_are_computed_together(
    job: EvaluateJob, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, other = job.runs
    rotated = PendingRun(spec=other.spec.model_copy(update={"rotation": RotationSpec(mode="none")}), units=other.units)
    order: list[RunSpec] = []

    monkeypatch.setattr("wina_core.compute.evaluation.tasks.check_tasks", lambda *_: None)
    monkeypatch.setattr(evaluating, "_measure", lambda pending, *_: order.append(pending.spec))
    compute(EvaluateJob(runs=(plain, rotated, other)), session=session)
    assert order == [plain.spec, other.spec, rotated.spec]
