"""Every table and figure of the paper, at demo size: all steps run offline, and every published column has a number.

The suite runs what each table has of its own, on a small model; with WINA_LONG_TESTS=1 every twin runs whole.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stock_tasks import STOCK_FILES
from tests.wina_core.tiny import tiny_folder, tiny_text
from wina_core.api.studies import compute_study, sweep_products
from wina_core.compute.evaluation import tasks
from wina_core.compute.latency import products, sweep
from wina_core.compute.sandbox import run_confined
from wina_core.compute.session import model_session
from wina_core.errors import WinaError
from wina_core.specs import ROLE, CalibrationSpec, TextSpec
from wina_core.specs.studies import StudySpec
from wina_core.store import MetricFilter, MetricRow, Store
from wina_core.studies.expand import bind, expand
from wina_core.studies.gallery import find_study, gallery
from wina_core.studies.launch import LaunchOptions
from wina_core.studies.published import MEAN, mean_weights, preferred_metric, published

TWINS = [entry.name for entry in gallery() if entry.kind == "demo" and entry.study and entry.study.paper]
SWEEPS = [entry.name for entry in gallery() if entry.kind == "demo" and entry.study and entry.study.latency]
LONG = "WINA_LONG_TESTS" in os.environ
BY_DAY = ("demo-commonsense-llama-2-7b", "demo-gsm8k", "demo-gflops")
"""One of each kind of steps; the others differ in tasks and models."""
CONSENT = LaunchOptions(run_model_code=True)
Cell = tuple[str, str, str, float, str]
"""Role, quantization, configuration, sparsity, task."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One database and one session for all studies: what they share is computed once, models are loaded once."""
    folder = tmp_path_factory.mktemp("twins")
    shared = model_session.Session(capacity=12)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WINA_HOME", str(folder))
        patch.setattr(model_session, "Session", lambda: shared)
        patch.setattr(tasks, "_stock_paths", lambda: STOCK_FILES)  # since reading all names takes long
        with Store(folder / "results.sqlite") as opened:
            yield opened


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a small model."""
    return str(tiny_folder(tmp_path_factory.mktemp("small") / "model"))


def numbers(study: StudySpec, rows: list[MetricRow]) -> dict[Cell, dict[str, float]]:
    """The metrics of each task, by what the paper calls the model, the method and the rest."""
    models = {}
    for run in expand(study):
        (role,) = {
            model.location.removeprefix(ROLE)
            for model in study.models
            if (model.dtype, model.quantization) == (run.model.dtype, run.model.quantization)
        }
        (configuration,) = {
            each.name for each in study.configurations if (each.method, each.rotation) == (run.method, run.rotation)
        }
        sparsity = 0.0 if run.method.name == "dense" else run.plan.sparsity  # type: ignore[union-attr]  # all uniform
        models[run.content_hash()] = role, run.model.quantization, configuration, sparsity
    found: dict[Cell, dict[str, float]] = {}
    for row in rows:
        found.setdefault((*models[row.run], row.task), {})[row.metric] = row.value
    return found


def shortened(study: StudySpec, small: str) -> StudySpec:
    """Return a study of one document of each task on a small model, in float32 where its models do not differ in their
    dtype: processors without bfloat16 multiply it many times as fast.

    A study of several models keeps two tasks, which are enough to see each model quantized and evaluated.
    """
    if LONG:
        return study
    tasks = study.evaluation.tasks[: 2 if len(study.models) > 1 else None]
    differ_in_dtype = len({model.quantization for model in study.models}) < len(study.models)
    dtype = {} if differ_in_dtype else {"dtype": "float32"}
    return study.model_copy(
        update={
            "models": tuple(model.model_copy(update=dtype) for model in study.models),
            "roles": tuple(role.model_copy(update={"location": small}) for role in study.roles),
            "evaluation": study.evaluation.model_copy(update={"tasks": tasks, "limit": 1}),
        }
    )


@pytest.mark.parametrize("name", TWINS if LONG else BY_DAY)
def test_a_twin_runs_and_has_a_number_for_every_published_column(name: str, store: Store, small: str) -> None:
    study = shortened(find_study(name), small)
    if "humaneval" in study.evaluation.task_names:
        try:
            run_confined("pass")
        except WinaError as error:
            pytest.skip(str(error))
    computed = compute_study(study, CONSENT, store)
    computed.check()
    assert {row.status for row in store.runs(computed.study)} == {"done"}
    rows = numbers(study, store.metric_rows(MetricFilter(study=computed.study)))
    roles = {model.location.removeprefix(ROLE) for model in study.models}
    sparsities = {0.0, *study.sparsities}
    wanted = [
        number
        for number in published(study.paper)
        if number.model in roles
        and number.sparsity in sparsities
        and number.method in {each.name for each in study.configurations}
    ]
    assert {number.column for number in wanted} == {
        number.column for number in published(study.paper) if number.model in roles
    }
    whole = {*mean_weights(study.paper)} <= {*study.evaluation.task_names}
    for number in wanted:
        if number.task not in study.evaluation.task_names and not (number.task == MEAN and whole):
            continue
        cell = (number.model, number.quantization, number.method, number.sparsity)
        if number.task == MEAN:
            assert all(preferred_metric(rows[*cell, task]) for task in mean_weights(study.paper))
        else:
            assert number.metric in rows[*cell, number.task], f"{name} has no number for {number}"


@pytest.mark.parametrize("name", SWEEPS)
def test_the_twin_of_a_sweep_times_every_point_once(name: str, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    study = find_study(name)
    assert study.latency is not None
    spec = study.latency
    monkeypatch.setattr(products, "LONGEST_SECONDS", 3600.0)  # a busy machine takes long for any product
    if not LONG:
        spec = spec.model_copy(update={"shapes": spec.shapes[:1], "batches": spec.batches[:3]})
        monkeypatch.setattr(sweep, "cache_bytes", lambda _: 2**22)
        monkeypatch.setattr(sweep, "measure_bandwidth", lambda *_: 10.0)
    report, rows = sweep_products(spec, recompute=False, store=store)
    assert len(rows) == len(spec.points()) == report.measured + report.stored
    assert all(row.record.median_ms > 0 and row.record.speedup > 0 for row in rows)
    again, _ = sweep_products(spec, recompute=False, store=store)
    assert (again.measured, again.stored) == (0, len(rows))


def test_every_study_of_the_paper_has_a_twin_of_the_same_steps() -> None:
    entries = {entry.name: entry.study for entry in gallery()}
    for entry in gallery():
        if entry.kind != "paper":
            continue
        assert entry.study is not None, entry.error
        twin = entries[entry.name.replace("paper-", "demo-")]
        assert twin is not None
        assert (twin.paper, twin.evaluation.task_names) == (entry.study.paper, entry.study.evaluation.task_names)
        assert [each.name for each in twin.configurations] == list(
            dict.fromkeys(each.name for each in entry.study.configurations)
        )
        assert [role.name for role in twin.roles] == [role.name for role in entry.study.roles]
        assert [model.quantization for model in twin.models] == [model.quantization for model in entry.study.models]
        assert bool(twin.latency) == bool(entry.study.latency)


@pytest.mark.nightly
def test_the_papers_own_recipe_runs_on_a_small_model(store: Store, tmp_path: Path) -> None:
    """Thresholds, greedy allocation and dense prefix as released, under all four methods, as Table 3's file says: only
    texts are shorter, steps coarser, and one document stands for eight tasks."""
    whole = bind(find_study("paper-commonsense-llama-2-7b"), {"Llama-2-7B": str(tiny_folder(tmp_path / "small"))})
    text = TextSpec(source=tiny_text(tmp_path), tokens=256, sequence=64)
    study = whole.model_copy(
        update={
            "allocators": tuple(each.model_copy(update={"text": text, "step": 0.2}) for each in whole.allocators),
            "calibration": CalibrationSpec(text=text),
            "evaluation": whole.evaluation.model_copy(update={"tasks": ("piqa",), "data_folder": "demo", "limit": 1}),
            "sparsities": (0.40,),
            "models": tuple(model.model_copy(update={"dtype": "float32"}) for model in whole.models),
            "configurations": tuple(each.model_copy(update={"sparsities": ()}) for each in whole.configurations),
        }
    )
    computed = compute_study(study, CONSENT, store)
    computed.check()
    rows = store.metric_rows(MetricFilter(study=computed.study, metrics=("acc_norm",)))
    found = {row.method.partition(" ")[0]: (row.selection, row.plan.partition(",")[0]) for row in rows}
    assert found.pop("dense") == ("topk", "uniform")
    assert found == dict.fromkeys(("cats", "rsparse", "teal", "wina"), ("threshold", "greedy (as released by WINA"))
