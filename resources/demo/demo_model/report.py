"""Measure the shipped model and write its card: `python -m demo_model.report`.

All numbers are measured on `text/heldout.txt`, in bits per byte, for the model and for two n-gram models counted on the
model's training text: one over bytes, one over the model's own tokens.
"""

from __future__ import annotations

import json
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from demo_model import corpus
from demo_model.evaluation import total_bits
from demo_model.ngram import ORDER, NGram, byte_model, bytes_of
from demo_model.paths import MODEL, TASKS, TEXT
from demo_model.train import stream

TASK_NAMES = ["demo_choice", "demo_ppl"]
CARD = Path(__file__).with_name("card.md")


def model_bits_per_byte(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: str) -> float:
    """Predict each token from at least half a window of text, if there is that much before it."""
    length = model.config.max_position_embeddings
    tokens = torch.tensor([tokenizer.eos_token_id, *tokenizer.encode(text, add_special_tokens=False, verbose=False)])
    return total_bits(model, tokens, length, overlap=length // 2) / len(text.encode())


def sample_of(text: str) -> str:
    """Return a stretch from the middle, short enough to measure again in a test."""
    return text[len(text) // 2 :][:40_000]


def bits_per_byte(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, training: list[corpus.Document], text: str
) -> dict[str, dict[str, float]]:
    """Return the bits per byte of the model and both n-grams, for the whole of `text` and for its sample."""
    byte_ngram = byte_model(training)
    # END (token 0) separates the training documents.
    token_ngram = NGram.fit(stream(training, tokenizer).numpy(), len(tokenizer), ORDER)

    def measured(part: str) -> dict[str, float]:
        size = len(part.encode())
        tokens = np.array(tokenizer.encode(part, add_special_tokens=False, verbose=False))
        return {
            "model": round(model_bits_per_byte(model, tokenizer, part), 4),
            "byte_5gram": round(byte_ngram.bits(bytes_of(part)) / size, 4),
            "token_5gram": round(token_ngram.bits(tokens) / size, 4),
        }

    return {"whole": measured(text), "sample": measured(sample_of(text))}


def task_results() -> dict[str, dict[str, float]]:
    """Return lm-eval's metrics of the shipped folder, under lm-eval's names."""
    from wina_core.compute.evaluation.lm_eval_adapter import HFLM, TaskManager, evaluate

    tasks = TaskManager(include_path=str(TASKS), include_defaults=False).load(TASK_NAMES)
    model = HFLM(pretrained=str(MODEL), batch_size=16, device="cpu")
    results = evaluate(model, task_dict=tasks, bootstrap_iters=0)["results"]
    return {
        task: {
            metric: round(value, 4)
            for metric, value in results[task].items()
            if metric.endswith(",none") and isinstance(value, float)
        }
        for task in TASK_NAMES
    }


def measure() -> dict[str, Any]:
    """Return all numbers of the card, in minutes on two cores."""
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    training = corpus.load()["train"]
    text = (TEXT / "heldout.txt").read_text(encoding="utf-8")
    return {
        "parameters": model.num_parameters(),
        "heldout_bits_per_byte": bits_per_byte(model, tokenizer, training, text),
        "tasks": task_results(),
    }


def card(metrics: dict[str, Any], training: dict[str, Any]) -> str:
    """Return the model card's text from `card.md`."""
    bits = metrics["heldout_bits_per_byte"]["whole"]
    choice, reading = (metrics["tasks"][task] for task in TASK_NAMES)
    return Template(CARD.read_text(encoding="utf-8")).substitute(
        parameters=f"{metrics['parameters'] / 1e6:.2f}",
        python=training["python"],
        steps=training["steps"],
        minutes=f"{training['minutes']:.0f}",
        tokens_seen=f"{training['tokens_seen'] / 1e6:.1f}",
        passes=f"{training['tokens_seen'] / training['train_tokens']:.1f}",
        validation_bits=f"{training['validation_bits_per_byte']:.3f}",
        model_bits=f"{bits['model']:.3f}",
        byte_bits=f"{bits['byte_5gram']:.3f}",
        token_bits=f"{bits['token_5gram']:.3f}",
        accuracy=f"{choice['acc,none']:.3f}",
        accuracy_norm=f"{choice['acc_norm,none']:.3f}",
        word_perplexity=f"{reading['word_perplexity,none']:.1f}",
        reading_bits=f"{reading['bits_per_byte,none']:.3f}",
    )


def main() -> None:
    metrics = measure()
    training = json.loads((MODEL / "training.json").read_text())
    (MODEL / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n")
    (MODEL / "README.md").write_text(card(metrics, training), encoding="utf-8")
    print(json.dumps(metrics, indent=2))


if __name__ == "__main__":
    main()
