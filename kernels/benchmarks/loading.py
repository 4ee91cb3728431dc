"""Loading of exported sparse models by transformers, against the dense model's folder: a random Llama in bfloat16, and
the rotated demo model.

Expected: at most 1.2 times the dense model's time. Gates add small tensors and a hook for each layer; INT8 reads half
of the bytes. The files are in the system's cache, so that the time is that of building the model.

Found: 1.1 to 1.2 times, 3 to 7 ms more; INT8 1.8 to 1.9 times. Files are mapped, so that their bytes cost nothing here,
and transformers takes its time for each tensor: INT8 has two for each matrix.
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
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.quantize import quantize
from wina_core.compute.reporter import NullReporter
from wina_core.compute.session.model_session import Session
from wina_core.compute.sparse.export import save_sparse
from wina_core.model_info.resolve import local_folder
from wina_core.specs import MethodSpec, ModelSource, Quantization, RotationSpec
from wina_core.specs.plans import UniformSparsity
from wina_core.specs.targets import resolve_plan

SIZE = Size(hidden=2048, intermediate=5632, layers=16, heads=32, kv_heads=4)
TOY = Size(hidden=32, intermediate=64, layers=2, heads=4, kv_heads=2)
AT_MOST = 1.2
FOLDERS: dict[str, Quantization] = {"sparse": "none", "sparse, INT8": "int8"}
DEMO = ModelSource(location="demo", device="cpu")
METHOD, PLAN = MethodSpec(name="wina"), UniformSparsity(sparsity=0.5)


def measure(toy: bool) -> list[Comparison]:
    """Load the dense folders and sparse ones, in turns."""
    size, repetitions = (TOY, 1) if toy else (SIZE, 7)
    common: Facts = {"sparsity": PLAN.sparsity, "threads": torch.get_num_threads()}
    with tempfile.TemporaryDirectory() as scratch:
        folders = {name: Path(scratch) / name for name in ("dense", "sparse", "sparse, INT8")}
        random_llama(size, torch.bfloat16).model.save_pretrained(folders["dense"])
        for name, quantization in FOLDERS.items():
            loaded = random_llama(size, torch.bfloat16)
            if quantization != "none":
                quantize(loaded, quantization, NullReporter())
            _export(loaded, folders[name])
        found = [_compare(folders, repetitions, {**size.facts, "dtype": "bfloat16", **common})]
    with tempfile.TemporaryDirectory() as scratch:
        if toy:
            return found
        folders = {"dense": local_folder(DEMO) or Path()}
        for name, quantization in FOLDERS.items():
            source = DEMO.model_copy(update={"quantization": quantization})
            folders[name] = Path(scratch) / name
            _export(Session().prepare(source, RotationSpec(), NullReporter()), folders[name])
        return [*found, _compare(folders, repetitions, {"model": "demo", **common})]


def _compare(folders: dict[str, Path], repetitions: int, setting: Facts) -> Comparison:
    dense, *others = (Contender(name, partial(_loading, folder), AT_MOST) for name, folder in folders.items())
    return compare(dense, others, repetitions, setting)


def _export(loaded: LoadedModel, folder: Path) -> None:
    with attach(loaded, METHOD, PLAN) as gates:
        save_sparse(loaded, gates, METHOD, resolve_plan(PLAN, loaded.view.layout, METHOD), folder)


@contextmanager
def _loading(folder: Path) -> Iterator[partial[object]]:
    yield partial(AutoModelForCausalLM.from_pretrained, folder)
