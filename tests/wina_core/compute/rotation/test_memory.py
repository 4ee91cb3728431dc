"""The memory that is stated for a search is what it takes."""

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from tests.wina_core.tiny import tiny_tokenizer, tiny_tokens
from wina_core.compute.memory import release_memory
from wina_core.compute.models.loading import load_model
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation.bases import choose_bases
from wina_core.compute.rotation.descent import Search
from wina_core.files.hardware import MEMORY_VARIABLE, free_memory
from wina_core.model_info.cost.refinement import ModelSizes, RefinementNeed, refinement_need
from wina_core.specs import ModelSource, RotationSpec, TextSpec

SIZES = ModelSizes(hidden=384, attention=384, inner=192, layers=3, vocabulary=257, element=4, layer=3.3e6)
TEXT = TextSpec(tokens=1024, sequence=256)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = LlamaConfig(
        hidden_size=SIZES.hidden,
        intermediate_size=SIZES.inner,
        num_hidden_layers=SIZES.layers,
        num_attention_heads=8,
        vocab_size=SIZES.vocabulary,
        eos_token_id=256,
    )
    path = tmp_path_factory.mktemp("model")
    AutoModelForCausalLM.from_config(config).save_pretrained(path)
    tiny_tokenizer().save_pretrained(path)
    return path


def measured(
    folder: Path, rotation: dict[str, Any], spare: float | None, scratch: Path
) -> tuple[bool, RefinementNeed, float]:
    """Whether the model stays in files, what is stated, and the bytes that finding the bases takes beyond those in use.

    For a process of its own, whose heap no other test has left; the server that all are forked from has the imports.
    """
    spec = RotationSpec.model_validate({**rotation, "steps": 2, "text": TEXT})
    tokens = tiny_tokens(rows=TEXT.tokens // TEXT.sequence, length=TEXT.sequence)
    if spare is not None:
        os.environ[MEMORY_VARIABLE] = str(_resident("VmRSS") + spare)
    loaded = load_model(ModelSource(location=str(folder)), NullReporter())
    mapped = loaded.view.mapped is not None
    need = refinement_need(SIZES, spec, free_memory(), mapped=mapped)
    release_memory()
    Path("/proc/self/clear_refs").write_text("5")
    before, code = _resident("VmRSS"), _resident("RssFile")  # code is read on first use, more on some processors
    with torch.no_grad():
        for _ in choose_bases(loaded.view, spec, tokens, NullReporter(), Search(folder=scratch)):
            pass
    return mapped, need, _resident("VmHWM") - before - (_resident("RssFile") - code)


def _resident(name: str) -> float:
    return 1024.0 * int(Path("/proc/self/status").read_text().split(f"{name}:")[1].split()[0])


@pytest.mark.skipif(sys.platform != "linux", reason="peaks of memory are read on Linux alone")
@pytest.mark.parametrize(
    ("rotation", "spare"),
    [
        pytest.param({"objective": "error", "weighting": "sensitivity"}, 15e6, marks=pytest.mark.nightly),
        ({"objective": "kl"}, None),
        pytest.param({"mode": "per_layer", "objective": "kl"}, 15e6, marks=pytest.mark.nightly),
    ],
    ids=["error, in files", "kl, in memory", "per_layer kl, in files"],
)
def test_the_stated_memory_is_no_less_than_the_peak(
    folder: Path, tmp_path: Path, rotation: dict[str, Any], spare: float | None
) -> None:
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with ProcessPoolExecutor(1, mp_context=context) as process:
        mapped, need, report = process.submit(measured, folder, rotation, spare, tmp_path / "kept").result()
    assert mapped == (spare is not None)
    assert (need.disk > 0) == mapped
    assert need.memory / 3 < report < need.memory
