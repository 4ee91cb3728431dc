"""The real engine process on the demo model: what it answers, what goes wrong, and how it is cancelled."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wina_core.engine.engine_events import DEMO, LONG_JOB, QUICK, SHORT, Events, evaluate, run, submit
from wina_core.engine.client.pool import EnginePool
from wina_core.jobs import (
    Cancel,
    Done,
    Failed,
    Held,
    InspectJob,
    Log,
    Partial,
    Pause,
    Progress,
    Queued,
    Ready,
    Result,
    Resume,
    RunFailed,
    RunFinished,
    RunStarted,
    Started,
)
from wina_core.records import ModelSummary
from wina_core.specs import FIDELITY, EvaluationSpec, ModelSource, RunSpec

pytestmark = pytest.mark.usefixtures("engine_home")


@pytest.fixture(scope="module")
def shared(engine_home: Path) -> Iterator[tuple[EnginePool, Events]]:  # noqa: ARG001 - the engine is started in it
    """One engine for all tests that leave it alive."""
    events = Events()
    client = EnginePool(events)
    yield client, events
    client.stop()


def test_ready_says_what_numbers_are_computed_on_and_a_model_is_inspected(shared: tuple[EnginePool, Events]) -> None:
    client, events = shared
    client.start()
    ready = events.wait(Ready)
    assert ready.pid == client.pid
    assert ready.environment.device in ("cpu", "cuda")
    assert ready.environment.hardware
    assert {"python", "torch", "transformers", "lm-eval"} <= set(ready.environment.versions)
    submit(client, "inspect", InspectJob(model=DEMO))
    assert events.end("inspect") == Done(job_id="inspect")
    value = events.wait(Result, lambda event: event.job_id == "inspect").value
    assert isinstance(value, ModelSummary)
    assert value.architecture == "LlamaForCausalLM"
    assert [type(event) for event in events.of("inspect")][:2] == [Queued, Started]


def test_errors_leave_the_engine_usable(shared: tuple[EnginePool, Events]) -> None:
    client, events = shared
    submit(client, "missing", InspectJob(model=ModelSource(location="/no/such/folder")))
    failed = events.end("missing")
    assert isinstance(failed, Failed)
    assert failed.error.startswith("The model folder /no/such/folder does not exist")
    bad = run(0.5, EvaluationSpec(tasks=("demo_choice",), task_folders=("/no/such/folder",), fidelity=SHORT))
    good = run(0.5, EvaluationSpec(fidelity=SHORT))
    submit(client, "mixed", evaluate(bad, good))
    assert events.end("mixed") == Done(job_id="mixed")
    run_failed = events.wait(RunFailed, lambda event: event.job_id == "mixed")
    assert run_failed.run == bad.content_hash()
    assert run_failed.error == "The task folder /no/such/folder does not exist; correct it or leave it out."
    assert events.wait(RunFinished, lambda event: event.job_id == "mixed").run == good.content_hash()


def test_every_unit_arrives_when_it_is_finished_with_measured_sparsity(shared: tuple[EnginePool, Events]) -> None:
    client, events = shared
    dense = RunSpec(model=DEMO, evaluation=QUICK)
    submit(client, "stream", evaluate(dense, run(0.5)))
    assert events.end("stream") == Done(job_id="stream")
    found = [event for event in events.of("stream") if not isinstance(event, Queued | Started | Progress | Log)]
    kinds = [RunStarted, Partial, Partial, RunFinished]
    assert [type(event) for event in found] == [*kinds, *kinds, Done]
    units = [event.unit for event in found if isinstance(event, Partial)]
    assert [unit.unit for unit in units] == [FIDELITY, "demo_choice"] * 2
    for unit in units[:2]:
        assert unit.run == dense.content_hash()
        assert unit.gated_sparsity == 0.0
    for unit in units[2:]:
        assert unit.gated_sparsity == pytest.approx(0.5, abs=0.01)
        assert len(unit.layers) == 8 * 7
        assert all(layer.value == pytest.approx(0.5, abs=0.01) for layer in unit.layers)
        assert unit.seconds > 0
    kl = [metric.value for unit in units for metric in unit.metrics if metric.metric == "kl"]
    assert kl[0] == pytest.approx(0.0, abs=1e-6)
    assert kl[1] > 0.001


def test_cancelling_stops_at_the_next_batch_and_keeps_what_was_finished(shared: tuple[EnginePool, Events]) -> None:
    client, events = shared
    submit(client, "long", LONG_JOB)
    events.wait(Partial, lambda event: event.job_id == "long")
    client.send(Cancel(job_id="long"))
    client.send(Cancel(job_id="long"))
    assert events.end("long") == Done(job_id="long", cancelled=True)
    submit(client, "after", InspectJob(model=DEMO))
    assert events.end("after") == Done(job_id="after")
    of_long = events.of("long")
    assert of_long[-1] == Done(job_id="long", cancelled=True)
    assert 1 <= sum(isinstance(event, Partial) for event in of_long) < len(LONG_JOB.runs)
    assert len([event for event in of_long if isinstance(event, Done)]) == 1


def test_a_job_is_held_within_a_measurement_goes_on_and_gives_way_while_held_again(
    shared: tuple[EnginePool, Events],
) -> None:
    client, events = shared
    submit(client, "paused", LONG_JOB)
    events.wait(Progress, lambda event: event.job_id == "paused" and event.done % 1 > 0)
    client.send(Pause(job_id="paused"))
    events.wait(Held, lambda event: event.job_id == "paused" and event.held)
    assert events.of("paused")[-1] == Held(job_id="paused", held=True)
    reached = max(event.done for event in events.of("paused") if isinstance(event, Progress))
    client.send(Resume(job_id="paused"))
    events.wait(Progress, lambda event: event.job_id == "paused" and event.done > reached)
    client.send(Pause(job_id="paused"))
    events.wait(Held, lambda event: event.job_id == "paused" and event.held and event is events.of("paused")[-1])
    submit(client, "behind it", InspectJob(model=DEMO))
    assert events.end("behind it") == Done(job_id="behind it")
    assert Held(job_id="paused", held=True, released=True) in events.of("paused")
    client.send(Cancel(job_id="paused"))
    assert events.end("paused") == Done(job_id="paused", cancelled=True)
