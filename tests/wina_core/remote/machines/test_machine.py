"""Machines, their paths and locations, and the file that holds them."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from wina_core.errors import WinaError
from wina_core.remote.machines.registry import find_machine, load_machines, machines_file, remove_machine, save_machine
from wina_core.specs.machine import FolderPair, Machine

PARTS = st.lists(st.text("ab -'$\n", min_size=1).filter(lambda part: part.strip() != ""), min_size=1, max_size=4)


posix = pytest.mark.skipif(os.name == "nt", reason="paths of this computer are POSIX paths here")


def machine(**changes: object) -> Machine:
    return Machine.model_validate({"name": "gpu", "destination": "someone@gpu.example"} | changes)


@pytest.mark.parametrize("name", ["x", "local", "LOCAL", "-x", "a b", "a:b", "a/b", "x" * 65, "", "ab\n", "\u00e4b"])
def test_names_that_could_be_taken_for_something_else_are_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        machine(name=name)


@pytest.mark.parametrize(
    "destination",
    ["-oProxyCommand=x", "me@-oProxyCommand=x", "-me@host", "ssh://-x", "a b", "a\nb", "", "me@", "$(id)", "a;b", "a'"],
)
def test_destinations_that_ssh_or_a_shell_could_read_otherwise_are_refused(destination: str) -> None:
    with pytest.raises(ValidationError, match="destination"):
        machine(destination=destination)


@pytest.mark.parametrize(
    "destination", ["gpu", "me@gpu.example", "ssh://me@gpu:2222", "me@fe80::1%eth0", "ssh://[::1]:22"]
)
def test_usual_destinations_are_taken(destination: str) -> None:
    assert machine(destination=destination).destination == destination


@pytest.mark.parametrize(
    "changes",
    [
        {"environment": {"A B": "x"}},
        {"environment": {"A": "\0"}},
        {"command": ()},
        {"command": ("-x",)},
        {"command": ("A=b",)},
        {"folders": ({"here": "models", "there": "/models"},)},
        {"folders": ({"here": "/models", "there": "models"},)},
        {"engines": -1},
        {"environment": {f"A{i}": "x" * 4096 for i in range(10)}},
    ],
)
def test_faulty_fields_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        machine(**changes)


@posix
@given(PARTS, PARTS, PARTS)
def test_a_path_below_a_pair_is_translated_there_and_back(here: list[str], there: list[str], below: list[str]) -> None:
    pair = FolderPair(here="/h/" + "/".join(here), there="/t/" + "/".join(there))
    path = "/".join((pair.here, *below))
    translated = machine(folders=(pair,)).to_remote(path)
    assert translated == "/".join((pair.there, *below))
    assert machine(folders=(pair,)).to_local(translated) == path


@posix
@given(st.lists(PARTS, max_size=4), PARTS)
def test_the_longest_pair_decides_and_paths_outside_have_none(folders: list[list[str]], path: list[str]) -> None:
    pairs = {tuple(parts): f"/there{place}" for place, parts in enumerate(folders)}
    gpu = machine(folders=tuple(FolderPair(here="/" + "/".join(at), there=to) for at, to in pairs.items()))
    best = max((at for at in pairs if tuple(path[: len(at)]) == at), key=len, default=None)
    expected = None if best is None else "/".join((pairs[best], *path[len(best) :]))
    assert gpu.to_remote("/" + "/".join(path)) == expected


@posix
def test_folders_are_compared_by_components() -> None:
    gpu = machine(folders=(FolderPair(here="/models", there="/data/models"),))
    assert gpu.to_remote("/models2/x") is None
    assert gpu.to_remote("/models") == "/data/models"


@posix
def test_machines_are_stored_found_and_forgotten() -> None:
    gpu = machine(folders=(FolderPair(here="/m", there="/n"),), environment={"A": "b c"}, engines=2)
    save_machine(gpu)
    save_machine(machine(name="big"))
    assert load_machines() == {"big": machine(name="big"), "gpu": gpu}
    with pytest.raises(WinaError, match=r'no machine "gqu"; did you mean gpu\?'):
        find_machine("gqu")
    assert list(remove_machine("gpu")) == ["big"] == list(load_machines())


@pytest.mark.parametrize("content", ["{", '[{"name": "gpu"}]', "[1]"])
def test_a_damaged_file_is_one_sentence_and_kept(content: str) -> None:
    machines_file().write_text(content)
    with pytest.raises(WinaError, match=r"machines\.json cannot be read .*delete the file"):
        save_machine(machine())
    assert machines_file().read_text() == content
