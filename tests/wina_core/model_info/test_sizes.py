"""The data type that "auto" comes to on a processor, and the sizes that follow from it."""

from pathlib import Path

import pytest
import torch

from tests.wina_core.tiny import tiny_folder
from wina_core.compute.models.loading import load_model
from wina_core.compute.models.shape import summarize
from wina_core.compute.reporter import NullReporter
from wina_core.model_info import products, sizes
from wina_core.model_info.resolve import resolve
from wina_core.model_info.sizes import weights_bytes
from wina_core.specs import ModelSource


class Log(NullReporter):
    """The lines of a log."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def log(self, _level: str, text: str) -> None:
        self.lines.append(text)


@pytest.fixture
def without_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor without units for bfloat16, of a machine with 16 GB and no accelerator."""
    monkeypatch.setattr(sizes, "has_bf16_units", lambda: False)
    monkeypatch.setattr(sizes, "visible_devices", lambda: ())
    monkeypatch.setattr(sizes, "machine_memory", lambda: (1e9, 16e9))


@pytest.mark.usefixtures("without_units")
def test_auto_opens_16_bits_in_float32_where_there_are_no_units_for_them(tmp_path: Path):
    source = resolve(ModelSource(location=str(tiny_folder(tmp_path / "model", dtype=torch.bfloat16))))
    log = Log()
    loaded = load_model(source, log)
    assert loaded.dtype == torch.float32
    assert summarize(loaded).dtype == "float32"
    assert summarize(loaded).remarks == tuple(log.lines)
    assert "no units for bfloat16" in log.lines[0]
    stored = source.model_copy(update={"dtype": "bfloat16"})
    assert weights_bytes(source) == 2 * weights_bytes(stored)
    assert products.identity(source, loaded.folder) != source.content_hash()


@pytest.mark.usefixtures("without_units")
def test_a_chosen_type_and_an_accelerator_keep_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tiny_folder(tmp_path / "model", dtype=torch.bfloat16)
    source = ModelSource(location=str(folder))
    for other in (source.model_copy(update={"dtype": "bfloat16"}), source.model_copy(update={"device": "cuda"})):
        assert sizes.suited(other, folder) == other
    monkeypatch.setattr(sizes, "visible_devices", lambda: ("GPU-1",))
    assert sizes.suited(source, folder) == source
    monkeypatch.setattr(sizes, "visible_devices", lambda: ())
    monkeypatch.setattr(sizes, "has_bf16_units", lambda: None)
    assert sizes.suited(source, folder) == source, "of an unknown processor"


@pytest.mark.usefixtures("without_units")
def test_weights_stay_as_stored_where_memory_does_not_hold_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tiny_folder(tmp_path / "model", dtype=torch.bfloat16)
    monkeypatch.setenv("WINA_MEMORY", "10KB")
    assert sizes.suited(ModelSource(location=str(folder)), folder).dtype == "auto"
    monkeypatch.delenv("WINA_MEMORY")
    monkeypatch.setattr(sizes, "machine_memory", lambda: (1e9, 1e4))
    assert sizes.suited(ModelSource(location=str(folder)), folder).dtype == "auto"
