"""Reports: laid out as the paper's tables, honest about what is missing, and safe to open whatever names hold."""

import csv
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from wina_core.cli import app
from wina_core.errors import WinaError
from wina_core.gallery import find_study, gallery
from wina_core.latency_specs import LatencyPoint, LatencySpec, Shape
from wina_core.paper import COMMONSENSE, display_scale, published_value
from wina_core.plan import UniformSparsity
from wina_core.records import Environment, LatencyRecord, LayerRecord, MetricRecord, SampleRecord, UnitRecord
from wina_core.report import make_report
from wina_core.report.findings import gather
from wina_core.report.layout import Cell, Table, published_metric, tables
from wina_core.report.significance import significance
from wina_core.report.writing import latex
from wina_core.run_labels import LabelledRun, RunLabel, arm_names, model_names
from wina_core.specs import (
    DENSE,
    Arm,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    RotationSpec,
    RunSpec,
    TaskSpec,
    TextSpec,
)
from wina_core.store import Store
from wina_core.study import bind, labelled, load_study, specs_of
from wina_core.study_specs import Role, StudySpec

ENVIRONMENT = Environment(device="cpu", hardware="a processor", versions={"torch": "2.13.0", "lm-eval": "0.4.13"})
ARMS = (
    Arm(name="dense", method=DENSE),
    Arm(name="TEAL", method=MethodSpec(name="teal")),
    Arm(name="WINA", method=MethodSpec(name="wina")),
)
STEPS = {"dense": 0.02, "teal": -0.03, "wina": 0.0}
"""How far each method's accuracies lie above the paper's WINA at 50 %."""


def study(**changes: object) -> StudySpec:
    settings: dict[str, object] = {
        "name": "The commons' <sense> & $x_1$",
        "title": "Table 3 <script>alert(1)</script>",
        "paper": "commonsense",
        "roles": (Role(name="Llama-2-7B", hub="meta-llama/Llama-2-7b-hf", location="/home/somebody/llama"),),
        "models": (ModelSource(location="role:Llama-2-7B"),),
        "arms": ARMS,
        "sparsities": (0.5, 0.65),
        "evaluation": EvaluationSpec(tasks=COMMONSENSE, deviation=None),
    }
    return StudySpec.model_validate(settings | changes)


def named(of: StudySpec) -> list[LabelledRun]:
    """As `labelled` makes them, of models that are not here."""
    locations = {f"role:{role.name}": role.location for role in of.roles}
    found = []
    for model, model_name in zip(of.models, model_names(of), strict=True):
        for arm, arm_name in zip(of.arms, arm_names(of), strict=True):
            for sparsity in (0.0,) if arm.method.name == "dense" else of.sparsities:
                location = locations.get(model.location, model.location)
                run = RunSpec(
                    model=model.model_copy(update={"location": location, "fingerprint": "f"}),
                    rotation=arm.rotation,
                    method=arm.method,
                    plan=UniformSparsity(sparsity=sparsity),
                    calibration=of.calibration if arm.method.needs_calibration else None,
                    evaluation=of.evaluation,
                )
                found.append(LabelledRun(run, RunLabel(run.content_hash(), model_name, arm_name, "uniform")))
    return found


def runs(of: StudySpec) -> list[RunSpec]:
    return [run.spec for run in named(of)]


def unit(run: RunSpec, task: str, value: float, metric: str = "acc", samples: int = 0, **more: object) -> UnitRecord:
    right = round(value * samples)
    documents = tuple(
        SampleRecord(task=task, doc=doc, scores={metric: (float(doc < right), 1.0)}, target="0", response="[]")
        for doc in range(samples)
    )
    value = right / samples if samples else value
    record = {"task": task, "metric": metric, "value": value, "stderr": 0.01, "n": samples or 4000, "num_fewshot": 0}
    layers = tuple(
        LayerRecord(layer=layer, projection=name, metric="sparsity", value=0.4 + layer / 10)
        for layer in range(2)
        for name in ("q", "down")
    )
    return UnitRecord(
        run=run.content_hash(),
        unit=task,
        metrics=(MetricRecord.model_validate(record | more),),
        layers=() if run.method.name == "dense" else layers,
        counted_sparsity=None if run.method.name == "dense" else 0.49,
        full_sparsity=None if run.method.name == "dense" else 0.4,
        seconds=1.5,
        samples=documents,
    )


