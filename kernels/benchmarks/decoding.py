"""Decoding, prompts and loading of sparse models against the dense ones in transformers.

decoding: greedy decoding through the gates and their kernels, against the same model without gates in transformers, on
a random Llama of hidden size 2048 in bfloat16. Expected: at least 1.5 times the tokens per second at 50 % and 1.9 times
at 65 %. WINA keeps the top k with one mask for q, k, v and one for gate, up, as with the free rotation.

prompts: the forward pass of prompts and batches through gates and their kernels, against the same model without gates,
of the same width. Several rows together keep almost every input, so gates save little here; they should cost nothing.
But weights of 16 bits lie transposed for them. Expected: at most 1.05 times the dense time at 0 %, which is all
kernels, and 1.15 times at 50 % by threshold, with the masks. Seen with PyTorch's products alone, in 16 bits: 1.5 to 2.1
times as long for 16 to 64 tokens, 1.1 for 256 and more, and 1.5 for batches of 8. With a native kernel for such weights
(`results/prompts-cpu.json`): 0.87 to 1.00 at 0 % in 16, 0.66 to 1.05 in 4 bits. Missed in 8 bits: 1.08 to 1.16 for
batches of 2 to 8 at 0 %, and 1.16 for 8 at 50 %. Other runs had up to 1.12 in 4 bits as well, for the memory's speed
changes within a run.

loading: exported sparse models loaded by transformers, against the dense model's folder: a random Llama in bfloat16,
and the rotated demo model. Expected: at most 1.2 times the dense model's time. Gates add small tensors and a hook for
each layer; INT8 reads half of the bytes. The files are in the system's cache, so that the time is that of building the
model. Found: 1.1 to 1.2 times, 3 to 7 ms more; INT8 1.8 to 1.9 times. Files are mapped, so that their bytes cost
nothing here, and transformers takes its time for each tensor: INT8 has two for each matrix.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from pathlib import Path

import torch
from comparing import Contender, Facts, TimingComparison, compare, ready
from random_models import TOY, Size, forward, generate, random_llama
from torch import Tensor
from transformers import AutoModelForCausalLM

import wina_core.hf  # noqa: F401 - transformers knows the folders from here on
from wina_core.compute.calibration import Calibration, calibrate
from wina_core.compute.gating import attach
from wina_core.compute.models.architectures import view
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.quantize import quantize
from wina_core.compute.reporter import NullReporter
from wina_core.compute.session.model_session import Session
from wina_core.compute.sparse.export import save_sparse
from wina_core.model_info.resolve import local_folder
from wina_core.specs import (
    CalibrationSpec,
    MethodSpec,
    ModelSource,
    Quantization,
    QuantizationSpec,
    RotationSpec,
    TextSpec,
)
from wina_core.specs.plans import UniformSparsity, resolve_plan

SIZE = Size(hidden=2048, intermediate=8192, layers=8, heads=32, kv_heads=8)
PROMPT, TOKENS = 16, 16
AT_MOST = {0.5: 1 / 1.5, 0.65: 1 / 1.9}
METHOD = MethodSpec(name="wina", masks="shared")

PROMPTS_SIZE = Size(hidden=2048, intermediate=8192, layers=2, heads=32, kv_heads=8)
QUANTIZATIONS = {
    16: None,
    8: QuantizationSpec(quantizer="rtn", bits=8, group=128),
    4: QuantizationSpec(quantizer="rtn", bits=4, group=64),
}
INPUTS = (*((batch, 1) for batch in (2, 4, 8)), *((1, tokens) for tokens in (16, 64, 256, 1024)))
"""Batch and tokens of each."""
PROMPTS_AT_MOST = {0.0: 1.05, 0.5: 1.15}
PROMPTS_METHOD = MethodSpec(name="wina", masks="shared", selection="threshold")

LOADING_SIZE = Size(hidden=2048, intermediate=5632, layers=16, heads=32, kv_heads=4)
LOADING_AT_MOST = 1.2
FOLDERS: dict[str, Quantization] = {"sparse": "none", "sparse, INT8": "int8"}
DEMO = ModelSource(location="demo", device="cpu")
LOADING_METHOD, PLAN = MethodSpec(name="wina"), UniformSparsity(sparsity=0.5)


def measure(toy: bool) -> list[TimingComparison]:
    """Measure decoding with two threads; both times include the prompt's pass."""
    size, repetitions, count = (TOY, 1, 1) if toy else (SIZE, 7, 2)
    dense = random_llama(size, torch.bfloat16)
    model = deepcopy(dense.model)
    gated = LoadedModel(dense.source, model, dense.tokenizer, view(model))
    prompt = torch.randint(len(dense.tokenizer), (1, PROMPT), generator=torch.Generator().manual_seed(0))
    contenders = [
        Contender(f"{100 * sparsity:g} % dropped", partial(_decoding, gated, sparsity, prompt), at_most)
        for sparsity, at_most in AT_MOST.items()
    ]
    setting: Facts = {**size.facts, "prompt": PROMPT, "tokens": TOKENS, "dtype": "bfloat16", "threads": count}
    return [compare(ready("dense", partial(generate, dense, prompt, TOKENS)), contenders, repetitions, setting)]


