"""The model card of an exported sparse model: names of users are data, and their folders stay out of it."""

from pathlib import Path

import yaml
from markdown_it import MarkdownIt

from wina_core.records import MetricRecord, UnitRecord
from wina_core.report.model_card import export_job, measured_run, stored_card
from wina_core.specs import (
    Configuration,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    RotationSpec,
    RunSpec,
    TextSpec,
)
from wina_core.specs.plans import PlanLayout, SparsityPlan, UniformSparsity
from wina_core.specs.studies import StudySpec
from wina_core.store import Store

HOME = "/home/somebody"
NAME = 'my: "model" **bold** <script> & #1\n# head | `code` \x1b\U0001f600'
SHOWN = 'my: "model" **bold** <script> & #1 # head | `code` \U0001f600'
TASK = "<img src=x> [link](http://evil.example) www.evil.example\n| a | b |\n***"
COMMAND = ("wina", "export-model", "out", "--method", "```\n# x")


def stored(store: Store) -> RunSpec:
    text = TextSpec(source=f"{HOME}/text.txt", fingerprint="f00d")
    spec = RunSpec(
        model=ModelSource(location=f"{HOME}/{NAME}", fingerprint="f"),
        rotation=RotationSpec(text=text),
        method=MethodSpec(name="wina"),
        plan=UniformSparsity(sparsity=0.5),
        evaluation=EvaluationSpec(tasks=("demo_choice",), task_folders=(f"{HOME}/tasks",), fidelity=text),
    )
    store.save_study(StudySpec(name="study", models=(spec.model,), configurations=(Configuration(),)), [spec])
    metrics = (MetricRecord(task=TASK, metric="acc", value=0.5, stderr=0.01, n=100),)
    store.record_unit(
        UnitRecord(run=spec.content_hash(), unit="demo_choice", metrics=metrics, seconds=1.0, gated_sparsity=0.5)
    )
    return spec


def card_of(store: Store) -> str:
    spec = stored(store)
    return stored_card(store, spec, spec, COMMAND)


def test_hostile_names_stay_text_on_one_line(store: Store) -> None:
    card = card_of(store)
    _, head, body = card.split("---\n", 2)
    assert yaml.safe_load(head)["base_model"] == SHOWN
    tokens = MarkdownIt("commonmark").enable("table").parse(body)
    inline = [child for token in tokens for child in token.children or ()]
    kinds = {token.type for token in (*tokens, *inline)}
    assert not kinds & {"html_block", "html_inline", "link_open", "image", "strong_open", "em_open"}
    texts = ["".join(child.content for child in token.children or ()) for token in tokens if token.type == "inline"]
    assert f"{SHOWN}, gated" in texts
    assert " ".join(TASK.split()) in texts
    assert [token.content for token in tokens if token.type == "heading_open"] == [""] * 3
    assert not any(link in card for link in ("http://", "www.evil"))


def test_no_folder_of_the_author_is_in_it_and_its_command_needs_no_database(store: Store, tmp_path: Path) -> None:
    spec = changed(stored(store), model=ModelSource(location=f"{HOME}/model"))
    card = export_job(store, spec, tmp_path / "sparse").card
    assert HOME not in card
    assert str(tmp_path) not in card
    assert "wina export-model sparse --model ./model --method wina --sparsity 0.5 --rotation global" in card
    assert "files of the author, to be put in the working folder: model, text.txt." in card


def changed(spec: RunSpec, **changes: object) -> RunSpec:
    return spec.model_copy(update=changes)


def test_results_are_those_of_a_run_with_the_same_gates_whatever_it_evaluates(store: Store, tmp_path: Path) -> None:
    measured = stored(store)
    other = changed(measured, evaluation=EvaluationSpec())
    assert export_job(store, other, tmp_path / "sparse").run == measured.content_hash()
    layout = PlanLayout(projections=("q", "k"), parameters=((1, 1),))
    assert measured_run(store, changed(other, plan=SparsityPlan.uniform(layout, 0.5))) == measured
    for different in (
        changed(other, evaluation=EvaluationSpec(dense_prefix=0.5)),
        changed(other, plan=UniformSparsity(sparsity=0.4)),
        changed(other, plan=SparsityPlan(layout=layout, sparsity=((0.25, 0.75),))),
        changed(other, method=MethodSpec(name="teal")),
    ):
        job = export_job(store, different, tmp_path / "sparse")
        assert job.run == ""
        assert "No stored results were found for it." in job.card
        assert HOME not in job.card


def test_the_main_results_come_first_with_their_units(store: Store) -> None:
    spec = stored(store)
    metrics = (
        MetricRecord(task="original", metric="kl", value=0.0123),
        MetricRecord(task="original", metric="top1_agreement", value=0.9),
        MetricRecord(task="cost", metric="net_bytes", value=5e6),
    )
    run = spec.content_hash()
    store.record_unit(UnitRecord(run=run, unit="original", metrics=metrics, seconds=1.0, gated_sparsity=0.49))
    card = stored_card(store, spec, spec, ())
    assert "- KL divergence from the original model: 0.0123 nats per token" in card
    assert "- Same top token as the original model: 90 % of tokens" in card
    assert "- Bytes read per token: 5 MB" in card
    assert "- Speed: not measured" in card
    assert "| original | kl | 0.0123 | nats per token |" in card


def record(store: Store, spec: RunSpec, *metrics: MetricRecord, unit: str = "demo_choice") -> None:
    store.save_study(StudySpec(name="study", models=(spec.model,), configurations=(Configuration(),)), [spec])
    store.record_unit(UnitRecord(run=spec.content_hash(), unit=unit, metrics=metrics, seconds=1.0))


def test_the_original_models_scores_on_the_same_requests_are_beside_the_sparse_ones(store: Store) -> None:
    evaluation = EvaluationSpec(tasks=("demo_choice",), limit=20, fidelity=TextSpec(source="demo:heldout", tokens=640))
    model = ModelSource(location="demo", dtype="float32", quantization="int8")
    spec = RunSpec(
        model=model, method=MethodSpec(name="wina"), plan=UniformSparsity(sparsity=0.5), evaluation=evaluation
    )

    def acc(value: float, prompts: str) -> MetricRecord:
        return MetricRecord(task="demo_choice", metric="acc", value=value, n=20, num_fewshot=0, prompt_hash=prompts)

    record(store, spec, acc(0.5, "same"))
    kl = MetricRecord(task="fidelity", metric="kl", value=0.1)
    store.record_unit(UnitRecord(run=spec.content_hash(), unit="fidelity", metrics=(kl,), seconds=1.0))
    record(store, RunSpec(model=model, evaluation=evaluation), acc(0.9, "same"))  # quantized: not the original
    record(store, RunSpec(model=model.unquantized), acc(0.8, "others"))
    card = stored_card(store, spec, spec, ())
    assert "| demo\\_choice | acc | 0.5 | fraction |  | 0 | 20 |" in card
    assert "The original model's results on the tasks are not stored." in card
    record(store, RunSpec(model=model.unquantized, evaluation=evaluation), acc(0.75, "same"))
    card = stored_card(store, spec, spec, ())
    assert "| demo\\_choice | acc | 0.5 | fraction |  | 0.75 | -0.25 | 0 | 20 |" in card
    assert "- demo\\_choice: the first 20 documents, few-shot as the task has it" in card
    assert "- fidelity: 640 tokens of demo:heldout, against the same model without gates" in card
    assert "- Weights: float32, INT8" in card