def fill(store: Store, of: StudySpec, missing: tuple[str, str] = ("", ""), samples: int = 0) -> None:
    """Store all units of the study but those of the method and task in `missing`."""
    store.save_study(of, named(of))
    for run in runs(of):
        store.begin_run(run.content_hash(), ENVIRONMENT)
        for task in set(of.evaluation.task_names) & set(COMMONSENSE):
            paper = published_value("commonsense", "Llama-2-7B", "WINA", 0.5, task)
            assert paper is not None
            if (run.method.name, task) != missing:
                value, metric = paper / 100 + STEPS[run.method.name], published_metric("commonsense", task)
                store.record_unit(unit(run, task, value, metric, samples))


@pytest.fixture
def store() -> Iterator[Store]:
    with Store("sqlite://") as opened:
        yield opened


def cells(table: Table) -> dict[tuple[str, ...], dict[str, Cell]]:
    return {row.labels: dict(zip(table.columns, row.cells, strict=True)) for row in table.rows}


# ---- layout ----------------------------------------------------------------------------------------------------


def test_a_commonsense_table_is_the_papers(store: Store) -> None:
    fill(store, study())
    (table,) = tables(gather(store, study()))
    assert table.title == "Table 3: Llama-2-7B on commonsense reasoning"
    assert table.heads == ("Sparsity", "Method")
    assert table.columns == ("PiQA", "Arc-C", "WinoGrande", "HellaSwag", "SciQ", "OBQA", "BoolQ", "Arc-E", "Avg")
    assert [row.labels for row in table.rows] == [
        ("0 %", "dense"),
        *((f"{sparsity} %", method) for sparsity in (50, 65) for method in ("TEAL", "WINA")),
    ]
    assert [row.dense for row in table.rows] == [True, False, False, False, False]
    assert [row.begins for row in table.rows] == [True, True, False, True, False]


def test_ours_stand_beside_the_papers_with_the_difference_and_its_weight(store: Store) -> None:
    fill(store, study())
    found = cells(tables(gather(store, study()))[0])
    piqa = found["50 %", "WINA"]["PiQA"]
    assert piqa.value is not None
    assert (piqa.value.value, piqa.value.stderr, piqa.paper) == (pytest.approx(77.80), pytest.approx(1.0), 77.80)
    assert (piqa.difference, piqa.agrees) == (pytest.approx(0.0, abs=1e-9), True)
    teal = found["50 %", "TEAL"]["PiQA"]  # 74.80 where the paper has 77.09
    assert (teal.difference, teal.agrees) == (pytest.approx(-2.29), False)
    mean = found["50 %", "WINA"]["Avg"]
    assert mean.value is not None
    assert mean.value.value == pytest.approx(68.79, abs=0.005)
    assert mean.value.stderr == pytest.approx(1.0 / 8**0.5)
    assert found["0 %", "dense"]["Avg"].paper == 69.72


def test_the_best_sparse_method_of_each_sparsity_is_bold(store: Store) -> None:
    fill(store, study())
    table = tables(gather(store, study()))[0]
    assert {row.labels[1] for row in table.rows for cell in row.cells if cell.best} == {"WINA"}
    assert all(cell.best for row in table.rows if row.labels[1] == "WINA" for cell in row.cells)


def test_what_is_missing_is_counted_and_has_no_mean(store: Store) -> None:
    fill(store, study(), missing=("teal", "piqa"))
    findings = gather(store, study())
    found = cells(tables(findings)[0])
    assert (found["50 %", "TEAL"]["PiQA"].value, found["50 %", "TEAL"]["PiQA"].missing) == (None, 1)
    assert (found["50 %", "TEAL"]["Avg"].value, found["50 %", "TEAL"]["Avg"].missing) == (None, 1)
    assert found["50 %", "TEAL"]["Avg"].paper == 67.58
    assert findings.missing == (2, 40)


