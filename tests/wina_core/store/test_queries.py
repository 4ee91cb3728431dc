"""The queries behind the table, the frontier plot and the heatmap."""

import math
from pathlib import Path

import pytest

from tests.wina_core.samples import ENVIRONMENT, EVALUATION, LAYOUT, MODEL, WINA, run, study, unit
from wina_core.analysis.comparison.frontier import FrontierLine, sparsity_lines
from wina_core.records import EXPERT_SHARE, EXPERT_SPARSITY, ExpertRecord, LayerRecord, UnitRecord
from wina_core.specs import (
    AS_RELEASED_ROTATION,
    DENSE,
    FIDELITY,
    AllocatedSparsity,
    AllocatorSpec,
    CalibrationSpec,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    RotationSpec,
    RunSpec,
    Spec,
    TextSpec,
)
from wina_core.specs.plans import SparsityPlan
from wina_core.specs.runs import measurement_key
from wina_core.specs.studies import StudySpec
from wina_core.store import MetricFilter, Store
from wina_core.store.columns import run_columns
from wina_core.store.metric_frames import metric_rows_of

TEAL = MethodSpec(name="teal")
RUNS = (
    run(0.0, method=DENSE),
    run(0.5),
    run(0.25),
    run(0.5, AS_RELEASED_ROTATION),
    run(0.5, method=TEAL),
)


@pytest.fixture
def store(store: Store) -> Store:
    """A store with five finished runs whose accuracy is 0.9, 0.8, 0.7, ..."""
    store.save_study(study(), RUNS)
    for index, spec in enumerate(RUNS):
        store.record_unit(unit(spec, value=0.9 - index / 10))
        store.record_unit(unit(spec, FIDELITY, value=float(index), layer_value=0.1))
    return store


def save(store: Store, of: StudySpec, *runs: RunSpec) -> None:
    """Store the runs of a study and their task's unit."""
    store.save_study(of, runs)
    for spec in runs:
        store.record_unit(unit(spec))


def test_one_row_per_metric_in_the_order_of_arrival(store: Store) -> None:
    rows = store.metric_rows()
    assert [row.run for row in rows[::2]] == [spec.content_hash() for spec in RUNS]
    first, recorded = rows[2]._asdict(), unit(RUNS[1], value=0.8).model_dump()
    (metric,) = recorded["metrics"]
    measured = metric | {name: recorded[name] for name in ("unit", "gated_sparsity", "net_sparsity", "seconds")}
    assert first.items() >= measured.items()
    assert {name: value for name, value in first.items() if name not in (*measured, "run", "finished")} == {
        "model": "small llama",
        "rotation": "none",
        "method": "wina",
        "selection": "topk",
        "plan": "uniform",
        "target_sparsity": 0.5,
        "settings": "",
        "status": "done",
        "model_hash": MODEL.content_hash(),
        "chosen_on_evaluation": "",
        "superseded": "",
    }


@pytest.mark.parametrize(
    ("metric_filter", "count"),
    [
        (MetricFilter(), 10),
        (MetricFilter(methods=("wina",)), 6),
        (MetricFilter(methods=("wina", "teal"), metrics=("acc",)), 4),
        (MetricFilter(rotations=(AS_RELEASED_ROTATION.label,)), 2),
        (MetricFilter(tasks=(FIDELITY,)), 5),
        (MetricFilter(runs=(RUNS[0].content_hash(),)), 2),
        (MetricFilter(models=(MODEL.content_hash(),), selections=("topk",)), 10),
        (MetricFilter(models=("another",)), 0),
        (MetricFilter(study=study().content_hash()), 10),
        (MetricFilter(study="another"), 0),
    ],
)
def test_filters_narrow_the_rows(store: Store, metric_filter: MetricFilter, count: int) -> None:
    rows = store.metric_rows(metric_filter)
    assert len(rows) == count
    assert metric_rows_of(store.metrics(metric_filter)) == rows


def test_a_list_made_again_shows_what_changed_meanwhile(store: Store, address: str) -> None:
    before = store.metric_rows()
    frame = store.metrics()
    assert store.metrics() is frame, "nothing has changed"
    spec = RUNS[2]
    store.record_unit(unit(spec, value=math.nan))
    save(store, study("another"), run(0.75))
    after = store.metric_rows()
    assert repr(metric_rows_of(store.metrics())) == repr(after)
    with Store(address) as another:
        assert repr(metric_rows_of(another.metrics())) == repr(after), "as whoever lists for the first time"
    unchanged = [row for row in before if (row.run, row.unit) != (spec.content_hash(), "choice")]
    assert [row for row in after if row in before] == unchanged
    changed, added = (row for row in after if row not in before)
    assert (changed.run, changed.target_sparsity, changed.status) == (spec.content_hash(), 0.25, "done")
    assert math.isnan(changed.value)
    assert (added.run, added.target_sparsity, added.status) == (run(0.75).content_hash(), 0.75, "queued")
    store.finish_run(run(0.75).content_hash(), "failed", "why")
    assert store.metrics(MetricFilter(runs=(run(0.75).content_hash(),)))["status"].tolist() == ["failed"]


