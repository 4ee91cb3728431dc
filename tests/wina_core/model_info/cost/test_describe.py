"""Summaries from headers, against the engine's own after loading."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.wina_core.tiny import KINDS, tiny_folder, tiny_model
from wina_core.compute.models.loading import load_model
from wina_core.compute.models.shape import summarize
from wina_core.compute.reporter import NullReporter
from wina_core.model_info.cost.describe import describe_folder
from wina_core.model_info.model_checks import check_folder
from wina_core.specs import ModelSource


@pytest.mark.parametrize(
    ("family", "tied"),
    [*((each, False) for each in KINDS), ("llama", True), ("opt", True)],
)
def test_headers_say_what_the_loaded_model_says(tmp_path: Path, family: str, tied: bool) -> None:
    source = ModelSource(location=str(tiny_folder(tmp_path, family, tied=tied)))
    summary = describe_folder(source, check_folder(tmp_path))
    loaded = load_model(source, NullReporter())
    tables = sum(buffer.numel() * buffer.element_size() for buffer in loaded.model.buffers())
    assert summary is not None
    assert summary.memory_bytes == summarize(loaded).memory_bytes - tables
    assert summary.model_copy(update={"memory_bytes": 0}) == summarize(loaded).model_copy(update={"memory_bytes": 0})


@pytest.mark.parametrize("family", ["qwen3_moe", "mixtral"])
def test_stacked_experts_are_described_as_separate_ones(tmp_path: Path, family: str) -> None:
    source, folder = ModelSource(location="any"), tiny_folder(tmp_path, family)
    separate = check_folder(folder)
    tiny_model(family).save_pretrained(folder, save_original_format=False)
    stacked = check_folder(folder)
    assert len(stacked.weights) < len(separate.weights)
    assert describe_folder(source, stacked) == describe_folder(source, separate)


def test_layers_for_further_tokens_are_no_part_of_the_model(tmp_path: Path) -> None:
    folder = check_folder(tiny_folder(tmp_path, "glm4_moe"))
    more = {name.replace(".2.", ".3."): entry for name, entry in folder.weights.items()} | folder.weights
    more |= {f"mtp.{name}": entry for name, entry in folder.weights.items()}
    source = ModelSource(location="any")
    assert describe_folder(source, replace(folder, weights=more)) == describe_folder(source, folder)


def test_weights_of_other_names_are_left_to_the_engine(tmp_path: Path) -> None:
    folder = check_folder(tiny_folder(tmp_path))
    renamed = {f"base.{name}": entry for name, entry in folder.weights.items()}
    assert describe_folder(ModelSource(location=str(tmp_path)), replace(folder, weights=renamed)) is None