def test_columns_may_be_the_bits(store: Store) -> None:
    models = tuple(ModelSource(location="role:Llama-2-7B", quantization=bits) for bits in ("none", "int8"))
    of = study(paper="quantization", models=models)
    fill(store, of)
    (table,) = tables(gather(store, of))
    assert (table.heads, table.columns) == (("Sparsity", "Method"), ("FP16", "INT8"))
    found = cells(table)
    assert (found["65 %", "TEAL"]["FP16"].paper, found["65 %", "TEAL"]["INT8"].paper) == (61.07, 60.38)


def test_columns_may_be_the_models(store: Store) -> None:
    roles = tuple(Role(name=name, location=f"/{name}") for name in ("Llama-2-7B", "Llama-3-8B"))
    of = study(paper="ablation", roles=roles, models=tuple(ModelSource(location=f"role:{role.name}") for role in roles))
    fill(store, of)
    (table,) = tables(gather(store, of))
    assert (table.heads, table.columns) == (("Sparsity", "Method"), ("Llama-2-7B", "Llama-3-8B"))
    assert cells(table)["65 %", "WINA"]["Llama-3-8B"].paper == 65.63


def test_one_model_may_play_two_roles(store: Store) -> None:
    roles = tuple(Role(name=name, location="demo") for name in ("Llama-2-7B", "Llama-3-8B"))
    of = study(paper="ablation", roles=roles, models=tuple(ModelSource(location=f"role:{role.name}") for role in roles))
    fill(store, of)
    findings = gather(store, of)
    assert {run.model for run in findings.runs} == {"Llama-2-7B", "Llama-3-8B"}
    assert findings.missing == (0, 40)
    assert "The shipped demo model stands for Llama-2-7B, Llama-3-8B" in findings.warnings[0]


def test_stereotypes_are_best_at_one_half(store: Store) -> None:
    task = "crows_pairs_english_gender"
    of = study(paper="crows_pairs", evaluation=EvaluationSpec(tasks=(task,), deviation=None), sparsities=(0.5,))
    store.save_study(of, named(of))
    for run, value in zip(runs(of), (0.6, 0.45, 0.58), strict=True):
        store.record_unit(unit(run, task, value, metric="pct_stereotype", higher_is_better=False))
    (table,) = tables(gather(store, of))
    assert table.columns == ("Gender",)
    found = cells(table)
    assert (found["50 %", "TEAL"]["Gender"].best, found["50 %", "WINA"]["Gender"].best) == (True, False)
    assert found["50 %", "WINA"]["Gender"].paper == 59.54
    assert r"58.00 (8.00) {\scriptsize(59.54)}" in latex(table)


def test_a_study_of_ones_own_shows_its_tasks_their_mean_and_what_the_workbench_measures(store: Store) -> None:
    tasks = ("mine", TaskSpec(name="yours", metric="f1"))
    of = study(paper="", evaluation=EvaluationSpec(tasks=tasks, cost_context=64))
    store.save_study(of, named(of))
    for run in runs(of):
        for task in ("mine", "yours"):
            store.record_unit(unit(run, task, 0.5))
        store.record_unit(unit(run, "deviation", 0.01, metric="kl", higher_is_better=False))
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
    limited = EvaluationSpec(tasks=COMMONSENSE, deviation=None, limit=20)
    of = study(evaluation=limited)
    fill(store, of)
    store.begin_run(runs(of)[0].content_hash(), ENVIRONMENT.model_copy(update={"hardware": "another"}))
    store.record_unit(unit(runs(of)[0], "piqa", 0.8, truncated=7))
    limits, cut, hardware = gather(store, of).warnings
    assert limits.startswith("Only the first documents of these tasks were asked: piqa (20), ")
    assert cut == "Prompts longer than the model's context lost their beginning: piqa (7 prompts)."
    assert hardware.startswith("Not all was computed on the same hardware")


