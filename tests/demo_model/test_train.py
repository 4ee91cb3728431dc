"""A tiny training run: it learns, resumes to the same bits, and ends when its budget does."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from demo_model import train
from demo_model.corpus import Document, Split
from demo_model.evaluation import total_bits
from demo_model.train import Settings, Spent
from transformers import AutoModelForCausalLM, AutoTokenizer

TINY = Settings(
    hidden=32,
    layers=2,
    heads=4,
    kv_heads=2,
    intermediate=48,
    vocabulary=300,
    length=16,
    batch=2,
    topic_repeats=2,
    max_steps=3,
)


@pytest.fixture(scope="module")
def documents() -> dict[Split, list[Document]]:
    text = "\n".join(f"def double_{n}(x):\n    return {n} * x\n" for n in range(60))
    train_documents = [Document("a.py", text), Document("topics/b", "The while statement repeats.\n" * 9)]
    return {"train": train_documents, "validation": [Document("c.py", text[:300])], "heldout": []}


def stopping_after(steps: int) -> Callable[..., float]:
    """`train_step`, but the machine goes down before step `steps`."""
    original, calls = train.train_step, itertools.count()

    def step(*arguments: Any) -> float:
        if next(calls) == steps:
            raise InterruptedError
        return original(*arguments)

    return step


def test_resuming_gives_the_same_weights_as_an_unbroken_run(
    tmp_path: Path, documents: dict[Split, list[Document]], monkeypatch: pytest.MonkeyPatch
) -> None:
    unbroken = train.run(TINY, documents, tmp_path / "unbroken", tmp_path / "unbroken.pt")
    with monkeypatch.context() as patch:
        patch.setattr(train, "train_step", stopping_after(2))
        with pytest.raises(InterruptedError):
            train.run(TINY, documents, tmp_path / "broken", tmp_path / "broken.pt", report_every=2)
    resumed = train.run(TINY, documents, tmp_path / "broken", tmp_path / "broken.pt")
    for name, expected in unbroken.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], expected), name


def test_the_exported_folder_loads_as_any_hugging_face_model(
    tmp_path: Path, documents: dict[Split, list[Document]]
) -> None:
    trained = train.run(TINY, documents, tmp_path / "model", tmp_path / "checkpoint.pt")
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert loaded.dtype == torch.bfloat16
    assert torch.equal(loaded.model.norm.weight, trained.model.norm.weight.bfloat16())
    text = "def f(x):\n    return 'äπ'\n"
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_the_schedule_follows_whichever_budget_is_further_spent() -> None:
    settings = Settings(max_minutes=10, max_steps=100)
    assert train.spent_share(Spent(50, 0, 60.0), settings) == pytest.approx(0.5)
    assert train.spent_share(Spent(1, 0, 300.0), settings) == pytest.approx(0.5)
    rates = [train.learning_rate(share / 100, settings) for share in range(101)]
    peak = rates.index(max(rates))
    assert peak == round(100 * settings.warmup_share)
    assert rates[:peak] == sorted(rates[:peak])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    assert rates[-1] == pytest.approx(settings.final_rate)


def test_a_pass_visits_every_window_once() -> None:
    settings = replace(TINY, batch=1)
    tokens = torch.arange(16 * 10 + 1)
    windows = (len(tokens) - 1) // settings.length - 1
    first_tokens = {int(train.batch_at(index, tokens, settings)[0, 0]) for index in range(windows)}
    assert len(first_tokens) == windows
    assert len({start % settings.length for start in first_tokens}) == 1


class Uniform(torch.nn.Module):
    """Predicts four symbols with equal probability, and counts nothing else."""

    def forward(self, inputs: torch.Tensor, use_cache: bool) -> SimpleNamespace:
        assert not use_cache
        return SimpleNamespace(logits=torch.zeros(*inputs.shape, 4))


@pytest.mark.parametrize("tokens", [2, 8, 9, 10, 50])
@pytest.mark.parametrize("overlap", [0, 3, 7])
def test_every_token_but_the_first_is_scored_once(tokens: int, overlap: int) -> None:
    text = torch.zeros(tokens, dtype=torch.long)
    assert total_bits(Uniform(), text, length=8, overlap=overlap) == pytest.approx(2.0 * (tokens - 1))
