"""The real engine process on the demo model: what it answers, what goes wrong, and how it is cancelled."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wina_core.engine.engine_events import DEMO, LONG_JOB, QUICK, SHORT, WINA, Events, evaluate, run, submit
from wina_core.engine.client.pool import EnginePool
from wina_core.jobs import (
    CalibrateJob,
    Cancel,
    Done,
    EvaluateJob,
    Failed,
    Held,
    InspectJob,
    Log,
    Partial,
    Pause,
    PendingRun,
    Progress,
    Queued,
    Ready,
    Result,
    Resume,
    RotateJob,
    RunFailed,
    RunFinished,
    RunStarted,
    Started,
)
from wina_core.records import CalibrationRecord, ModelSummary, RotationReport
from wina_core.specs import FIDELITY, CalibrationSpec, EvaluationSpec, ModelSource, RotationSpec, RunSpec, TextSpec
from wina_core.specs.plans import PlanLayout, SparsityPlan

pytestmark = pytest.mark.usefixtures("engine_home")


@pytest.fixture(scope="module")
def shared(engine_home: Path) -> Iterator[tuple[EnginePool, Events]]:  # noqa: ARG001 - the engine is started in it
    """One engine for all tests that leave it alive."""
    events = Events()
    client = EnginePool(events)
    yield client, events
    client.stop()


# ---- what it answers ---------------------------------------------------------------------------------------------


def test_ready_says_what_the_numbers_are_computed_on(shared: tuple[EnginePool, Events]) -> None:
    client, events = shared
    client.start()
    ready = events.wait(Ready)
    assert ready.pid == client.pid
    assert ready.environment.device in ("cpu", "cuda")
    assert ready.environment.hardware
    assert {"python", "torch", "transformers", "lm-eval"} <= set(ready.environment.versions)


def test_a_model_is_inspected(shared: tuple[EnginePool, Events]) -> None:
    client, events = shared
    submit(client, "inspect", InspectJob(model=DEMO))
    assert events.end("inspect") == Done(job_id="inspect")
    value = events.wait(Result, lambda event: event.job_id == "inspect").value
    assert isinstance(value, ModelSummary)
    assert value.architecture == "LlamaForCausalLM"
    assert [type(event) for event in events.of("inspect")][:2] == [Queued, Started]


def test_a_rotation_is_measured_and_exported(shared: tuple[EnginePool, Events], tmp_path: Path) -> None:
    client, events = shared
    rotation = RotationSpec(attention_basis=("qkv",), mlp_basis=("gate_up",))
    submit(client, "rotate", RotateJob(model=DEMO, rotation=rotation, export_to=str(tmp_path / "rotated")))
    assert events.end("rotate") == Done(job_id="rotate")
    value = events.wait(Result, lambda event: event.job_id == "rotate").value
    assert isinstance(value, RotationReport)
    assert value.exported_to == str(tmp_path / "rotated")
    assert (tmp_path / "rotated" / "config.json").is_file()


def test_a_calibration_is_measured_once_and_then_read_from_the_cache(
    shared: tuple[EnginePool, Events], engine_home: Path
) -> None:
    client, events = shared
    job = CalibrateJob(
        model=DEMO,
        rotation=RotationSpec(mode="none", per_head=False),
        method=WINA,
        calibration=CalibrationSpec(text=TextSpec(tokens=512, sequence=128)),
    )
    values = []
    for job_id in ("first", "second"):
        submit(client, job_id, job)
        assert events.end(job_id) == Done(job_id=job_id)
        values.append(events.wait(Result, lambda event, wanted=job_id: event.job_id == wanted).value)  # type: ignore[misc]  # bound now
    first, second = values
    assert isinstance(first, CalibrationRecord)
    assert isinstance(second, CalibrationRecord)
    assert first.layers == second.layers
    assert first.key == second.key
    assert (engine_home / "cache" / "calibrations" / f"{first.key}.safetensors").is_file()


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


def test_progress_counts_the_measurements_of_the_whole_job(shared: tuple[EnginePool, Events]) -> None:
    client, events = shared
    submit(client, "progress", evaluate(run(0.3), run(0.4)))
    events.end("progress")
    found = [event for event in events.of("progress") if isinstance(event, Progress)]
    assert {(event.total, event.unit) for event in found} == {(4.0, "measurements")}
    assert [event.done for event in found] == sorted(event.done for event in found)
    assert found[-1].done == 4.0
    assert any(event.metric.startswith("wina, 40 %: demo_choice") for event in found)


def test_numbers_do_not_depend_on_what_was_computed_before(shared: tuple[EnginePool, Events]) -> None:
    client, events = shared
    spec = run(0.6)
    submit(client, "forth", EvaluateJob(runs=(PendingRun(spec=spec, units=(FIDELITY, "demo_choice")),)))
    submit(client, "back", EvaluateJob(runs=(PendingRun(spec=spec, units=("demo_choice", FIDELITY)),)))
    events.end("back")
    results = [
        {
            event.unit.unit: (event.unit.metrics, event.unit.layers)
            for event in events.of(job)
            if isinstance(event, Partial)
        }
        for job in ("forth", "back")
    ]
    assert results[0] == results[1]


# ---- what goes wrong ---------------------------------------------------------------------------------------------


def test_a_run_that_fails_is_reported_and_the_next_one_is_computed(shared: tuple[EnginePool, Events]) -> None:
    client, events = shared
    bad = run(0.5, EvaluationSpec(tasks=("demo_choice",), task_folders=("/no/such/folder",), fidelity=SHORT))
    good = run(0.5, EvaluationSpec(fidelity=SHORT))
    submit(client, "mixed", evaluate(bad, good))
    assert events.end("mixed") == Done(job_id="mixed")
    failed = events.wait(RunFailed, lambda event: event.job_id == "mixed")
    assert failed.run == bad.content_hash()
    assert failed.error == "The task folder /no/such/folder does not exist; correct it or leave it out."
    assert events.wait(RunFinished, lambda event: event.job_id == "mixed").run == good.content_hash()


def test_a_plan_for_another_model_fails_its_run(shared: tuple[EnginePool, Events]) -> None:
    client, events = shared
    plan = SparsityPlan.uniform(PlanLayout(projections=("q",), parameters=((4,),)), 0.5)
    submit(client, "foreign", evaluate(RunSpec(model=DEMO, method=WINA, plan=plan, evaluation=QUICK)))
    assert events.end("foreign") == Done(job_id="foreign")
    failed = events.wait(RunFailed, lambda event: event.job_id == "foreign")
    assert failed.error.startswith("This sparsity plan was made for a model with 1 layers x (q)")


def test_an_edited_model_is_not_taken_for_the_one_that_was_planned(shared: tuple[EnginePool, Events]) -> None:
    client, events = shared
    submit(client, "edited", InspectJob(model=DEMO.model_copy(update={"fingerprint": "0" * 16})))
    failed = events.end("edited")
    assert isinstance(failed, Failed)
    assert failed.error == (
        "The files of the model demo have changed since this was set up; "
        "open the model again to work with the new ones."
    )


def test_a_missing_folder_fails_the_job_and_leaves_the_engine_usable(shared: tuple[EnginePool, Events]) -> None:
    client, events = shared
    submit(client, "missing", InspectJob(model=ModelSource(location="/no/such/folder")))
    failed = events.end("missing")
    assert isinstance(failed, Failed)
    assert failed.error.startswith("The model folder /no/such/folder does not exist")
    submit(client, "usable", InspectJob(model=DEMO))
    assert events.end("usable") == Done(job_id="usable")


# ---- cancelling --------------------------------------------------------------------------------------------------


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


def test_a_waiting_job_is_cancelled_while_another_runs(shared: tuple[EnginePool, Events]) -> None:
    client, events = shared
    submit(client, "running", LONG_JOB)
    submit(client, "waiting", RotateJob(model=DEMO, rotation=RotationSpec()))
    events.wait(RunStarted, lambda event: event.job_id == "running")
    client.send(Cancel(job_id="waiting"))
    assert events.end("waiting") == Done(job_id="waiting", cancelled=True)
    assert not any(isinstance(event, Done | Failed) for event in events.of("running"))
    client.send(Cancel(job_id="running"))
    assert events.end("running") == Done(job_id="running", cancelled=True)
    assert not any(isinstance(event, Started) for event in events.of("waiting"))
