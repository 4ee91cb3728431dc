"""Memory for a second engine: control groups, and the sizes of models."""

import json
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from wina_core.engine.client import resources
from wina_core.engine.client.resources import has_room
from wina_core.errors import WinaError
from wina_core.files import hardware
from wina_core.jobs import InspectJob
from wina_core.model_info import sizes
from wina_core.specs import ModelSource

GIB = 2**30
HUB = ModelSource(location="someone/model")


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without a GPU, with 32 of 64 GiB free and control groups in a folder, which is returned."""
    monkeypatch.setattr(hardware, "_CGROUP", tmp_path)
    monkeypatch.setattr(hardware, "_MEMBERSHIP", tmp_path / "cgroup")
    monkeypatch.setattr(resources, "visible_devices", lambda: ())
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=32 * GIB, total=64 * GIB))
    (tmp_path / "cgroup").write_text("0::/\n")
    return tmp_path


def limit(folder: Path, most: float | str, used: float, cache: float = 0.0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{most}\n")
    (folder / "memory.current").write_text(f"{used:.0f}\n")
    (folder / "memory.stat").write_text(f"anon {GIB // 2}\ninactive_file {cache:.0f}\nactive_file 0\n")


@pytest.mark.parametrize(("cache", "allowed"), [(0, False), (3 * GIB, True)])
def test_the_page_cache_of_a_control_group_counts_as_free(machine: Path, cache: int, allowed: bool) -> None:
    """The cache of files that were read, such as a model's, is given back when memory is needed."""
    limit(machine, 4 * GIB, 3.5 * GIB, cache)
    assert has_room(None) == allowed


@pytest.mark.parametrize("group", ["", "user.slice", "user.slice/app.scope"])
def test_the_tightest_of_nested_groups_counts(machine: Path, group: str) -> None:
    (machine / "cgroup").write_text("0::/user.slice/app.scope\n")
    for each in ("", "user.slice", "user.slice/app.scope"):
        limit(machine / each, "max", GIB)
    assert has_room(None)
    limit(machine / group, 4 * GIB, 3.5 * GIB)
    assert not has_room(None)


@pytest.mark.parametrize(("gibibytes", "allowed"), [(4, True), (30, False)])
def test_a_downloaded_model_counts_with_its_files(
    machine: Path, monkeypatch: pytest.MonkeyPatch, gibibytes: int, allowed: bool
) -> None:
    size = gibibytes * GIB
    header = json.dumps({"weight": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    with (machine / "model.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + size)  # sparse
    monkeypatch.setattr(sizes, "files_of", lambda _: machine)
    assert has_room(InspectJob(model=HUB)) == allowed
    assert has_room(None, [HUB]) == allowed, "another engine loads it"


def test_a_model_of_unknown_size_has_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: ModelSource) -> Path:
        raise WinaError("someone/model is not downloaded.")

    monkeypatch.setattr(sizes, "files_of", missing)
    assert has_room(None)
    assert not has_room(InspectJob(model=HUB))


def test_a_users_limit_is_that_of_one_engine(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "files_of", lambda _: machine)
    (machine / "model.safetensors").write_bytes(bytes(1000))
    monkeypatch.setenv(hardware.MEMORY_VARIABLE, "16GB")
    assert not has_room(InspectJob(model=HUB))
    assert has_room(None), "one without a model takes little"