def accuracy(store: Store) -> tuple[FrontierLine, ...]:
    """Return the frontier lines of the task's accuracy."""
    return sparsity_lines([row for row in store.metric_rows() if row.metric == "acc"])


def test_the_frontier_has_a_line_per_configuration_in_the_order_of_sparsity(store: Store) -> None:
    points = {line.label: [(point.target_sparsity, point.value) for point in line.points] for line in accuracy(store)}
    assert points == {
        "dense": [(0.0, 0.9)],
        "wina": [(0.25, 0.9 - 0.2), (0.5, 0.8)],
        "wina, per_site (k, gate)": [(0.5, 0.9 - 0.3)],
        "teal": [(0.5, 0.5)],
    }


LINES = {"dense": 1, "wina": 2, "wina, per_site (k, gate)": 1, "teal": 1}
ON_TEXT = AllocatorSpec(name="refine", text=TextSpec(source="demo:heldout", tokens=8192))


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({"plan": SparsityPlan.uniform(LAYOUT, 0.5).with_cells({(0, 0): 0.9})}, LINES | {"wina, edited": 1}),
        (
            {"evaluation": EVALUATION.model_copy(update={"limit": 10, "dense_prefix": 0.01})},
            LINES | {"wina, limit 10, first 1 % dense": 1},
        ),
        (
            {"method": WINA.model_copy(update={"selection": "threshold"}), "calibration": CalibrationSpec()},
            LINES | {"wina, threshold": 1},
        ),
        (
            {"plan": AllocatedSparsity(sparsity=0.5, allocator=ON_TEXT)},
            LINES | {"wina, refine (on 8192 tokens of demo:heldout)": 1},
        ),
        (
            {"model": ModelSource(location="org/other", dtype="float32")},
            {f"small llama, {label}": count for label, count in LINES.items()} | {"other (float32), wina": 1},
        ),
    ],
)
def test_runs_that_differ_in_more_than_sparsity_are_not_joined_in_a_line(
    store: Store, changes: dict[str, object], lines: dict[str, int]
) -> None:
    save(store, study("variant"), RUNS[1].model_copy(update=changes))
    assert {line.label: len(line.points) for line in accuracy(store)} == lines


CORPUS = TextSpec(source="/texts/corpus.txt", tokens=1024, fingerprint="3fa9c1" + 10 * "0")
BY_THRESHOLD = {"method": WINA.model_copy(update={"selection": "threshold"}), "calibration": CalibrationSpec()}


@pytest.mark.parametrize(
    ("changed", "label"),
    [
        (EvaluationSpec(batch_size=4), "batches of 4"),
        (EvaluationSpec(task_folders=("/tasks",)), "tasks from /tasks"),
        (EvaluationSpec(data_folder="/data"), "data from /data"),
        (EvaluationSpec(fidelity=CORPUS), "fidelity on 1024 tokens of corpus.txt 3fa9c1"),
        (
            EvaluationSpec(fidelity=TextSpec(source="demo:heldout", sequence=128)),
            "fidelity on 16384 tokens in rows of 128 of demo:heldout",
        ),
        (CalibrationSpec(text=CORPUS), "calibrated on 1024 tokens of corpus.txt 3fa9c1"),
        (
            RotationSpec(mode="none", matrices="/a/q.safetensors", matrices_fingerprint=16 * "a"),
            "none (given: q.safetensors aaaaaa) + heads",
        ),
        (RotationSpec(attention_basis=("qkv",), mlp_basis=("gate_up",), text=CORPUS), "global (qkv, gate_up) + heads"),
    ],
)
def test_every_setting_that_differs_and_is_read_is_in_a_label(changed: Spec, label: str) -> None:
    field = {EvaluationSpec: "evaluation", CalibrationSpec: "calibration", RotationSpec: "rotation"}[type(changed)]
    columns = run_columns(RUNS[1].model_copy(update=BY_THRESHOLD | {field: changed}))
    assert columns["rotation_label" if field == "rotation" else "settings"] == label


