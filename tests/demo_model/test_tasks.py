"""The shipped questions and passages are sound and unseen; the shipped model does well on them, but not too well."""

import json
import platform
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from demo_model import corpus, tasks
from demo_model.paths import MODEL, TASKS
from lm_eval.evaluator import evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from transformers import AutoTokenizer


def shipped(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (TASKS / name).read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def questions() -> list[dict[str, Any]]:
    return shipped("demo_choice.jsonl")


@pytest.fixture(scope="module")
def passages() -> list[dict[str, Any]]:
    return shipped("demo_ppl.jsonl")


def test_there_are_enough_questions_with_distinct_choices_and_balanced_answers(
    questions: list[dict[str, Any]],
) -> None:
    assert len(questions) >= 400
    assert all(len(set(q["choices"])) == tasks.CHOICES == len(q["choices"]) for q in questions)
    answers = Counter(q["answer"] for q in questions)
    assert max(answers.values()) - min(answers.values()) <= 1
    assert len({(q["context"], tuple(q["choices"])) for q in questions}) == len(questions)


def test_length_and_style_do_not_give_the_answer_away(questions: list[dict[str, Any]]) -> None:
    for q in questions:
        lengths = [len(choice) for choice in q["choices"]]
        truth = lengths[q["answer"]]
        assert all(abs(length - truth) <= 2 for length in lengths)
        assert len({choice[1].islower() for choice in q["choices"]}) == 1
    longest = sum(max(q["choices"], key=len) == q["choices"][q["answer"]] for q in questions)
    assert longest < 0.4 * len(questions)


def test_choices_begin_on_a_token_and_everything_fits_the_context(
    questions: list[dict[str, Any]], passages: list[dict[str, Any]]
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    for q in questions:
        context = tokenizer.encode(q["context"])
        for choice in q["choices"]:
            whole = tokenizer.encode(q["context"] + choice)
            assert whole[: len(context)] == context
            assert len(whole) <= 256
    assert all(len(tokenizer.encode(p["text"])) < 512 for p in passages)


@pytest.mark.nightly  # texts and items are files that seldom change
def test_no_item_shares_a_window_with_training_or_validation_text(
    questions: list[dict[str, Any]],
    passages: list[dict[str, Any]],
    splits: dict[corpus.Split, list[corpus.Document]],
) -> None:
    built_with = json.loads((MODEL / "training.json").read_text())["python"]
    if platform.python_version_tuple()[:2] != tuple(built_with.split(".")[:2]):
        pytest.skip(f"the demo was built from Python {built_with}'s standard library, not this one's")
    known = [document.text for split in ("train", "validation") for document in splits[split]]
    texts = [text for item in questions + passages for text in tasks.readings(item)]
    assert tasks.shared_windows(texts, known) == set()


def test_a_shared_window_is_found_wherever_it_lies() -> None:
    copied = "".join(chr(97 + n % 26) for n in range(tasks.WINDOW_CHARS))
    assert tasks.shared_windows(["x" + copied], ["yy" + copied + "z"]) == {copied}
    assert tasks.shared_windows(["x" + copied[1:]], ["yy" + copied + "z"]) == set()


@pytest.mark.nightly  # tests/end_to_end runs stock lm-eval on both
def test_lm_eval_runs_both_tasks_from_any_folder_and_the_dense_model_is_neither_guessing_nor_perfect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    loaded = TaskManager(include_path=str(TASKS), include_defaults=False).load(["demo_choice", "demo_ppl"])
    model = HFLM(pretrained=str(MODEL), dtype=torch.float32, batch_size=16, device="cpu")
    samples = {"demo_choice": list(range(0, 500, 20)), "demo_ppl": list(range(0, 120, 30))}
    results = evaluate(model, task_dict=loaded, samples=samples, bootstrap_iters=0)["results"]
    assert results["demo_choice"]["sample_len"] == 25
    assert 0.4 <= results["demo_choice"]["acc,none"] <= 0.95
    assert 0.5 < results["demo_ppl"]["bits_per_byte,none"] < 1.8
