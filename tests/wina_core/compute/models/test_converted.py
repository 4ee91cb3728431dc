"""Weights that are converted while a model is loaded, of models larger than memory."""

import gc
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.wina_core.tiny import tiny_folder, tiny_model, tiny_tokenizer
from wina_core.compute.models import mapped
from wina_core.compute.models.loading import load_model
from wina_core.compute.reporter import NullReporter
from wina_core.compute.session.model_session import Session
from wina_core.errors import WinaError
from wina_core.files.hardware import MEMORY_VARIABLE
from wina_core.specs import DType, ModelSource, RotationSpec

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="weights stay in their files on Linux alone")


SIZES = {"mixtral": {"intermediate_size": 256}, "qwen3_moe": {"moe_intermediate_size": 96}, "olmoe": {}, "llama": {}}
"""An expert's weight takes several pages in the first two."""


def nameless_files() -> int:
    return Path("/proc/self/maps").read_text().count("(deleted)")


@pytest.mark.parametrize(
    ("family", "dtype"), [("mixtral", "auto"), ("qwen3_moe", "float64"), ("olmoe", "bfloat16"), ("llama", "bfloat16")]
)
def test_they_are_in_files_that_go_with_the_model(family: str, dtype: DType, tmp_path: Path, monkeypatch):
    tiny_model(family, **SIZES[family]).save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    source = ModelSource(location=str(tmp_path / "model"), dtype=dtype)
    expected = load_model(source, NullReporter()).model.state_dict()
    monkeypatch.setenv(MEMORY_VARIABLE, "2M")
    before = nameless_files()
    loaded = load_model(source, NullReporter())
    assert nameless_files() > before
    mapped = loaded.view.mapped
    assert mapped is not None
    assert all(mapped.holds(each) for each in loaded.model.parameters())
    mapped.give_back(loaded.model)
    found = loaded.model.state_dict()
    assert found.keys() == expected.keys()
    for name, weight in found.items():
        assert weight.dtype == expected[name].dtype
        assert torch.equal(weight, expected[name]), name
    del loaded, mapped, found, weight
    gc.collect()
    assert nameless_files() == before


@pytest.mark.parametrize("family", ["mixtral", "qwen3_moe"])
def test_rotated_experts_are_saved_from_files(family: str, tmp_path: Path, monkeypatch):
    tiny_model(family, **SIZES[family]).save_pretrained(tmp_path / "model")
    tiny_tokenizer().save_pretrained(tmp_path / "model")
    source = ModelSource(location=str(tmp_path / "model"))
    spec = RotationSpec(attention_basis=("qkv",), mlp_basis=("gate_up",))
    expected = Session().prepare(source, spec, NullReporter()).model.state_dict()
    monkeypatch.setenv(MEMORY_VARIABLE, "2M")
    made: list[int] = []
    new_file = mapped.in_new_file

    def counted(count: int, *given: Any) -> torch.Tensor:
        made.append(count)
        return new_file(count, *given)

    monkeypatch.setattr(mapped, "in_new_file", counted)
    found = Session().prepare(source, spec, NullReporter()).model.state_dict()
    stacks = [name for name in expected if name.endswith("experts.gate_up_proj")]
    assert made.count(expected[stacks[0]].numel()) >= 3 * len(stacks), "opened, written and opened again"
    for name, weight in found.items():
        assert torch.equal(weight, expected[name]), name


def test_a_disk_without_room_for_them_is_refused_with_a_way_out(tmp_path: Path, monkeypatch):
    source = ModelSource(location=str(tiny_folder(tmp_path / "model", "mixtral")))
    monkeypatch.setenv(MEMORY_VARIABLE, "2M")
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000})())
    with pytest.raises(WinaError, match=r"that transformers converts takes .*, but .* has 0\.0 GB left; free some"):
        load_model(source, NullReporter())


def test_a_disk_that_fills_up_meanwhile_ends_it_with_one_sentence(tmp_path: Path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    source = ModelSource(location=str(tiny_folder(tmp_path / "model", "mixtral")))
    monkeypatch.setenv(MEMORY_VARIABLE, "2M")
    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(WinaError, match=r"could not be written to .*No space left.*; free some space, or"):
        load_model(source, NullReporter())