@pytest.mark.parametrize("name", [entry.name for entry in gallery() if entry.study and entry.study.models])
def test_every_run_of_a_study_has_a_row_of_its_own(store: Store, name: str) -> None:
    """With a made-up number for each run, every number is in the tables as often as its run has parts."""
    of = find_study(name)
    of = bind(of, {role.name: "demo" for role in of.roles})
    of_runs = labelled(of)
    store.save_study(of, of_runs)
    numbers = {spec.content_hash(): 0.1 + place / 10_000 for place, spec in enumerate(specs_of(of_runs))}
    whole = of.paper in ("ablation", "quantization")  # their tables show nothing but means
    for spec in specs_of(of_runs):
        alone = "mmlu" if of.paper == "additional" else spec.evaluation.units[0]
        for asked in spec.evaluation.units if whole else (alone,):
            store.record_unit(made_up(of, spec, asked, numbers[spec.content_hash()]))
    shown = Counter(
        round(cell.value.value / (100 if cell.value.metric == "mean" else display_scale(cell.value.metric)), 8)
        for table in tables(gather(store, of))
        for row in table.rows
        for cell in row.cells
        if cell.value is not None
    )
    parts = len(of.evaluation.synthetic.networks) if of.evaluation.synthetic else 1
    assert shown == Counter(round(numbers[run.label.run], 8) for run in of_runs for _ in range(parts))


def made_up(of: StudySpec, run: RunSpec, asked: str, value: float) -> UnitRecord:
    """A unit with one number, or for random networks one of each."""
    if run.evaluation.synthetic:
        return unit(run, run.evaluation.synthetic.networks[0], value, "error").model_copy(
            update={
                "unit": asked,
                "metrics": tuple(
                    MetricRecord(task=network, metric="error", value=value)
                    for network in run.evaluation.synthetic.networks
                ),
            }
        )
    own = {"deviation": "kl", "cost": "counted_flops_saving"}.get(asked)
    return unit(run, asked, value, own or published_metric(of.paper, asked) or "acc")


def test_two_runs_never_share_a_cell(store: Store) -> None:
    fill(store, study())
    findings = gather(store, study())
    same = tuple(replace(run, arm="WINA") if run.arm == "TEAL" else run for run in findings.runs)
    with pytest.raises(ValueError, match="would stand in one cell"):
        tables(replace(findings, runs=same))


def test_a_study_that_was_stored_without_names_has_its_runs_own(store: Store) -> None:
    of = study(arms=(*ARMS, Arm(name="Cut", method=MethodSpec(name="wina", selection="threshold"))))
    store.save_study(of, runs(of))
    assert {(run.model, run.arm) for run in gather(store, of).runs} == {
        ("llama", arm) for arm in ("dense", "teal", "wina", "wina, threshold")
    }


def test_names_are_those_of_the_launch_wherever_the_report_is_written(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model named by a relative path, and two arms of one method that reach other sparsities."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    of = study(
        paper="",
        roles=(),
        models=(ModelSource(location="./model"),),
        arms=(
            Arm(name="low", method=MethodSpec(name="wina"), sparsities=(0.25,)),
            Arm(name="high", method=MethodSpec(name="wina"), sparsities=(0.65,)),
        ),
    )
    monkeypatch.chdir(tmp_path)
    store.save_study(of, labelled(of))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    found = gather(store, of).runs
    assert [(run.model, run.arm, run.sparsity) for run in found] == [("model", "low", 0.25), ("model", "high", 0.65)]


def test_arms_that_are_called_the_same_are_told_apart() -> None:
    threshold = MethodSpec(name="wina", selection="threshold")
    of = study(arms=(*ARMS, Arm(name="WINA", method=threshold)))
    assert arm_names(of) == ("dense", "TEAL", "WINA, topk", "WINA, threshold")
    apart = (Arm(name="WINA", method=MethodSpec(name="wina"), sparsities=(0.25,)), Arm(name="WINA", method=threshold))
    assert arm_names(study(arms=apart)) == ("WINA", "WINA")  # one line of two sparsities
    dtypes = (ModelSource(location="role:Llama-2-7B"), ModelSource(location="role:Llama-2-7B", dtype="float16"))
    assert model_names(study(models=dtypes)) == ("Llama-2-7B, auto", "Llama-2-7B, float16")


