"""Train the demo model: `python -m demo_model.train --max-minutes 60`.

The learning rate follows the spent share of the budget (minutes or steps, whichever is further), so a run on a busy
machine still ends on time with a finished schedule.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import tempfile
import time
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from demo_model import corpus
from demo_model.evaluation import total_bits
from demo_model.paths import MODEL
from demo_model.tokenizer import END, VOCABULARY, train_tokenizer


@dataclass(frozen=True)
class Settings:
    """Settings of a run. The defaults made the shipped model; its card says what differed."""

    hidden: int = 256
    layers: int = 8
    heads: int = 8
    kv_heads: int = 2
    intermediate: int = 688
    vocabulary: int = VOCABULARY
    length: int = 512
    batch: int = 4
    peak_rate: float = 2e-3
    final_rate: float = 5e-5
    warmup_share: float = 0.03
    weight_decay: float = 0.1
    topic_repeats: int = 3  # prose is scarce among the modules
    max_minutes: float = math.inf
    max_steps: int | None = None
    seed: int = 0


@dataclass
class Spent:
    """Progress of a run."""

    steps: int = 0
    windows: int = 0  # not steps * batch where a run was resumed with another batch
    seconds: float = 0.0


def new_model(settings: Settings, end_id: int, pad_id: int) -> LlamaForCausalLM:
    """Return a Llama with grouped-query attention and tied embeddings, in float32."""
    torch.manual_seed(settings.seed)
    config = LlamaConfig(
        vocab_size=settings.vocabulary,
        hidden_size=settings.hidden,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.kv_heads,
        intermediate_size=settings.intermediate,
        max_position_embeddings=settings.length,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end_id,
        pad_token_id=pad_id,
    )
    model = LlamaForCausalLM(config)
    # Each layer adds to the residual stream twice; start with a stream that does not grow with depth.
    with torch.no_grad():
        for layer in model.model.layers:
            for projection in (layer.self_attn.o_proj, layer.mlp.down_proj):
                projection.weight.div_(math.sqrt(2 * settings.layers))
    return model


def new_optimizer(model: LlamaForCausalLM, settings: Settings) -> torch.optim.AdamW:
    """Return AdamW that decays matrices but not norm gains."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    gains = [p for p in model.parameters() if p.dim() < 2]
    groups = [
        {"params": matrices, "weight_decay": settings.weight_decay},
        {"params": gains, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.peak_rate, betas=(0.9, 0.95), fused=True)


def spent_share(spent: Spent, settings: Settings) -> float:
    """Return the spent share of the budget."""
    steps_share = spent.steps / settings.max_steps if settings.max_steps else 0.0
    return max(steps_share, spent.seconds / (60 * settings.max_minutes))


def learning_rate(share: float, settings: Settings) -> float:
    """Return the rate: linear warm-up, then half a cosine down to the final rate."""
    if share < settings.warmup_share:
        return settings.peak_rate * max(share / settings.warmup_share, 0.02)
    angle = math.pi * min((share - settings.warmup_share) / (1 - settings.warmup_share), 1.0)
    return settings.final_rate + (settings.peak_rate - settings.final_rate) * (1 + math.cos(angle)) / 2


def stream(documents: list[corpus.Document], tokenizer: PreTrainedTokenizerBase) -> Tensor:
    """Return all documents as one row of token ids [n], END before each and after the last."""
    end = tokenizer.convert_tokens_to_ids(END)
    ids = [end]
    for document in documents:
        ids += tokenizer.encode(document.text, add_special_tokens=False, verbose=False)
        ids.append(end)
    return torch.tensor(ids)


@lru_cache(maxsize=2)
def epoch_starts(epoch: int, tokens: int, length: int, seed: int) -> Tensor:
    """Return window starts [windows] of one pass: every window once, shuffled, on a grid shifted in each pass."""
    generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
    windows = (tokens - 1) // length - 1
    shift = int(torch.randint(length, (1,), generator=generator))
    return torch.randperm(windows, generator=generator) * length + shift


def batch_at(position: int, tokens: Tensor, settings: Settings) -> Tensor:
    """Return windows [batch, length + 1] from the `position`-th on; the position alone decides, so a resumed run
    repeats."""
    windows = (len(tokens) - 1) // settings.length - 1
    rows = []
    for index in range(position, position + settings.batch):
        starts = epoch_starts(index // windows, len(tokens), settings.length, settings.seed)
        start = int(starts[index % windows])
        rows.append(tokens[start : start + settings.length + 1])
    return torch.stack(rows)


def train_step(model: LlamaForCausalLM, optimizer: torch.optim.Optimizer, windows: Tensor, rate: float) -> float:
    """Update on `windows` [batch, length + 1] and return the loss in nats per token."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(windows[:, :-1], use_cache=False).logits
        loss = cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


def save_checkpoint(path: Path, model: LlamaForCausalLM, optimizer: torch.optim.Optimizer, spent: Spent) -> None:
    """Write all state to `path` atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "spent": asdict(spent)}
    torch.save(state, partial)
    os.replace(partial, path)


def load_checkpoint(path: Path, model: LlamaForCausalLM, optimizer: torch.optim.Optimizer) -> Spent:
    """Restore all state from `path` and return the run's progress."""
    state = torch.load(path, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return Spent(**state["spent"])


def export(folder: Path, model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerBase, facts: dict[str, object]) -> None:
    """Save in bfloat16, each file by a rename, so that a reader never sees half a file."""
    folder.mkdir(parents=True, exist_ok=True)
    copy = LlamaForCausalLM(model.config).to(torch.bfloat16)
    copy.load_state_dict(model.state_dict())
    copy.generation_config.eos_token_id = model.config.eos_token_id
    copy.generation_config.pad_token_id = model.config.pad_token_id
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        copy.save_pretrained(scratch)
        tokenizer.save_pretrained(scratch)
        Path(scratch, "training.json").write_text(json.dumps(facts, indent=2) + "\n")
        for path in Path(scratch).iterdir():
            path.chmod(0o644)
            os.replace(path, folder / path.name)


def run(
    settings: Settings,
    documents: dict[corpus.Split, list[corpus.Document]],
    output: Path,
    checkpoint: Path,
    report_every: int = 400,
) -> LlamaForCausalLM:
    """Train from `checkpoint` if it exists, else from scratch, until the budget is spent; export to `output`."""
    tokenizer = train_tokenizer((d.text for d in documents["train"]), settings.vocabulary, settings.length)
    prose = [d for d in documents["train"] if d.name.startswith("topics/")] * (settings.topic_repeats - 1)
    tokens = stream(documents["train"] + prose, tokenizer)
    validation = stream(documents["validation"], tokenizer)
    validation_bytes = len(tokenizer.decode(validation, skip_special_tokens=True).encode())

    model = new_model(settings, tokenizer.eos_token_id, tokenizer.pad_token_id)
    optimizer = new_optimizer(model, settings)
    spent = load_checkpoint(checkpoint, model, optimizer) if checkpoint.exists() else Spent()
    started = time.monotonic() - spent.seconds

    def report(loss: float) -> None:
        save_checkpoint(checkpoint, model, optimizer, spent)
        bits = total_bits(model, validation, settings.length) / validation_bytes
        facts = {
            "settings": {k: v for k, v in asdict(settings).items() if v not in (None, math.inf)},
            "python": platform.python_version(),
            "steps": spent.steps,
            "minutes": round(spent.seconds / 60, 1),
            "tokens_seen": spent.windows * settings.length,
            "train_tokens": len(tokens),
            "validation_bits_per_byte": round(bits, 4),
        }
        export(output, model, tokenizer, facts)
        print(
            f"step {spent.steps}  {spent.seconds / 60:.1f} min  loss {loss:.3f}  validation {bits:.4f} bit/byte",
            flush=True,
        )

    loss = math.nan
    while spent_share(spent, settings) < 1:
        rate = learning_rate(spent_share(spent, settings), settings)
        loss = train_step(model, optimizer, batch_at(spent.windows, tokens, settings), rate)
        spent.steps += 1
        spent.windows += settings.batch
        spent.seconds = time.monotonic() - started
        if spent.steps % report_every == 0:
            report(loss)
        elif spent.steps % 50 == 0:
            print(f"step {spent.steps}  {spent.seconds / 60:.1f} min  loss {loss:.3f}", flush=True)
    report(loss)
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=MODEL)
    parser.add_argument("--checkpoint", type=Path, default=Path("demo-checkpoint.pt"))
    parser.add_argument("--max-minutes", type=float, default=60)
    parser.add_argument("--max-steps", type=int)
    parser.add_argument("--batch", type=int, default=Settings.batch, help="windows of 512 tokens in a step")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    settings = Settings(max_minutes=arguments.max_minutes, max_steps=arguments.max_steps, batch=arguments.batch)
    run(settings, corpus.load(), arguments.output, arguments.checkpoint)


if __name__ == "__main__":
    main()
