"""The shipped questions and passages are sound and unseen; the shipped model does well on them, but not too well."""

import json
import platform
from typing import Any

import pytest
from demo_model import corpus, tasks
from demo_model.paths import MODEL, TASKS
from transformers import AutoTokenizer


def shipped(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (TASKS / name).read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def questions() -> list[dict[str, Any]]:
    return shipped("demo_choice.jsonl")


@pytest.fixture(scope="module")
def passages() -> list[dict[str, Any]]:
    return shipped("demo_ppl.jsonl")


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
