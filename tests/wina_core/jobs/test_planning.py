"""Memory and disk of a job whose models memory does not hold, said before it begins."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.wina_core.tiny import tiny_folder, tiny_model
from wina_core.files.hardware import MEMORY_VARIABLE
from wina_core.files.paths import cache_folder
from wina_core.jobs import RotateJob
from wina_core.jobs.planning import MemoryNeed, memory_needs
from wina_core.model_info.cost.refinement import RefinementNeed
from wina_core.specs import FREE_ROTATION, NO_ROTATION, ModelSource, RotationSpec

ROTATION = RotationSpec()


@pytest.fixture
def job(tmp_path):
    return RotateJob(model=ModelSource(location=str(tiny_folder(tmp_path / "model"))), rotation=ROTATION)


def test_a_larger_model_is_read_from_its_files_and_its_rotated_weights_take_disk(job, tmp_path, monkeypatch):
    monkeypatch.setenv(MEMORY_VARIABLE, "1K")
    (need,) = memory_needs(job)
    size = sum(each.nbytes for each in tiny_model().state_dict().values())
    assert (need.weights, need.disk) == (size, 2 * size)
    assert need.text.startswith(f"The weights of {tmp_path / 'model'} take 0.0 GB, but 0.0 GB of memory are free:")
    assert f"of disk, and {cache_folder()} has" in need.text


def test_weights_that_are_converted_take_disk(tmp_path, monkeypatch):
    monkeypatch.setenv(MEMORY_VARIABLE, "1K")
    folder = tiny_folder(tmp_path / "model", "mixtral")
    sizes = {name: each.nbytes for name, each in tiny_model("mixtral").state_dict().items()}
    whole, experts = sum(sizes.values()), sum(size for name, size in sizes.items() if ".experts." in name)
    job = RotateJob(model=ModelSource(location=str(folder)), rotation=NO_ROTATION)
    assert [need.disk for need in memory_needs(job)] == [experts]
    rotated = job.model_copy(update={"rotation": ROTATION})
    assert [need.disk for need in memory_needs(rotated)] == [2 * whole + 3 * experts]
    cast = job.model_copy(update={"model": job.model.model_copy(update={"dtype": "bfloat16"})})
    assert [need.disk for need in memory_needs(cast)] == [whole / 2]


@pytest.mark.parametrize("source", [ModelSource(location="someone/model"), ModelSource(location="demo", device="cuda")])
def test_models_of_unknown_size_or_on_other_devices_are_left_out(source, monkeypatch):
    monkeypatch.setenv(MEMORY_VARIABLE, "1K")
    assert memory_needs(RotateJob(model=source, rotation=RotationSpec())) == ()


def test_the_least_memory_is_that_of_the_largest_layer(job, monkeypatch):
    monkeypatch.setenv(MEMORY_VARIABLE, "1K")
    (need,) = memory_needs(job)
    model = tiny_model()
    layers = [sum(each.nbytes for each in layer.parameters()) for layer in model.model.layers]
    assert need.by_layer == 3 * max(layers)
    assert need.whole == 1.5 * need.weights
    (small,) = memory_needs(job.model_copy(update={"model": job.model.model_copy(update={"quantization": "int8"})}))
    assert small.by_layer == need.by_layer + need.weights / 2
    (wide,) = memory_needs(job.model_copy(update={"model": job.model.model_copy(update={"dtype": "float64"})}))
    assert wide.by_layer >= 2 * need.by_layer


FREE_SPACE = "Free some space, set WINA_HOME to a folder on another disk, or choose no rotation."
SMALLER_SEARCH = "For the rotation search, free memory, choose fewer tokens of its text, or choose the objective eigen."
NEED = MemoryNeed("big", 13.5e9, memory=8e9, disk=27e9, folder=Path("cache"), free=50e9, by_layer=1.2e9, machine=16e9)


@pytest.mark.parametrize(
    ("changed", "advice"),
    [
        ({}, ()),
        ({"machine": 24e9}, ("Without the limit on memory it fits: 24.0 GB are free on this machine.",)),
        (
            {"memory": 1e9},
            ("Layer by layer it takes 1.2 GB: allow or free that much memory, or choose a smaller data type.",),
        ),
        ({"free": 26e9}, (FREE_SPACE,)),
        ({"free": 0.0, "disk": 0.0}, ()),
        ({"free": 28e9, "search": RefinementNeed(1e9, 3e9)}, (FREE_SPACE,)),
        ({"search": RefinementNeed(9e9, 0.0)}, (SMALLER_SEARCH,)),
        ({"memory": 20e9, "in_files": False, "disk": 0.0, "search": RefinementNeed(7e9, 0.0)}, (SMALLER_SEARCH,)),
        ({"memory": 20e9, "in_files": False, "disk": 0.0, "search": RefinementNeed(6e9, 0.0)}, ()),
    ],
    ids=[
        "fits",
        "without the limit",
        "below a layer",
        "disk",
        "no rotation",
        "disk of both",
        "search",
        "search beside weights in memory",
        "search fits beside them",
    ],
)
def test_what_is_short_comes_with_what_to_do(changed, advice):
    need = replace(NEED, **changed)
    assert need.advice == advice
    rest = "left." if need.disk else ("layer by layer." if need.in_files else "6.5 GB of memory are free beside them.")
    assert need.text.endswith(advice[-1] if advice else rest)


def test_a_search_that_takes_much_is_said_unless_its_bases_are_known(job, tmp_path, monkeypatch):
    """The tiny folder with the sizes of 7 B parameters in its config, of which the files hold a little."""
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    sizes = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "head_dim": 128}
    (tmp_path / "model" / "config.json").write_text(json.dumps({**config, **sizes, "intermediate_size": 11008}))
    monkeypatch.setattr("wina_core.jobs.planning.free_memory", lambda: 16e9)
    assert memory_needs(job) == (), "a rotation by eigenvectors"
    refined = job.model_copy(update={"rotation": FREE_ROTATION})
    (need,) = memory_needs(refined)
    assert not need.in_files
    sites, states = 96 * 4 * 4096 * (2 * 4096 + 1025), 34 * 32_768 * 4096 * 4
    assert need.search.disk == sites + states
    assert 1e9 < need.search.memory < 4e9
    assert f"Finding the rotation of {tmp_path / 'model'} takes" in need.text
    assert f"beside its weights; 16.0 GB of memory are free beside them. {cache_folder()} has" in need.text
    monkeypatch.setattr("wina_core.jobs.planning.missing_rotation", lambda *_: None)
    assert memory_needs(refined) == ()
