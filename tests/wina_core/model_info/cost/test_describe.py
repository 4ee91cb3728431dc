"""Facts from headers, against the engine's own after loading."""

import json
from pathlib import Path

import pytest

from tests.wina_core.tiny import tiny_folder
from wina_core.compute.models.loading import load_model
from wina_core.compute.models.shape import summarize
from wina_core.compute.reporter import NullReporter
from wina_core.errors import WinaError
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


@pytest.mark.parametrize("family", ["qwen3_moe", "gpt_oss"])
def test_another_number_of_experts_is_refused_when_it_is_loaded(tmp_path: Path, family: str) -> None:
    file = tiny_folder(tmp_path, family) / "config.json"
    config = json.loads(file.read_text())
    for experts in (5, 7):
        file.write_text(json.dumps(config | {"num_local_experts": experts, "num_experts": experts}))
        with pytest.raises(WinaError, match="they have other shapes than it asks for"):
            load_model(ModelSource(location=str(tmp_path)), NullReporter())
