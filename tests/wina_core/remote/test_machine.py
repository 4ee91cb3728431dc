"""Machines, their paths and locations, and the file that holds them."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from wina_core.errors import WinaError
from wina_core.remote.registry import find_machine, load_places, machines_file, remove_machine, save_machine
from wina_core.specs.machine import Machine, RayCluster

PARTS = st.lists(st.text("ab -'$\n", min_size=1).filter(lambda part: part.strip() != ""), min_size=1, max_size=4)
posix = pytest.mark.skipif(os.name == "nt", reason="paths of this computer are POSIX paths here")
pytestmark = pytest.mark.usefixtures("home")


def machine(**changes: object) -> Machine:
    return Machine.model_validate({"host": "gpu"} | changes)


@pytest.mark.parametrize("name", ["x", "LOCAL", "-x", "a b", "a:b", "a/b", "x" * 65, "", "ab\n", "\u00e4b"])
def test_names_that_could_be_taken_for_something_else_are_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        RayCluster(name=name, address="auto")


@pytest.mark.parametrize(
    "changes",
    [
        *({"host": host} for host in ("-oProxyCommand=x", "me@-oProxyCommand=x", "-me@host", "ssh://host", "a b")),
        *({"host": host} for host in ("a\nb", "", "me@", "$(id)", "a;b", "a'", "LOCAL", "host:22", "a/b", "x" * 256)),
        {"command": ""},
        {"command": "-x"},
        {"command": "wina\nrm"},
        {"folders": {"models": "/models"}},
        {"folders": {"/models": "models"}},
        {"folders": {"/a": "/models", "/b": "/models/"}},
        {"surprise": 1},
    ],
    ids=repr,
)
def test_what_ssh_or_a_shell_could_read_otherwise_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        machine(**changes)


@posix
@given(st.lists(PARTS, max_size=4), PARTS)
def test_the_longest_pair_decides_and_paths_outside_have_none(folders: list[list[str]], path: list[str]) -> None:
    pairs = {tuple(parts): f"/there{place}" for place, parts in enumerate(folders)}
    gpu = machine(folders={"/" + "/".join(at): to for at, to in pairs.items()})
    best = max((at for at in pairs if tuple(path[: len(at)]) == at), key=len, default=None)
    translated = gpu.to_remote("/" + "/".join(path))
    assert translated == (None if best is None else "/".join((pairs[best], *path[len(best) :])))
    if translated is not None:
        assert gpu.to_local(translated) == "/" + "/".join(path)


@posix
def test_folders_are_compared_by_components_and_no_path_leaves_them() -> None:
    gpu = machine(folders={"/models": "/data/models"})
    assert gpu.to_remote("/models2/x") is None
    assert gpu.to_remote("/models") == "/data/models"
    assert gpu.to_remote("/models/../etc/x") is None
    assert gpu.to_local("/data/models/../../etc/x") == "/data/models/../../etc/x"


@posix
def test_machines_are_stored_found_and_forgotten() -> None:
    gpu = machine(folders={"/m": "/n"}, command="env A=b wina")
    save_machine(gpu)
    save_machine(machine(host="big"))
    assert load_places() == {"big": machine(host="big"), "gpu": gpu}
    with pytest.raises(WinaError, match=r'no machine "gqu"; did you mean gpu\?'):
        find_machine("gqu")
    assert list(remove_machine("gpu")) == ["big"] == list(load_places())


@pytest.mark.parametrize("content", ["{", '[{"name": "gpu"}]'])
def test_a_damaged_file_is_one_sentence_and_kept(content: str) -> None:
    machines_file().write_text(content)
    with pytest.raises(WinaError, match=r"machines\.json cannot be read .*delete the file"):
        save_machine(machine())
    assert machines_file().read_text() == content