def test_a_published_number_of_another_metric_is_not_shown(store: Store) -> None:
    of = study()
    fill(store, of)
    (run,) = [run.spec for run in named(of) if run.label.arm == "WINA" and run.spec.plan.budget == 0.5]
    store.record_unit(unit(run, "piqa", 0.7, "acc"))
    found = cells(tables(gather(store, of))[0])["50 %", "WINA"]
    assert (found["PiQA"].paper, found["Avg"].paper, found["Arc-C"].paper) == (None, None, 44.71)


@pytest.mark.parametrize("why", ["demo", "limit", "few"])
def test_nothing_is_said_to_agree_that_was_not_measured_alike(store: Store, why: str) -> None:
    demo = (Role(name="Llama-2-7B", location="demo"),)
    limit = EvaluationSpec(tasks=COMMONSENSE, deviation=None, limit=40)
    of = study(**({"roles": demo} if why == "demo" else {"evaluation": limit} if why == "limit" else {}))
    fill(store, of, samples=20 if why == "few" else 0)
    table = tables(gather(store, of))[0]
    assert table.has_paper
    assert {cell.agrees for row in table.rows for cell in row.cells} == {None}


def test_other_numbers_of_examples_than_the_papers_are_told(store: Store) -> None:
    of = study(evaluation=EvaluationSpec(tasks=({"name": "piqa", "num_fewshot": 5}, "boolq"), deviation=None))
    fill(store, of)
    (told,) = gather(store, of).warnings
    assert told == "The published numbers have other numbers of examples in the prompt: piqa (5-shot)."


# ---- files -----------------------------------------------------------------------------------------------------


class Checked(HTMLParser):
    """Collects what must not be on the page, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.links: set[str] = set()
        self.text: list[str] = []
        self.described = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        found = dict(attributes)
        self.links |= {value for name, value in attributes if name in ("src", "href", "xlink:href") and value}
        self.described += bool(found.get("role") == "img" and found.get("aria-label"))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a whole report."""
    folder = tmp_path_factory.mktemp("report")
    with Store("sqlite://") as opened:
        fill(opened, study(), missing=("teal", "piqa"), samples=200)
        page = make_report(opened, study(), folder / "out", with_tables=True)
    assert (page.parent, page.suffix) == (folder / "out", ".html")
    assert page.stem.startswith("the-commons-sense-x-1-"), "with a part of the hash, since other names come to this too"
    return page


def test_the_page_needs_nothing_else_and_takes_names_for_text(written: Path) -> None:
    page = written.read_text(encoding="utf-8")
    checked = Checked()
    checked.feed(page)
    assert not checked.tags & {"script", "link", "img", "iframe", "object"}
    assert {link for link in checked.links if not link.startswith("#")} == set()
    assert "Table 3 <script>alert(1)</script>" in "".join(checked.text)
    assert not re.search(r"url\((?!#)", page)
    assert checked.described == 2  # the frontier and the layers
    assert "currentColor" in page
    assert len(page) < 1_000_000
    identifiers = re.findall(r'\bid="([^"]+)"', page)
    assert len(identifiers) == len(set(identifiers))


def test_the_page_says_how_to_do_it_again_without_anybodys_folders(written: Path) -> None:
    page, other = written.read_text(encoding="utf-8"), written.with_suffix(".md").read_text(encoding="utf-8")
    for text in (page, other):
        assert "somebody" not in text
        assert re.search(r"wina study run the-commons-sense-x-1-[0-9a-f]{8}\.toml --role", text)
        assert "a processor" in text
        assert "torch 2.13.0, lm-eval 0.4.13" in text or "lm-eval 0.4.13, torch 2.13.0" in text
        assert "38 of 40 measurements; 2 missing" in text
        assert "– (1 missing)" in text
    again = load_study(written.with_suffix(".toml"))
    assert again == study(roles=(Role(name="Llama-2-7B", hub="meta-llama/Llama-2-7b-hf"),))


