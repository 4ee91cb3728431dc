"""Weights in files: given back and read anew, and never lost once they were written to."""

import ctypes
import gc
import mmap
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.wina_core.tiny import tiny_folder, tiny_loaded, tiny_tokens
from wina_core.compute.models import mapped
from wina_core.compute.models.loading import load_model
from wina_core.compute.models.mapped import MappedWeights
from wina_core.compute.models.quantize import quantize
from wina_core.compute.reporter import NullReporter
from wina_core.compute.session.model_session import Session
from wina_core.errors import WinaError
from wina_core.files.hardware import MEMORY_VARIABLE
from wina_core.specs import DType, ModelSource, QuantizationSpec, RotationSpec

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is given back on Linux alone")


@pytest.fixture
def loaded(tmp_path):
    return load_model(ModelSource(location=str(tiny_folder(tmp_path / "model"))), NullReporter())


def copies(module):
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def same(module, expected):
    return all(torch.equal(tensor, expected[name]) for name, tensor in module.state_dict().items())


def written(layers):
    layers[1].projections["q"].weight[3] = 7.0
    layers[1].projections["down"].linear.weight.mul_(2)


def moved(layers):
    """Give weights new memory, as transposed ones for kernels have, and after them the restored ones."""
    for layer in layers:
        linear = layer.projections["down"].linear
        linear.weight.data = linear.weight.data.t().contiguous().t()


@pytest.mark.parametrize("change", [lambda _: None, written, moved])
@torch.no_grad()
def test_weights_that_were_given_back_are_read_anew_and_changed_ones_are_kept(loaded, change):
    mapped = MappedWeights(loaded.model)
    change(loaded.view.layers)
    before = copies(loaded.model)
    mapped.give_back(loaded.model)
    assert same(loaded.model, before)


def cached_pages(file):
    """Return how many pages of a file are in the system's cache."""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, mmap.MAP_PRIVATE) as mapped:
        size = len(mapped)
        marks = (ctypes.c_ubyte * -(-size // mmap.PAGESIZE))()
        address = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(mapped)))
        assert ctypes.CDLL(None).mincore(address, ctypes.c_size_t(size), marks) == 0
        return sum(mark & 1 for mark in marks)


def test_weights_are_read_ahead_from_disk(tmp_path):
    folder = tiny_folder(tmp_path, intermediate_size=2048)  # most of its weights are whole pages
    loaded, file = load_model(ModelSource(location=str(folder)), NullReporter()), tmp_path / "model.safetensors"
    mapped = MappedWeights(loaded.model)
    mapped.give_back(loaded.model)
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    before = cached_pages(file)
    mapped.read_ahead(loaded.view.layers[1].module)
    end = time.monotonic() + 120
    while cached_pages(file) <= before:
        if before * mmap.PAGESIZE >= file.stat().st_size:
            pytest.skip("this file system keeps its files in memory")
        assert time.monotonic() < end, "nothing was read"


def resident(file):
    """Return the bytes of a file's mappings that are in this process's memory."""
    bytes_in_memory, is_of_file = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0]:
            is_of_file = line.endswith(str(file))
        elif is_of_file and line.startswith("Rss:"):
            bytes_in_memory += 1024 * int(line.split()[1])
    return bytes_in_memory


@pytest.fixture
def wide(tmp_path, monkeypatch):
    """A model whose weights stay in their file, most of them whole pages."""
    monkeypatch.setenv(MEMORY_VARIABLE, "8M")
    folder = tiny_folder(tmp_path, layers=6, intermediate_size=8192)
    return load_model(ModelSource(location=str(folder)), NullReporter())


@torch.no_grad()
def test_a_call_of_the_model_leaves_no_layer_in_memory(wide):
    file = wide.folder / "model.safetensors"
    for _ in range(2):
        wide.model(tiny_tokens())
        assert 0 < resident(file) < file.stat().st_size / 3
    with pytest.raises(ValueError, match="exactly one of"):
        wide.model()
    wide.model(tiny_tokens())
    assert resident(file) < file.stat().st_size / 3


@pytest.mark.parametrize(
    "quantization", ["int8", QuantizationSpec(quantizer="rtn", bits=4, group=16)], ids=["int8", "rtn"]
)
def test_quantizing_leaves_no_full_precision_in_memory(wide, quantization):
    quantize(wide, quantization, NullReporter())
    assert resident(wide.folder / "model.safetensors") < (wide.folder / "model.safetensors").stat().st_size / 3