@contextmanager
def _decoding(loaded: LoadedModel, sparsity: float, prompt: Tensor) -> Iterator[partial[None]]:
    with attach(loaded, METHOD, UniformSparsity(sparsity=sparsity), kernels=True):
        generate(loaded, prompt[:, :2], 2)  # whatever is compiled or tuned at first use
        yield partial(generate, loaded, prompt, TOKENS)


def measure_prompts(toy: bool) -> list[TimingComparison]:
    """Measure each width with two threads."""
    size, inputs, repetitions, count = (TOY, INPUTS[:4], 1, 1) if toy else (PROMPTS_SIZE, INPUTS, 9, 2)
    comparisons = []
    for bits, quantization in QUANTIZATIONS.items():
        loaded = random_llama(size, torch.bfloat16)
        if quantization is not None:
            quantize(loaded, quantization, NullReporter())
        text = CalibrationSpec(text=TextSpec(tokens=256, sequence=64))
        calibration = calibrate(loaded, PROMPTS_METHOD, text, NullReporter())
        for batch, length in inputs:
            setting = {"bits": bits, "hidden": size.hidden, "batch": batch, "tokens": length, "threads": count}
            tokens = torch.randint(len(loaded.tokenizer), (batch, length), generator=torch.Generator().manual_seed(0))
            gated = [
                Contender(f"{share:.0%} dropped", partial(_passing, loaded, share, calibration, tokens), at_most)
                for share, at_most in PROMPTS_AT_MOST.items()
            ]
            dense = ready("dense", partial(_last_logits, loaded, tokens))
            comparisons.append(compare(dense, gated, repetitions, dict(setting)))
    return comparisons


@contextmanager
def _passing(loaded: LoadedModel, dropped: float, calibration: Calibration, tokens: Tensor) -> Iterator[partial[None]]:
    with attach(loaded, PROMPTS_METHOD, UniformSparsity(sparsity=dropped), calibration, kernels=True):
        _last_logits(loaded, tokens)  # whatever is compiled or chosen at first use
        yield partial(_last_logits, loaded, tokens)


@torch.inference_mode()
def _last_logits(loaded: LoadedModel, tokens: Tensor) -> None:
    forward(loaded, tokens, logits=1)


def measure_loading(toy: bool) -> list[TimingComparison]:
    """Load the dense folders and sparse ones, in turns."""
    size, repetitions = (TOY, 1) if toy else (LOADING_SIZE, 7)
    common: Facts = {"sparsity": PLAN.sparsity, "threads": torch.get_num_threads()}
    with tempfile.TemporaryDirectory() as scratch:
        folders = {name: Path(scratch) / name for name in ("dense", "sparse", "sparse, INT8")}
        random_llama(size, torch.bfloat16).model.save_pretrained(folders["dense"])
        for name, quantization in FOLDERS.items():
            loaded = random_llama(size, torch.bfloat16)
            if quantization != "none":
                quantize(loaded, quantization, NullReporter())
            _export(loaded, folders[name])
        comparisons = [_compare_loading(folders, repetitions, {**size.facts, "dtype": "bfloat16", **common})]
    if toy:
        return comparisons
    with tempfile.TemporaryDirectory() as scratch:
        folders = {"dense": local_folder(DEMO) or Path()}
        for name, quantization in FOLDERS.items():
            source = DEMO.model_copy(update={"quantization": quantization})
            folders[name] = Path(scratch) / name
            _export(Session().prepare(source, RotationSpec(), NullReporter()), folders[name])
        return [*comparisons, _compare_loading(folders, repetitions, {"model": "demo", **common})]


def _compare_loading(folders: dict[str, Path], repetitions: int, setting: Facts) -> TimingComparison:
    dense, *sparse = (
        ready(name, partial(AutoModelForCausalLM.from_pretrained, folder), LOADING_AT_MOST)
        for name, folder in folders.items()
    )
    return compare(dense, sparse, repetitions, setting)


def _export(loaded: LoadedModel, folder: Path) -> None:
    with attach(loaded, LOADING_METHOD, PLAN) as gates:
        targets = resolve_plan(PLAN, loaded.view.layout, LOADING_METHOD).targets
        save_sparse(loaded, gates, LOADING_METHOD, targets, folder)