def test_a_shared_study_carries_nobodys_folders_and_its_report_tells_what_is_needed(
    store: Store, tmp_path: Path
) -> None:
    private = TextSpec(source="/home/somebody/secret/text.txt")
    of = study(
        models=(ModelSource(location="role:Llama-2-7B"), ModelSource(location="C:\\Users\\somebody\\mine")),
        arms=(
            Arm(method=MethodSpec(name="wina"), rotation=RotationSpec(matrices="/home/somebody/bases.safetensors")),
            Arm(method=MethodSpec(name="teal"), rotation=RotationSpec(objective="error", text=private)),
        ),
        allocators=({"name": "curves", "text": private},),
        calibration={"text": private},
        evaluation=EvaluationSpec(
            tasks=("humaneval",), data_folder="/home/somebody/data", task_folders=("~/tasks",), deviation=private
        ),
    )
    store.save_study(of, named(of))
    store.record_unit(unit(runs(of)[0], "humaneval", 0.5, "pass@1", samples=20))
    page = make_report(store, of, tmp_path)
    assert "somebody" not in page.with_suffix(".toml").read_text(encoding="utf-8")
    assert "somebody" not in page.read_text(encoding="utf-8")
    again = load_study(page.with_suffix(".toml"))
    assert [model.location for model in again.models] == ["role:Llama-2-7B", "role:mine"]
    text = page.with_suffix(".md").read_text(encoding="utf-8")
    assert "--role Llama-2-7B=FOLDER --role mine=FOLDER --samples --run-model-code" in text
    assert "consents to running the programs that the model writes for humaneval" in text
    assert r"of which it keeps only the names: text.txt, data, tasks, bases.safetensors" in text


def test_numbers_of_the_demo_model_are_named_as_such(store: Store, tmp_path: Path) -> None:
    of = study(title="Table 3", roles=(Role(name="Llama-2-7B", location="demo"),))
    fill(store, of)
    page = make_report(store, of, tmp_path).read_text(encoding="utf-8")
    assert "<title>Table 3 (demo model)</title>" in page


def test_the_markdown_page_has_the_same_tables_and_its_plots(written: Path) -> None:
    text = written.with_suffix(".md").read_text(encoding="utf-8")
    assert "| Sparsity | Method | PiQA | Arc-C |" in text
    assert "| 50 % | WINA | 78.00 (77.80, +0.20 ≈) | **44.50** (44.71, −0.21 ≈) |" in text
    assert "<script>" not in text
    for image in re.findall(r"\]\((\S+\.svg)\)", text):
        assert (written.parent / image).read_text(encoding="utf-8").startswith("<svg")


def test_significance_is_paired_where_samples_are(written: Path) -> None:
    text = written.with_suffix(".md").read_text(encoding="utf-8")
    assert "### Against TEAL" in text
    (line,) = re.findall(r"\| Llama-2-7B \| 65 % \| WINA \| boolq \|.*McNemar.*", text)
    assert line.endswith("| 200 | 6 / 0 | exact McNemar |")
    assert "| 0.031 |" in line
    assert "mean of" not in text  # as in the table above: a task is missing


def test_the_mean_that_is_tested_is_the_one_in_the_table(store: Store) -> None:
    of = study(paper="additional", evaluation=EvaluationSpec(tasks=(*COMMONSENSE, "mmlu"), deviation=None))
    fill(store, of, samples=200)
    for run in runs(of):
        store.record_unit(unit(run, "mmlu", 0.9 if run.method.name == "wina" else 0.1, samples=200))
    findings = gather(store, of)
    found = significance(store, findings)
    assert found is not None
    contrast = found.contrasts[-1]
    wina, teal = (findings.mean(run.run, dict.fromkeys(COMMONSENSE, 1))[0] for run in (contrast.run, contrast.baseline))
    assert contrast.mean is not None
    assert wina is not None
    assert teal is not None
    assert 100 * contrast.mean.first == pytest.approx(wina.value)
    assert 100 * contrast.mean.effect == pytest.approx(wina.value - teal.value)
    assert contrast.mean.p < 0.001
    assert contrast.mean.low > 0


