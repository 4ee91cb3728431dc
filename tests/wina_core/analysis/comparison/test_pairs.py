"""Pairs of runs: matched by the sparsity that was measured, and flagged where it differs."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.wina_core.conftest import Wina
from tests.wina_core.report.report_study import named, study
from wina_core.analysis.comparison.study_runs import StudyRun, comparable, stored_run, study_runs
from wina_core.analysis.results.measured import SparsityKind, difference_text
from wina_core.records import MetricRecord, UnitRecord
from wina_core.specs import COST, FIDELITY, SYNTHETIC, EvaluationSpec, RunSpec
from wina_core.store import Store

STUDY = study()
"""Dense, TEAL and WINA at 50 % and 65 %."""
MEASURED = {"teal": {0.5: 0.527, 0.65: 0.677}, "wina": {0.5: 0.502, 0.65: 0.653}}


@pytest.fixture
def store(store: Store) -> Store:
    store.save_study(STUDY, named(STUDY))
    return store


def record(store: Store, spec: RunSpec, unit: str, counted: float | None, full: float | None = None) -> None:
    metric = MetricRecord(task=unit, metric="acc", value=0.5, stderr=0.01, n=400)
    measured = {"gated_sparsity": counted, "net_sparsity": full, "seconds": 1}
    store.record_unit(UnitRecord(run=spec.content_hash(), unit=unit, metrics=(metric,), **measured))


def measure(store: Store, measured: dict[str, dict[float, float]] = MEASURED, shortcut: float = 0.0) -> None:
    """Store one task of every run; net sparsity is less by WINA's `shortcut`."""
    for spec, _ in named(STUDY):
        counted = measured.get(spec.method.name, {}).get(spec.plan.budget)
        shortcuts = shortcut if spec.method.name == "wina" else 0.0
        record(store, spec, "piqa", counted, None if counted is None else counted - shortcuts)


def of(store: Store, configuration: str, target: float) -> StudyRun:
    (run,) = [
        run for run in study_runs(store, STUDY) if (run.configuration, run.target_sparsity) == (configuration, target)
    ]
    return run


def pairs(store: Store, baseline: str, by: SparsityKind = "gated") -> dict[tuple[str, float], tuple[str, float]]:
    return {
        (run.configuration, run.target_sparsity): (other.configuration, other.target_sparsity)
        for run, other in comparable(study_runs(store, STUDY), baseline, by)
    }


def test_a_run_without_a_reference_of_its_allocation_is_paired_with_another() -> None:
    def run(configuration: str, allocation: str, target: float = 0.5) -> StudyRun:
        return StudyRun(
            run=f"{configuration} {allocation} {target}",
            model="m",
            quantization="none",
            configuration=configuration,
            method="wina" if configuration == "WINA" else "teal",
            target_sparsity=target,
            gated_sparsity=None,
            net_sparsity=None,
            allocation=allocation,
            evaluation=EvaluationSpec(),
        )

    ours, uniform, alike = run("WINA", "sensitivity"), run("TEAL", "uniform"), run("TEAL", "sensitivity")
    assert comparable((ours, uniform, run("TEAL", "uniform", 0.25)), "TEAL") == ((ours, uniform),)
    assert comparable((ours, uniform, alike), "TEAL") == ((ours, alike),)


# ---- measured sparsity of a run --------------------------------------------------------------------------------


def test_a_run_has_the_mean_sparsity_of_its_units(store: Store) -> None:
    (spec,) = [spec for spec, label in named(STUDY) if (label.configuration, spec.plan.budget) == ("WINA", 0.5)]
    assert (of(store, "WINA", 0.5).gated_sparsity, of(store, "WINA", 0.5).net_sparsity) == (None, None)
    record(store, spec, COST, 0.6, 0.5)
    assert of(store, "WINA", 0.5).gated_sparsity == 0.6, "the cost counts while nothing else is measured"
    record(store, spec, "piqa", 0.50, 0.40)
    record(store, spec, FIDELITY, 0.52, 0.44)
    record(store, spec, "boolq", None)
    run = of(store, "WINA", 0.5)
    assert (run.gated_sparsity, run.net_sparsity) == (pytest.approx(0.51), pytest.approx(0.42))
    alone = stored_run(store, spec.content_hash())
    assert (alone.gated_sparsity, alone.net_sparsity) == (run.gated_sparsity, run.net_sparsity)
    assert (alone.target_sparsity, alone.method) == (0.5, "wina")
    network = named(STUDY)[-1].spec
    record(store, network, SYNTHETIC, 0.64, 0.63)
    run = stored_run(store, network.content_hash())
    assert (run.gated_sparsity, run.net_sparsity) == (0.64, 0.63), "a random network's counts alone"


