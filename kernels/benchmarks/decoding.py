"""Greedy decoding through the gates and their kernels, against the same model without gates in transformers, on a
random Llama of hidden size 2048 in bfloat16.

Expected: at least 1.5 times the tokens per second at 50 % and 1.9 times at 65 %. WINA keeps the top k with one mask for
q, k, v and one for gate, up, as with the free rotation.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial

import torch
from comparing import Comparison, Contender, Facts, compare
from generating import generate
from random_models import Size, random_llama, threads
from torch import Tensor

from wina_core.compute.gating import attach
from wina_core.compute.models.architectures import view
from wina_core.compute.models.loading import LoadedModel
from wina_core.specs import MethodSpec
from wina_core.specs.plans import UniformSparsity

SIZE = Size(hidden=2048, intermediate=8192, layers=8, heads=32, kv_heads=8)
TOY = Size(hidden=32, intermediate=64, layers=2, heads=4, kv_heads=2)
PROMPT, TOKENS = 16, 16
AT_MOST = {0.5: 1 / 1.5, 0.65: 1 / 1.9}
METHOD = MethodSpec(name="wina", masks="shared")


def measure(toy: bool) -> list[Comparison]:
    """Measure with two threads; both times include the prompt's pass."""
    size, repetitions, count = (TOY, 1, 1) if toy else (SIZE, 7, 2)
    dense = random_llama(size, torch.bfloat16)
    model = deepcopy(dense.model)
    gated = LoadedModel(dense.source, model, dense.tokenizer, view(model))
    prompt = torch.randint(len(dense.tokenizer), (1, PROMPT), generator=torch.Generator().manual_seed(0))
    contenders = [
        Contender(f"{100 * sparsity:g} % dropped", partial(_gated, gated, sparsity, prompt), at_most)
        for sparsity, at_most in AT_MOST.items()
    ]
    setting: Facts = {**size.facts, "prompt": PROMPT, "tokens": TOKENS, "dtype": "bfloat16", "threads": count}
    with threads(count):
        return [compare(Contender("dense", partial(_dense, dense, prompt)), contenders, repetitions, setting)]


@contextmanager
def _dense(loaded: LoadedModel, prompt: Tensor) -> Iterator[partial[None]]:
    yield partial(generate, loaded, prompt, TOKENS)


@contextmanager
def _gated(loaded: LoadedModel, sparsity: float, prompt: Tensor) -> Iterator[partial[None]]:
    with attach(loaded, METHOD, UniformSparsity(sparsity=sparsity), kernels=True):
        generate(loaded, prompt[:, :2], 2)  # whatever is compiled or tuned at first use
        yield partial(generate, loaded, prompt, TOKENS)