def test_every_table_is_written_in_every_format(written: Path) -> None:
    name = written.stem
    names = {path.name for path in written.parent.glob(f"{name}-table-1.*")}
    assert names == {f"{name}-table-1{suffix}" for suffix in (".tex", ".csv", ".xlsx", ".parquet", ".json")}
    with (written.parent / f"{name}-table-1.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    wina = next(line for line in lines if (line["Sparsity"], line["Method"]) == ("50 %", "WINA"))
    assert (float(wina["PiQA"]), float(wina["PiQA paper"])) == (78.0, 77.80)
    assert float(wina["PiQA difference"]) == pytest.approx(0.2)
    missing = json.loads((written.parent / f"{name}-table-1.json").read_text(encoding="utf-8"))[1]
    assert (missing["Method"], missing["PiQA"], missing["PiQA paper"]) == ("TEAL", None, 77.09)
    tex = (written.parent / f"{name}-table-1.tex").read_text(encoding="utf-8")
    assert tex.count(r"\midrule") == 3
    assert r"50 \% & WINA & 78.00 {\scriptsize(77.80)} & \textbf{44.50} {\scriptsize(44.71)}" in tex
    assert "-- (1 missing)" in tex


def test_a_sweep_is_reported_by_shape_and_batch(store: Store, tmp_path: Path) -> None:
    sweep = LatencySpec(
        shapes=(Shape(outputs=64, inputs=48),),
        batches=(1, 4),
        dtypes=("float32",),
        backends=("cpu",),
        sparsities=(0.5,),
    )
    of = StudySpec(name="speed", latency=sweep)
    store.save_study(of, ())
    for point in sweep.points():
        store.record_latency(latency(point))
    text = make_report(store, of, tmp_path).with_suffix(".md").read_text(encoding="utf-8")
    assert "### Times as fast as dense: 64x48, float32, cpu" in text
    assert "| wina | 4 | 1.50 (2 ms) |" in text
    assert "speed-speed-up.svg" in text


def latency(point: LatencyPoint) -> LatencyRecord:
    return LatencyRecord(
        point=point, op="linear", environment=ENVIRONMENT, measured_sparsity=0.5, read_bytes=1e6, median_ms=2.0,
        p10_ms=1.9, p90_ms=2.1, dense_ms=3.0, speedup=1.5, bandwidth=10.0,
    )  # fmt: skip


# ---- what goes wrong -------------------------------------------------------------------------------------------


def test_a_study_that_was_never_run_is_told(store: Store, tmp_path: Path) -> None:
    with pytest.raises(WinaError, match="has not been launched here; run it first"):
        make_report(store, study(), tmp_path)


def test_an_unknown_baseline_is_told(store: Store, tmp_path: Path) -> None:
    fill(store, study())
    with pytest.raises(WinaError, match='has no arm "SCAP"; its arms are: "dense", "TEAL", "WINA"'):
        make_report(store, study(), tmp_path, baseline="SCAP")


def test_a_folder_that_cannot_be_made_is_told(store: Store, tmp_path: Path) -> None:
    fill(store, study())
    (tmp_path / "file").write_text("")
    with pytest.raises(WinaError, match=r"The folder .*file/reports cannot be made"):
        make_report(store, study(), tmp_path / "file" / "reports")


def test_the_command_reports_what_was_run_under_a_files_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Store(tmp_path / "results.sqlite") as store:
        store.save_study(study(), named(study()))
    file = tmp_path / "study.toml"
    file.write_text('name = "The commons\' <sense> & $x_1$"\nlatency = { shapes = [{ outputs = 8, inputs = 8 }] }\n')
    words = ["report", str(file), "--output", str(tmp_path / "out"), "--database", str(tmp_path / "results.sqlite")]
    app(words, standalone_mode=False)
    told = capsys.readouterr().err
    assert "is not what was run last under its name" in told
    assert len(list((tmp_path / "out").glob("the-commons-sense-x-1-*.html"))) == 1
    with pytest.raises(WinaError, match='No study "other" is stored'):
        app(["report", "other", *words[2:]], standalone_mode=False)
