"""Facts from headers, against the engine's own after loading."""

from pathlib import Path

import pytest

from tests.wina_core.tiny import tiny_folder, tiny_model
from wina_core.compute.models.loading import load_model
from wina_core.compute.models.shape import summarize
from wina_core.compute.reporter import NullReporter
from wina_core.model_info.cost.describe import ModelFacts
from wina_core.model_info.model_checks import check_folder
from wina_core.specs import ModelSource


@pytest.mark.parametrize(
    ("family", "tied"), [("llama", False), ("llama", True), ("gpt_neox", False), ("opt", True), ("qwen3_moe", False)]
)
def test_headers_have_the_facts_of_the_loaded_model(tmp_path: Path, family: str, tied: bool) -> None:
    source = ModelSource(location=str(tiny_folder(tmp_path, family, tied=tied)))
    facts = ModelFacts.of(check_folder(tmp_path))
    summary = summarize(load_model(source, NullReporter()))
    for name in ("family", "parameters", "vocabulary", "hidden_size", "tied_embeddings"):
        assert getattr(facts, name) == getattr(summary, name), name


@pytest.mark.parametrize("family", ["qwen3_moe", "mixtral"])
def test_stacked_experts_are_checked_as_separate_ones(tmp_path: Path, family: str) -> None:
    folder = tiny_folder(tmp_path, family)
    separate = check_folder(folder)
    tiny_model(family).save_pretrained(folder, save_original_format=False)
    stacked = check_folder(folder)
    assert len(stacked.weights) < len(separate.weights)
    assert ModelFacts.of(stacked) == ModelFacts.of(separate)
