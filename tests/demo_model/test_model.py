"""The shipped model is small, complete, and better than the n-gram models its card compares it with."""

import json

import pytest
import torch
from demo_model.paths import MODEL, TEXT
from demo_model.report import card, model_bits_per_byte, sample_of
from transformers import AutoModelForCausalLM, AutoTokenizer

MEGABYTE = 1e6


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    return AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32, use_safetensors=True)


def test_the_folder_is_at_most_twenty_megabytes_and_holds_no_pickle() -> None:
    files = [path for path in MODEL.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 20 * MEGABYTE
    assert {path.suffix for path in files} == {".json", ".md", ".safetensors"}


def test_the_tokenizer_adds_nothing_and_loses_nothing() -> None:
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    text = (TEXT / "heldout.txt").read_text(encoding="utf-8")[:20_000] + "äπ\u4e2d\t\r\n"
    ids = tokenizer.encode(text, verbose=False)
    assert tokenizer.decode(ids) == text
    assert len(ids) < len(text) / 3
    assert tokenizer.bos_token is None
    assert (tokenizer.eos_token_id, tokenizer.pad_token_id) == (0, 1)


def test_it_beats_both_five_gram_models_on_held_out_text(model: torch.nn.Module) -> None:
    recorded = json.loads((MODEL / "metrics.json").read_text())["heldout_bits_per_byte"]
    assert recorded["whole"]["model"] < 0.95 * recorded["whole"]["token_5gram"]
    assert recorded["whole"]["model"] < 0.80 * recorded["whole"]["byte_5gram"]
    assert recorded["sample"]["model"] < min(recorded["sample"]["byte_5gram"], recorded["sample"]["token_5gram"])
    beginning = sample_of((TEXT / "heldout.txt").read_text(encoding="utf-8"))[:8_000]
    measured = model_bits_per_byte(model, AutoTokenizer.from_pretrained(MODEL), beginning)
    assert measured == pytest.approx(1.7055, abs=0.002), "as measured with the shipped weights"


def test_the_card_says_what_was_measured() -> None:
    metrics, training = (json.loads((MODEL / name).read_text()) for name in ("metrics.json", "training.json"))
    assert (MODEL / "README.md").read_text(encoding="utf-8") == card(metrics, training)


@pytest.mark.parametrize(("name", "least"), [("calibration", 150_000), ("training", 1_000_000)])
def test_texts_to_fit_to_are_of_useful_size_and_share_nothing_with_the_one_to_measure_on(name: str, least: int) -> None:
    text, heldout = ((TEXT / f"{source}.txt").read_text("utf-8") for source in (name, "heldout"))
    assert least < len(text.encode()) < 1_500_000
    assert len(heldout.encode()) > 250_000
    long_lines = {line for line in text.splitlines() if len(line.strip()) >= 40}
    assert sum(line in long_lines for line in heldout.splitlines()) < 0.02 * len(heldout.splitlines())
