"""The model card of an exported sparse model: names of users are data, and their folders stay out of it."""

import yaml
from markdown_it import MarkdownIt

from wina_core.records import MetricRecord, UnitRecord
from wina_core.report.card import export_job, stored_card
from wina_core.specs import Configuration, EvaluationSpec, MethodSpec, ModelSource, RotationSpec, RunSpec, TextSpec
from wina_core.specs.plans import UniformSparsity
from wina_core.specs.studies import StudySpec
from wina_core.store import Store

HOME = "/home/somebody"
NAME = 'my: "model" **bold** <script> & #1\n# head | `code` \x1b\U0001f600'
SHOWN = 'my: "model" **bold** <script> & #1 # head | `code` \U0001f600'
TASK = "<img src=x> [link](http://evil.example) www.evil.example\n| a | b |\n***"
COMMAND = ("wina", "export-model", f"{HOME}/out", f"--plan={HOME}/plan.json", "--method", "```\n# x")


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


def test_hostile_names_stay_text_on_one_line(store: Store) -> None:
    card = stored_card(store, stored(store), COMMAND)
    _, head, body = card.split("---\n", 2)
    assert yaml.safe_load(head)["base_model"] == SHOWN
    tokens = MarkdownIt("commonmark").enable("table").parse(body)
    inline = [part for token in tokens for part in token.children or ()]
    kinds = {each.type for each in (*tokens, *inline)}
    assert not kinds & {"html_block", "html_inline", "link_open", "image", "strong_open", "em_open"}
    texts = ["".join(part.content for part in token.children or ()) for token in tokens if token.type == "inline"]
    assert f"{SHOWN}, gated" in texts
    assert " ".join(TASK.split()) in texts
    assert [token.content for token in tokens if token.type == "heading_open"] == [""] * 3
    assert not any(link in card for link in ("http://", "www.evil"))


def test_no_folder_of_the_author_is_in_it(store: Store) -> None:
    card = stored_card(store, stored(store), COMMAND)
    assert HOME not in card
    assert "wina export-model out --plan=plan.json" in card


def test_a_card_without_a_command_has_no_such_part(store: Store, tmp_path) -> None:
    spec = stored(store)
    assert "Made by" not in stored_card(store, spec, ())
    assert (
        f"wina export-model sparse --run {spec.content_hash()[:12]}"
        in export_job(store, spec, tmp_path / "sparse").card
    )
