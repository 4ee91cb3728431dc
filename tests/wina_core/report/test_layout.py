"""The tables of reports: laid out as the paper's, and honest about what is missing."""

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.wina_core.report.report_study import CONFIGURATIONS, ENVIRONMENT, fill, named, runs, study, unit
from tests.wina_core.studies.shipped_texts import with_shipped_texts
from wina_core.records import MetricRecord, UnitRecord
from wina_core.report.document import latex
from wina_core.report.findings import gather
from wina_core.report.layout import ReportCell, ReportTable, published_metric, tables
from wina_core.specs import EvaluationSpec, ModelSource, RunSpec, TaskSpec
from wina_core.specs.studies import Role, StudySpec
from wina_core.store import Store
from wina_core.studies.expand import bind, labelled, specs_of
from wina_core.studies.gallery import gallery
from wina_core.studies.published import COMMONSENSE, display_scale

ROLES = tuple(Role(name=name, location=f"/{name}") for name in ("Llama-2-7B", "Llama-3-8B"))


@pytest.fixture
def store() -> Iterator[Store]:
    """An empty database in memory."""
    with Store("sqlite://") as opened:
        yield opened


def cells(table: ReportTable) -> dict[tuple[str, ...], dict[str, ReportCell]]:
    """Return cells by the row's labels, without the measured sparsity, and the column."""
    return {
        tuple(label for label, head in zip(row.labels, table.heads, strict=True) if head != "Measured"): dict(
            zip(table.columns, row.cells, strict=True)
        )
        for row in table.rows
    }


def ablation(roles: tuple[Role, ...] = ROLES) -> StudySpec:
    """A study of two models that play roles."""
    models = tuple(ModelSource(location=f"role:{role.name}") for role in roles)
    return study(paper="ablation", roles=roles, models=models)


def first_table(store: Store, of: StudySpec, **options: Any) -> ReportTable:
    """Fill the study and lay out its first table."""
    fill(store, of, **options)
    return tables(gather(store, of))[0]


def test_a_commonsense_table_is_the_papers(store: Store) -> None:
    table = first_table(store, study())
    assert table.title == "Table 3: Llama-2-7B on commonsense reasoning"
    assert table.heads == ("Measured", "Target", "Method")
    assert table.columns == ("PiQA", "Arc-C", "WinoGrande", "HellaSwag", "SciQ", "OBQA", "BoolQ", "Arc-E", "Avg")
    assert [row.labels for row in table.rows] == [
        ("0 %", "0 %", "dense"),
        ("52.0 %†", "50 %", "TEAL"),
        ("50.2 %", "50 %", "WINA"),
        ("67.0 %†", "65 %", "TEAL"),
        ("65.2 %", "65 %", "WINA"),
    ]
    assert [row.dense for row in table.rows] == [True, False, False, False, False]
    assert [row.begins for row in table.rows] == [True, True, False, True, False]


def test_ours_stand_beside_the_papers_with_the_difference_and_its_weight(store: Store) -> None:
    rows = cells(first_table(store, study()))
    piqa = rows["50 %", "WINA"]["PiQA"]
    assert piqa.value is not None
    assert (piqa.value.value, piqa.value.stderr, piqa.paper) == (pytest.approx(77.80), pytest.approx(1.0), 77.80)
    assert (piqa.difference, piqa.agrees) == (pytest.approx(0.0, abs=1e-9), True)
    teal = rows["50 %", "TEAL"]["PiQA"]  # 74.80 where the paper has 77.09
    assert (teal.difference, teal.agrees) == (pytest.approx(-2.29), False)
    mean = rows["50 %", "WINA"]["Avg"]
    assert mean.value is not None
    assert mean.value.value == pytest.approx(68.79, abs=0.005)
    assert mean.value.stderr == pytest.approx(1.0 / 8**0.5)
    assert rows["0 %", "dense"]["Avg"].paper == 69.72


def test_numbers_of_another_model_stand_beside_ours_without_a_difference(store: Store) -> None:
    small = Role(name="Small", location="/models/small", beside="Llama-2-7B")
    of = study(roles=(small,), models=(ModelSource(location="role:Small"),))
    fill(store, of)
    findings = gather(store, of)
    table = tables(findings)[0]
    assert table.title == "Small, laid out as Table 3"
    piqa = cells(table)["50 %", "TEAL"]["PiQA"]
    assert (piqa.paper, piqa.difference, piqa.agrees) == (77.09, None, None)
    assert any("beside Small are those of Llama-2-7B" in warning for warning in findings.warnings)


