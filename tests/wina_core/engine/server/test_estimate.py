"""How long missing measurements should take: timed on few documents, or taken from like measurements in the store."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.wina_core.engine.engine_events import Impatient
from tests.wina_core.engine.in_process import compute, result_of
from tests.wina_core.tiny import tiny_folder, tiny_text
from wina_core.engine.server import estimate
from wina_core.engine.server.estimate import PROBE_PIECES
from wina_core.errors import Cancelled, WinaError
from wina_core.files.paths import cache_folder
from wina_core.jobs import EstimateJob, EvaluateJob, PendingRun, RotateJob
from wina_core.jobs.planning import missing_products
from wina_core.model_info.products import remembered_seconds
from wina_core.records import EstimateRecord, PreparationEstimate
from wina_core.specs import (
    COST,
    FIDELITY,
    SYNTHETIC,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    RotationSpec,
    RunSpec,
    SyntheticSpec,
    TaskSpec,
    TextSpec,
)
from wina_core.specs.plans import UniformSparsity
from wina_core.specs.runs import measurement_key

WINA = MethodSpec(name="wina")
DOCUMENTS = {"small": 3, "large": 1000}


class Clock:
    """Stands for the working clock; what is measured moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def works(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("wina_core.compute.pausable_clock.now", lambda: made.now)
    return made


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> ModelSource:
    return ModelSource(location=str(tiny_folder(tmp_path_factory.mktemp("estimated") / "model")))


def run(model: ModelSource, evaluation: EvaluationSpec, sparsity: float | None = None) -> RunSpec:
    """A gated run, or without a sparsity the dense one."""
    if sparsity is None:
        return RunSpec(model=model, evaluation=evaluation)
    return RunSpec(model=model, method=WINA, plan=UniformSparsity(sparsity=sparsity), evaluation=evaluation)


def estimated(*runs: RunSpec, stored: dict[str, float] | None = None) -> EstimateRecord:
    pending = tuple(PendingRun(spec=spec, units=spec.evaluation.units) for spec in runs)
    record = result_of(EstimateJob(runs=pending, stored=stored or {}))
    assert isinstance(record, EstimateRecord)
    return record


# ---- from a few pieces to all ------------------------------------------------------------------------------------


@pytest.mark.parametrize("total", [1, 2, 5, 16, 1000])
@pytest.mark.parametrize(("fixed", "each"), [(0.0, 0.01), (0.3, 0.001), (1.5, 0.4), (0.0, 30.0)])
def test_work_with_a_beginning_and_an_even_pace_is_estimated_exactly(
    clock: Clock, total: int, fixed: float, each: float
) -> None:
    asked: list[int] = []

    def measure(pieces: int) -> None:
        asked.append(pieces)
        clock.works((10.0 if len(asked) == 1 else 0.0) + fixed + each * pieces)

    found = estimate._timed(measure, total)
    assert max(asked) <= min(total, PROBE_PIECES)
    if max(asked) > 1 or fixed == 0.0 or total == 1:
        assert found == pytest.approx(fixed + each * total)
    else:
        assert found >= fixed + each * total, "a single piece that is slow by itself is taken for the pace"


def test_pieces_that_count_differently_are_scaled_by_what_they_amount_to(clock: Clock) -> None:
    documents = (3, 1000)

    def amount(limit: int) -> int:
        return sum(min(count, limit) for count in documents)

    found = estimate._timed(lambda limit: clock.works(0.01 * amount(limit)), 1000, amount)
    assert found == pytest.approx(0.01 * 1003)


def test_noise_never_makes_an_estimate_negative(clock: Clock) -> None:
    times = iter([1.0, 0.5, 0.4])
    assert estimate._timed(lambda _: clock.works(next(times)), 100) > 0.0


# ---- a job -------------------------------------------------------------------------------------------------------


@pytest.fixture
def timed(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Tasks and fidelities that take a second for ten documents or rows, and gates that double it; what was timed."""
    asked: list[tuple[str, int]] = []

    def task(_loaded: object, _gates: object, spec: EvaluationSpec, name: str, *_: object, **__: object) -> None:
        limit = spec.task(name).limit or 0
        asked.append((name, limit))
        clock.works(0.1 * min(limit, DOCUMENTS[name]))

    def fidelity(_loaded: object, _gates: object, text: TextSpec, *_: object) -> None:
        asked.append((FIDELITY, text.tokens // text.sequence))
        clock.works(0.1 * text.tokens / text.sequence)

    def load_task(name: str, *_: object) -> dict[str, Any]:
        return {"tasks": {name: SimpleNamespace(eval_docs=range(DOCUMENTS[name]))}}

    monkeypatch.setattr("wina_core.compute.evaluation.harness.evaluate_task", task)
    monkeypatch.setattr(estimate, "measure_fidelity", fidelity)
    monkeypatch.setattr("wina_core.compute.evaluation.tasks.load_task", load_task)
    monkeypatch.setattr(estimate, "time_turns", lambda *_: [[1.0], [2.0]])
    return asked


def test_every_run_counts_and_every_unit_is_timed_once(model: ModelSource, timed: list[tuple[str, int]]) -> None:
    text = TextSpec(tokens=64 * 40, sequence=64)
    evaluation = EvaluationSpec(tasks=("small", TaskSpec(name="large", limit=200)), fidelity=text)
    record = estimated(run(model, evaluation), run(model, evaluation, 0.5), run(model, evaluation, 0.6))
    assert record.units == 9
    found = {each.unit: each for each in record.estimates}
    assert found["small"].seconds == pytest.approx(0.3 * (1 + 2 + 2) / 3)
    assert found["large"].seconds == pytest.approx(20.0 * (1 + 2 + 2) / 3)
    assert found[FIDELITY].seconds == pytest.approx(4.0 * (1 + 3 + 3) / 3), "gated, its text is read twice"
    assert record.seconds == pytest.approx(3 * sum(each.seconds for each in record.estimates))
    assert {each.basis for each in record.estimates} == {"probe"}
    assert len(timed) == 3 * 3
    assert max(limit for _, limit in timed) <= PROBE_PIECES


def test_stored_measurements_go_before_timing(model: ModelSource, timed: list[tuple[str, int]]) -> None:
    evaluation = EvaluationSpec(tasks=("small",), fidelity=None)
    dense, sparse = run(model, evaluation), run(model, evaluation, 0.5)
    both = estimated(
        dense, sparse, stored={measurement_key(dense, "small"): 7.0, measurement_key(sparse, "small"): 9.0}
    )
    assert (both.seconds, both.estimates[0].basis) == (16.0, "stored")
    of_dense = estimated(sparse, stored={measurement_key(dense, "small"): 7.0})
    assert (of_dense.seconds, of_dense.estimates[0].basis) == (14.0, "stored")
    assert timed == []


def test_like_measurements_are_those_of_the_same_work(model: ModelSource) -> None:
    both = EvaluationSpec(tasks=("small", "large"), limit=5, fidelity=TextSpec())
    alone = EvaluationSpec(tasks=(TaskSpec(name="small", limit=5),), fidelity=None)
    key = measurement_key(run(model, both, 0.5), "small")
    assert key == measurement_key(run(model, alone, 0.25), "small")
    other = model.model_copy(update={"dtype": "bfloat16"})
    assert (
        len(
            {
                key,
                measurement_key(run(model, both, 0.5), "large"),
                measurement_key(run(model, both), "small"),
                measurement_key(run(other, both, 0.5), "small"),
                measurement_key(run(model, EvaluationSpec(tasks=("small",), limit=6), 0.5), "small"),
            }
        )
        == 5
    )


@pytest.mark.usefixtures("timed")
@pytest.mark.usefixtures("home")
def test_preparations_take_their_time_of_before_or_are_of_unknown_time(model: ModelSource, tmp_path: Path) -> None:
    text = TextSpec(source=tiny_text(tmp_path), tokens=64, sequence=32)
    rotation = RotationSpec(text=text)
    evaluation = EvaluationSpec(tasks=("small",), fidelity=None)
    spec = run(model, evaluation, 0.5).model_copy(update={"rotation": rotation})
    assert estimated(spec).preparations == (PreparationEstimate(kind="rotation", seconds=0.0, unknown=1),)
    (product,) = missing_products(EvaluateJob(runs=(PendingRun(spec=spec, units=("small",)),)))
    assert isinstance(product.job, RotateJob)
    compute(product.job)
    assert estimated(spec).preparations == ()
    (bases,) = cache_folder().rglob("rotations/*.safetensors")
    bases.unlink()
    seconds = remembered_seconds(bases.stem)
    assert seconds is not None
    record = estimated(spec)
    assert record.preparations == (PreparationEstimate(kind="rotation", seconds=seconds),)
    assert (record.preparing_seconds, record.unknown_preparations) == (seconds, 0)


def test_random_networks_and_costs_are_timed_too(model: ModelSource) -> None:
    random = RunSpec(
        model=ModelSource(location=SYNTHETIC),
        method=WINA,
        plan=UniformSparsity(sparsity=0.5),
        evaluation=EvaluationSpec(fidelity=None, synthetic=SyntheticSpec(size=16, seeds=30)),
    )
    counted = run(model, EvaluationSpec(fidelity=None, cost_context=128), 0.5)
    record = estimated(random, counted)
    assert [each.unit for each in record.estimates] == [SYNTHETIC, COST]
    assert record.preparations == (), "neither needs a model"
    assert all(each.seconds > 0.0 for each in record.estimates)


def test_a_real_task_and_fidelity_on_a_real_model(model: ModelSource, tmp_path: Path) -> None:
    text = TextSpec(source=tiny_text(tmp_path), tokens=256, sequence=32)
    evaluation = EvaluationSpec(tasks=("demo_choice",), limit=6, fidelity=text)
    record = estimated(run(model, evaluation), run(model, evaluation, 0.5))
    assert {each.unit for each in record.estimates} == {"demo_choice", FIDELITY}
    assert record.units == 4
    assert record.seconds > 0.0


def test_what_cannot_be_measured_cannot_be_estimated(model: ModelSource) -> None:
    evaluation = EvaluationSpec(tasks=("demo_choice",), task_folders=("/no/such/folder",), fidelity=None)
    with pytest.raises(WinaError, match="The task folder /no/such/folder does not exist"):
        estimated(run(model, evaluation))


def test_an_estimate_can_be_cancelled(model: ModelSource, timed: list[tuple[str, int]]) -> None:
    pending = PendingRun(spec=run(model, EvaluationSpec(tasks=("small",))), units=("small",))
    with pytest.raises(Cancelled):
        compute(EstimateJob(runs=(pending,)), Impatient())
    assert timed == []
