"""Weights that are converted while a model is loaded, of models larger than memory."""

import sys
from pathlib import Path

import pytest
import torch

from tests.wina_core.tiny import tiny_folder
from wina_core.compute.models import converted
from wina_core.compute.models.loading import load_model
from wina_core.compute.reporter import NullReporter
from wina_core.errors import WinaError
from wina_core.files.memory import MEMORY_VARIABLE
from wina_core.files.paths import cache_folder
from wina_core.specs import DType, ModelSource

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="weights stay in their files on Linux alone")


@pytest.mark.parametrize(
    ("family", "dtype"), [("mixtral", "auto"), ("qwen3_moe", "auto"), ("olmoe", "bfloat16"), ("llama", "bfloat16")]
)
def test_they_are_in_files_that_go_with_the_model(family: str, dtype: DType, tmp_path: Path, monkeypatch):
    source = ModelSource(location=str(tiny_folder(tmp_path / "model", family)), dtype=dtype)
    expected = load_model(source, NullReporter()).model.state_dict()
    monkeypatch.setenv(MEMORY_VARIABLE, "1M")
    loaded = load_model(source, NullReporter())
    mapped = loaded.view.mapped
    assert mapped is not None
    assert all(mapped.holds(each) for each in loaded.model.parameters())
    found = loaded.model.state_dict()
    assert found.keys() == expected.keys()
    for name, weight in found.items():
        assert weight.dtype == expected[name].dtype
        assert torch.equal(weight, expected[name]), name
    assert not [*cache_folder().glob("tmp*")]


def test_a_disk_without_room_for_them_is_refused_with_a_way_out(tmp_path: Path, monkeypatch):
    source = ModelSource(location=str(tiny_folder(tmp_path / "model", "mixtral")))
    monkeypatch.setenv(MEMORY_VARIABLE, "1M")
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000})())
    with pytest.raises(WinaError, match=r"converted while it is loaded takes .*, but .* has 0\.0 GB left; free some"):
        load_model(source, NullReporter())


def test_a_disk_that_fills_up_meanwhile_is_told(tmp_path: Path, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    source = ModelSource(location=str(tiny_folder(tmp_path / "model", "mixtral")))
    monkeypatch.setenv(MEMORY_VARIABLE, "1M")
    monkeypatch.setattr(converted, "_in_file", full)
    with pytest.raises(WinaError, match=r"A converted weight could not be written to .*No space left"):
        load_model(source, NullReporter())