def test_rows_say_what_was_measured_and_a_footnote_explains_the_mark(store: Store) -> None:
    of = ablation()
    fill(store, of)
    wina = [run.spec for run in named(of) if (run.label.configuration, run.spec.plan.budget) == ("WINA", 0.65)]
    for run, counted in zip(wina, (0.651, 0.654), strict=True):
        for task in COMMONSENSE:
            accuracy = unit(run, task, 0.5, published_metric("commonsense", task))
            store.record_unit(accuracy.model_copy(update={"gated_sparsity": counted, "net_sparsity": 0.55}))
    (table,) = tables(gather(store, of))
    assert table.rows[-1].labels == ("65.1 to 65.4 %", "65 %", "WINA")
    assert table.footnote == "† The gated sparsity of a run misses its target by more than 0.5 points."
    only_wina = study(name="wina", paper="", configurations=(CONFIGURATIONS[0], CONFIGURATIONS[2]))
    fill(store, only_wina)
    assert {table.footnote for table in tables(gather(store, only_wina))} == {""}
    full = tables(gather(store, of, "net"))[0]
    assert full.rows[-1].labels == ("55.0 %†", "65 %", "WINA")
    assert full.footnote.startswith("† The net sparsity")


def test_what_is_missing_is_counted_and_has_no_mean(store: Store) -> None:
    teal = cells(first_table(store, study(), missing=("teal", "piqa")))["50 %", "TEAL"]
    assert [(teal[name].value, teal[name].missing) for name in ("PiQA", "Avg")] == [(None, 1)] * 2
    assert teal["Avg"].paper == 67.58
    assert gather(store, study()).missing == (2, 40)


def test_columns_may_be_the_bits_or_the_models(store: Store) -> None:
    models = tuple(ModelSource(location="role:Llama-2-7B", quantization=bits) for bits in ("none", "int8"))
    of_bits = study(paper="quantization", models=models)
    table = first_table(store, of_bits)
    assert (table.heads, table.columns) == (("Measured", "Target", "Method"), ("FP16", "INT8"))
    rows = cells(table)
    assert (rows["65 %", "TEAL"]["FP16"].paper, rows["65 %", "TEAL"]["INT8"].paper) == (61.07, 60.38)
    of = ablation()
    store.save_study(of, named(of))
    (table,) = tables(gather(store, of))
    assert table.columns == ("Llama-2-7B", "Llama-3-8B")
    assert cells(table)["65 %", "WINA"]["Llama-3-8B"].paper == 65.63
    assert {row.labels[0] for row in table.rows} == {"0 %", "–"}, "nothing is measured"


def test_stereotypes_are_best_at_one_half(store: Store) -> None:
    task = "crows_pairs_english_gender"
    of = study(paper="crows_pairs", evaluation=EvaluationSpec(tasks=(task,), fidelity=None), sparsities=(0.5,))
    store.save_study(of, named(of))
    for run, value in zip(runs(of), (0.6, 0.45, 0.58), strict=True):
        store.record_unit(unit(run, task, value, metric="pct_stereotype", higher_is_better=False))
    (table,) = tables(gather(store, of))
    assert table.columns == ("Gender",)
    rows = cells(table)
    assert (rows["50 %", "TEAL"]["Gender"].best, rows["50 %", "WINA"]["Gender"].best) == (True, False)
    assert rows["50 %", "WINA"]["Gender"].paper == 59.54
    assert r"58.00 (8.00) {\scriptsize(59.54)}" in latex(table)


def test_a_study_of_ones_own_shows_its_tasks_their_mean_and_what_the_workbench_measures(store: Store) -> None:
    tasks = ("mine", TaskSpec(name="yours", metric="f1"))
    of = study(paper="", evaluation=EvaluationSpec(tasks=tasks, cost_context=64))
    store.save_study(of, named(of))
    for run in runs(of):
        for task in ("mine", "yours"):
            store.record_unit(unit(run, task, 0.5))
        store.record_unit(unit(run, "fidelity", 0.01, metric="kl", higher_is_better=False))
    first, second = tables(gather(store, of))
    assert first.columns == ("mine", "yours")  # yours has no f1
    assert cells(first)["50 %", "WINA"]["yours"].missing == 1
    assert second.columns[0] == "KL (nats per token)"
    assert second.columns[-1] == "Bytes saved, everything counted"
    kl = cells(second)["50 %", "WINA"]["KL (nats per token)"]
    assert kl.value is not None
    assert kl.value.value == 0.01
    assert cells(second)["50 %", "WINA"]["Bytes saved, everything counted"].missing == 1