# ---- pairs -----------------------------------------------------------------------------------------------------


def test_each_run_is_paired_with_the_nearest_measured_sparsity(store: Store) -> None:
    measure(store, {"teal": {0.5: 0.58, 0.65: 0.648}, "wina": {0.5: 0.64, 0.65: 0.653}})
    assert pairs(store, "TEAL") == {("WINA", 0.5): ("TEAL", 0.65), ("WINA", 0.65): ("TEAL", 0.65)}
    assert pairs(store, "TEAL", "target") == {("WINA", 0.5): ("TEAL", 0.5), ("WINA", 0.65): ("TEAL", 0.65)}


def test_equally_near_runs_and_those_without_measurements_are_paired_by_target(store: Store) -> None:
    by_target = {("WINA", 0.5): ("TEAL", 0.5), ("WINA", 0.65): ("TEAL", 0.65)}
    assert pairs(store, "TEAL") == by_target
    measure(store, {"teal": {0.5: 0.56, 0.65: 0.60}, "wina": {0.5: 0.58, 0.65: 0.58}})
    assert pairs(store, "TEAL") == by_target
    measure(store, {"teal": {0.5: 0.40, 0.65: 0.51}})
    assert pairs(store, "TEAL")["WINA", 0.5] == ("TEAL", 0.5), "its own sparsity is not known"


def test_a_dense_baseline_is_the_dense_run(store: Store) -> None:
    measure(store)
    dense = {(configuration, target): ("dense", 0.0) for configuration in ("TEAL", "WINA") for target in (0.5, 0.65)}
    assert pairs(store, "dense") == pairs(store, "dense", "target") == dense


# ---- flags -----------------------------------------------------------------------------------------------------


def test_a_difference_of_more_than_half_a_point_is_flagged() -> None:
    assert difference_text(0.505, 0.5) == ""
    assert difference_text(0.506, 0.5) == "0.6 points sparser"
    assert difference_text(0.653, 0.677) == "2.4 points denser"


def test_a_studys_pairs_show_both_sparsities_and_a_flag_for_the_chosen_count(
    store: Store, compare: Callable[..., list[dict[str, Any]]], wina: Wina
) -> None:
    measure(store)
    words = ("--study", STUDY.name, "--unpaired")
    first, second = compare(*words)
    assert list(first)[:8] == [
        "model", "configuration", "baseline", "first gated", "second gated", "first target", "second target", "flag",
    ]  # fmt: skip
    assert [list(line.values())[3:8] for line in (first, second)] == [
        [0.502, 0.527, 0.5, 0.5, "2.5 points denser"],
        [0.653, 0.677, 0.65, 0.65, "2.4 points denser"],
    ]
    _, out, err = wina("compare", *words)
    assert "2.5 points denser" in out
    assert "2 of 2 pairs differ by more than 0.5 points in gated sparsity" in err
    (named,) = compare(*(of(store, configuration, 0.65).run for configuration in ("WINA", "TEAL")), "--unpaired")
    assert named.items() >= dict(list(second.items())[3:8]).items()

    measure(store, {name: {0.5: 0.5, 0.65: 0.65} for name in ("teal", "wina")}, shortcut=0.1)
    _, out, err = wina("compare", *words)
    assert "flag" not in out
    assert "differ" not in err
    line = compare(*words, "--by", "net")[-1]
    assert (line["first net"], line["second net"], line["flag"]) == (0.55, 0.5, "5.0 points sparser")