def test_lines_of_a_task_asked_otherwise_are_told_apart(store: Store) -> None:
    rows = [row for row in store.metric_rows() if (row.run, row.metric) == (RUNS[1].content_hash(), "acc")]
    few = [row._replace(num_fewshot=0, n=100, target_sparsity=0.5) for row in rows]
    limited = [row._replace(n=100, settings="limit 100") for row in rows]
    assert [line.label for line in sparsity_lines(rows)] == ["wina"]
    assert [line.label for line in sparsity_lines([*rows, *few])] == ["wina, 5-shot, n 400", "wina, 0-shot, n 100"]
    assert [line.label for line in sparsity_lines([*rows, *limited])] == ["wina, n 400", "wina, limit 100"]


def test_the_layer_map_is_of_one_unit_and_nan_where_a_cell_has_no_value(store: Store) -> None:
    name = RUNS[1].content_hash()
    first = store.layer_map(name)
    assert first is not None
    assert (first.unit, first.projections, first.values) == ("choice", ("q", "down"), ((0.5, 0.5), (0.6, 0.6)))
    chosen = store.layer_map(name, unit=FIDELITY)
    assert chosen is not None
    assert chosen.values[0] == (0.1, 0.1)
    assert store.layer_map(name, "unknown") is None
    assert store.layer_map("unknown") is None
    cells = ((0, "q"), (2, "q"), (2, "down"))
    layers = tuple(LayerRecord(layer=at, projection=of, metric="sparsity", value=0.5) for at, of in cells)
    store.record_unit(unit(RUNS[1]).model_copy(update={"layers": layers}))
    holes = store.layer_map(name, unit="choice")
    assert holes is not None
    assert repr(holes.values) == "((0.5, nan), (nan, nan), (0.5, 0.5))"


def test_numbers_of_experts_are_of_one_unit_and_stay_out_of_the_layers_map(store: Store) -> None:
    spec = run(0.375)
    store.save_study(study("experts"), (spec,))

    def measured(name: str, share: float) -> UnitRecord:
        layers = (LayerRecord(layer=0, projection="q", metric="sparsity", value=0.5),)
        experts = (
            ExpertRecord(layer=0, projection="q", metric=EXPERT_SHARE, values=(share, 0.0)),
            ExpertRecord(layer=0, projection="q", metric=EXPERT_SPARSITY, values=(0.4, None)),
        )
        return unit(spec).model_copy(update={"unit": name, "layers": layers, "experts": experts})

    for name, share in (("choice", 0.25), (FIDELITY, 0.75)):
        store.record_unit(measured(name, share))
    assert store.expert_stats(spec.content_hash()) == [
        (EXPERT_SHARE, 0, "q", 0.0, 0.25),
        (EXPERT_SHARE, 0, "q", 1.0, 0.0),
        (EXPERT_SPARSITY, 0, "q", 0.0, 0.4),
    ]
    layer_map = store.layer_map(spec.content_hash())
    assert layer_map is not None
    assert layer_map.values == ((0.5,),)
    assert store.expert_stats(RUNS[1].content_hash()) == []


def test_the_median_of_like_units_is_given_and_others_are_left_out(tmp_path: Path) -> None:
    gated, dense = [run(sparsity) for sparsity in (0.25, 0.5, 0.75)], run(0.0, method=DENSE)
    other = run(0.5).model_copy(update={"model": MODEL.model_copy(update={"dtype": "bfloat16"})})
    with Store(tmp_path / "results.sqlite") as store:
        store.save_study(study(), [*gated, dense, other])
        for spec, seconds in zip([*gated, dense, other], (1.0, 2.0, 90.0, 0.5, 7.0), strict=True):
            store.begin_run(spec.content_hash(), ENVIRONMENT)
            store.record_unit(unit(spec).model_copy(update={"seconds": seconds}))
        seconds_by_key = store.unit_seconds([run(0.1), dense])
        assert seconds_by_key == {measurement_key(gated[0], "choice"): 2.0, measurement_key(dense, "choice"): 0.5}
        assert store.unit_seconds([run(0.1)], ENVIRONMENT.hardware) == {measurement_key(gated[0], "choice"): 2.0}
        assert store.unit_seconds([run(0.1)], "another machine") == {}
        fewer = run(0.1).model_copy(update={"evaluation": EvaluationSpec(tasks=("choice",), limit=5)})
        assert store.unit_seconds([fewer]) == {}
        assert measurement_key(gated[0], FIDELITY) not in seconds_by_key