def test_what_readers_should_know_is_told(store: Store) -> None:
    limited = EvaluationSpec(tasks=COMMONSENSE, fidelity=None, limit=20)
    of = study(evaluation=limited)
    fill(store, of)
    store.begin_run(runs(of)[0].content_hash(), ENVIRONMENT.model_copy(update={"hardware": "another"}))
    store.record_unit(unit(runs(of)[0], "piqa", 0.8, truncated=7))
    limits, cut, hardware = gather(store, of).warnings
    assert "piqa (20), " in limits
    assert cut == "Prompts longer than the model's context lost their beginning: piqa (7 prompts)."
    assert "different hardware" in hardware


STUDIES = [entry.study for entry in gallery() if entry.study and entry.study.models]
BY_LAYOUT = list({of.paper: of for of in STUDIES}.values())


@pytest.mark.parametrize("of", STUDIES if "WINA_LONG_TESTS" in os.environ else BY_LAYOUT, ids=lambda of: of.name)
def test_every_run_of_a_study_has_a_row_of_its_own(store: Store, of: StudySpec) -> None:
    """With a made-up number for each run, every number is in the tables as often as its run has parts."""
    of = with_shipped_texts(bind(of, {role.name: "demo" for role in of.roles}))
    of_runs = labelled(of)
    store.save_study(of, of_runs)
    numbers = {spec.content_hash(): 0.1 + index / 10_000 for index, spec in enumerate(specs_of(of_runs))}
    whole = of.paper in ("ablation", "quantization")  # their tables show nothing but means
    for spec in specs_of(of_runs):
        alone = "mmlu" if of.paper == "additional" else spec.evaluation.units[0]
        for unit_name in spec.evaluation.units if whole else (alone,):
            store.record_unit(made_up(of, spec, unit_name, numbers[spec.content_hash()]))
    printed = Counter(
        round(cell.value.value / (100 if cell.value.metric == "mean" else display_scale(cell.value.metric)), 8)
        for table in tables(gather(store, of))
        for row in table.rows
        for cell in row.cells
        if cell.value is not None
    )
    count = len(of.evaluation.synthetic.networks) if of.evaluation.synthetic else 1
    assert printed == Counter(round(numbers[run.label.run], 8) for run in of_runs for _ in range(count))


def made_up(of: StudySpec, run: RunSpec, unit_name: str, value: float) -> UnitRecord:
    """A unit with one number, or for random networks one of each."""
    if run.evaluation.synthetic:
        networks = run.evaluation.synthetic.networks
        metrics = tuple(MetricRecord(task=network, metric="error", value=value) for network in networks)
        return unit(run, networks[0], value, "error").model_copy(update={"unit": unit_name, "metrics": metrics})
    metric = {"fidelity": "kl", "original": "kl", "cost": "gated_flops_saving"}.get(unit_name)
    return unit(run, unit_name, value, metric or published_metric(of.paper, unit_name) or "acc")


def test_a_published_number_of_another_metric_is_not_shown(store: Store) -> None:
    of = study()
    fill(store, of)
    (run,) = [run.spec for run in named(of) if run.label.configuration == "WINA" and run.spec.plan.budget == 0.5]
    store.record_unit(unit(run, "piqa", 0.7, "acc"))
    row = cells(tables(gather(store, of))[0])["50 %", "WINA"]
    assert (row["PiQA"].paper, row["Avg"].paper, row["Arc-C"].paper) == (None, None, 44.71)


@pytest.mark.parametrize("why", ["demo", "limit", "few"])
def test_nothing_is_said_to_agree_that_was_not_measured_alike(store: Store, why: str) -> None:
    demo = (Role(name="Llama-2-7B", location="demo"),)
    limit = EvaluationSpec(tasks=COMMONSENSE, fidelity=None, limit=40)
    of = study(**({"roles": demo} if why == "demo" else {"evaluation": limit} if why == "limit" else {}))
    table = first_table(store, of, samples=20 if why == "few" else 0)
    assert table.has_paper
    assert {cell.agrees for row in table.rows for cell in row.cells} == {None}


def test_other_numbers_of_examples_than_the_papers_are_told(store: Store) -> None:
    of = study(evaluation=EvaluationSpec(tasks=({"name": "piqa", "num_fewshot": 5}, "boolq"), fidelity=None))
    fill(store, of)
    (warning,) = gather(store, of).warnings
    assert warning.endswith("in the prompt: piqa (5-shot).")