def test_a_file_that_is_replaced_or_gone_leaves_what_was_mapped(loaded, tmp_path):
    file = loaded.folder / "model.safetensors"
    mapped, before = MappedWeights(loaded.model, [file]), copies(loaded.model)
    other = tmp_path / "other"
    other.write_bytes(b"other")
    other.replace(file)
    mapped.give_back(loaded.model)
    file.unlink()
    mapped.give_back(loaded.model)
    assert same(loaded.model, before)


@torch.no_grad()
def test_moved_weights_are_those_of_the_file(loaded, tmp_path):
    mapped, layer = MappedWeights(loaded.model), loaded.view.layers[1].module
    layer.register_buffer("made", torch.arange(4.0))
    layer.register_buffer("same", layer.made)  # as folded norms of o and v are without grouped queries
    for parameter in layer.parameters():
        parameter.mul_(3)
    before, file = copies(layer), tmp_path / "moved" / "layer.safetensors"
    mapped.move(layer, file)
    assert same(layer, before)
    mapped.give_back(layer)
    assert same(layer, before)
    layer.self_attn.q_proj.weight.zero_()
    mapped.give_back(layer)
    assert not layer.self_attn.q_proj.weight.any(), "changed again"
    assert [parameter.name for parameter in file.parent.iterdir()] == [file.name]


def test_a_folder_that_cannot_be_written_is_one_sentence(loaded, tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(WinaError, match="could not be written"):
        MappedWeights(tiny_loaded().model).move(loaded.model, tmp_path / "taken" / "layer.safetensors")


# ---- weights that are converted while a model is loaded --------------------------------------------------------------


SIZES = {"mixtral": {"intermediate_size": 256}, "olmoe": {}, "llama": {}}
"""An expert's weight takes several pages in the first one."""


def nameless_files() -> int:
    return Path("/proc/self/maps").read_text().count("(deleted)")


@pytest.mark.parametrize(("family", "dtype"), [("mixtral", "auto"), ("olmoe", "bfloat16"), ("llama", "float64")])
def test_they_are_in_files_that_go_with_the_model(family: str, dtype: DType, tmp_path: Path, monkeypatch):
    source = ModelSource(location=str(tiny_folder(tmp_path / "model", family, **SIZES[family])), dtype=dtype)
    expected = load_model(source, NullReporter()).model.state_dict()
    monkeypatch.setenv(MEMORY_VARIABLE, "2M")
    before = nameless_files()
    loaded = load_model(source, NullReporter())
    assert nameless_files() > before
    mapped = loaded.view.mapped
    assert mapped is not None
    assert all(mapped.holds(parameter) for parameter in loaded.model.parameters())
    mapped.give_back(loaded.model)
    state = loaded.model.state_dict()
    assert state.keys() == expected.keys()
    for name, weight in state.items():
        assert weight.dtype == expected[name].dtype
        assert torch.equal(weight, expected[name]), name
    del loaded, mapped, state, weight
    gc.collect()
    assert nameless_files() == before


def test_rotated_experts_are_saved_from_files(tmp_path: Path, monkeypatch):
    source = ModelSource(location=str(tiny_folder(tmp_path / "model", "mixtral", **SIZES["mixtral"])))
    spec = RotationSpec(attention_basis=("qkv",), mlp_basis=("gate_up",))
    expected = Session().prepare(source, spec, NullReporter()).model.state_dict()
    monkeypatch.setenv(MEMORY_VARIABLE, "2M")
    made: list[int] = []
    new_file = mapped.in_new_file

    def counted(count: int, *args: Any) -> torch.Tensor:
        made.append(count)
        return new_file(count, *args)

    monkeypatch.setattr(mapped, "in_new_file", counted)
    state = Session().prepare(source, spec, NullReporter()).model.state_dict()
    stacks = [name for name in expected if name.endswith("experts.gate_up_proj")]
    assert made.count(expected[stacks[0]].numel()) >= 3 * len(stacks), "opened, written and opened again"
    for name, weight in state.items():
        assert torch.equal(weight, expected[name]), name


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("function", "replacement", "message"),
    [
        (
            "shutil.disk_usage",
            lambda _: SimpleNamespace(free=1000),
            r"takes .*, but .* has 0\.0 GB left; free some",
        ),
        ("os.posix_fallocate", full, r"could not be written to .*No space left.*; free some space, or"),
    ],
)
def test_a_disk_without_room_for_them_is_refused_with_a_way_out(
    tmp_path: Path, monkeypatch, function: str, replacement: object, message: str
):
    source = ModelSource(location=str(tiny_folder(tmp_path / "model", "mixtral")))
    monkeypatch.setenv(MEMORY_VARIABLE, "2M")
    monkeypatch.setattr(function, replacement)
    with pytest.raises(WinaError, match=message):
        load_model(source, NullReporter())
