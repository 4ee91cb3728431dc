"""Loading of exported sparse models by transformers, against the dense model's folder, of a random Llama in bfloat16.

Expected: at most 1.2 times the dense model's time. Gates add small tensors and a hook for each layer; INT8 reads half
of the bytes. The files are in the system's cache, so that the time is that of building the model.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch
from comparing import Comparison, Contender, Facts, compare
from random_models import Size, random_llama
from transformers import AutoModelForCausalLM

import wina_core.hf  # noqa: F401 - transformers knows the folders from here on
from wina_core.compute.gating import attach
from wina_core.compute.models.quantize import quantize
from wina_core.compute.reporter import NullReporter
from wina_core.compute.sparse.export import save_sparse
from wina_core.masks.targets import resolve_plan
from wina_core.specs import MethodSpec, Quantization
from wina_core.specs.plans import UniformSparsity

SIZE = Size(hidden=2048, intermediate=5632, layers=16, heads=32, kv_heads=4)
TOY = Size(hidden=32, intermediate=64, layers=2, heads=4, kv_heads=2)
AT_MOST = 1.2
METHOD, PLAN = MethodSpec(name="wina"), UniformSparsity(sparsity=0.5)


def measure(toy: bool) -> list[Comparison]:
    """Load the dense folder and sparse ones, in turns."""
    size, repetitions = (TOY, 1) if toy else (SIZE, 7)
    with tempfile.TemporaryDirectory() as scratch:
        folders = {name: Path(scratch) / name for name in ("dense", "sparse", "sparse, INT8")}
        random_llama(size, torch.bfloat16).model.save_pretrained(folders["dense"])
        _export(size, "none", folders["sparse"])
        _export(size, "int8", folders["sparse, INT8"])
        dense, *others = (Contender(name, partial(_loading, folder), AT_MOST) for name, folder in folders.items())
        setting: Facts = {
            **size.facts,
            "dtype": "bfloat16",
            "sparsity": PLAN.sparsity,
            "threads": torch.get_num_threads(),
        }
        return [compare(dense, others, repetitions, setting)]


def _export(size: Size, quantization: Quantization, folder: Path) -> None:
    loaded = random_llama(size, torch.bfloat16)
    if quantization != "none":
        quantize(loaded, quantization, NullReporter())
    with attach(loaded, METHOD, PLAN) as gates:
        save_sparse(loaded, gates, METHOD, resolve_plan(PLAN, loaded.view.layout, METHOD), folder)


@contextmanager
def _loading(folder: Path) -> Iterator[partial[object]]:
    yield partial(AutoModelForCausalLM.from_pretrained, folder)
