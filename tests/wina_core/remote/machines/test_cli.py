"""`wina machines`, and the guide's page with the commands that it prints."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.wina_core.conftest import Wina
from tests.wina_core.remote.machines.sshd import SshServer
from wina_core.files.paths import resources_folder
from wina_core.remote.machines.registry import load_machines

PAGE = resources_folder() / "guide" / "machines.md"


def add(wina: Wina, sshd: SshServer, name: str) -> None:
    machine = sshd.machine()
    given = [f"--command={shlex.join(machine.command)}", f"--ssh-config={machine.ssh_config}"]
    given += [f"--env={name}={value}" for name, value in machine.environment.items()]
    wina.succeeds("machines", "add", name, machine.destination, *given)


def test_the_guides_commands_work(wina: Wina, sshd: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run all of them; of set-up and its removal, which have a test of their own, only the help."""
    monkeypatch.chdir(tmp_path)
    add(wina, sshd, "gpu")
    done = set[str]()
    for line in re.findall(r"^    (wina .+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE):
        _, *words = shlex.split(line)
        if words[0] != "machines":  # which tests/trust/test_remote.py computes, and test_guide.py reads
            continue
        done.add(words[1])
        match words[1]:
            case "add":
                wina.succeeds(*words)
                assert load_machines()["gpu"].destination == "me@gpu.example.org"
                add(wina, sshd, "gpu")
            case "setup" | "unset":
                assert "--python" in wina.succeeds(*words, "--help")
            case "check":
                assert re.search(r"protocol 1, Python 3(.|\n)*a job +[\d.]+ s", wina.succeeds(*words))
            case _:
                wina.succeeds(*words)
    assert done == {"add", "list", "check", "setup", "unset", "remove"}
    assert load_machines() == {}


def test_machines_are_listed_and_faults_are_sentences(wina: Wina) -> None:
    assert "no machine yet" in wina.succeeds("machines", "list")
    wina.succeeds("machines", "add", "gpu", "me@gpu", "--folder=/a b=/c", "--env", "A=b=c", "--engines", 0)
    (listed,) = json.loads(wina.succeeds("machines", "list", "--json"))
    assert listed["folders"] == [{"here": "/a b", "there": "/c"}]
    assert (listed["environment"], listed["engines"]) == ({"A": "b=c"}, 0)
    assert "gpu" in wina.succeeds("machines", "list")
    for words, code, said in (
        (("add", "x", "me@gpu"), 2, "a machine's name has 2 to 64"),
        (("add", "big", "me@gpu", "--folder", "/a"), 1, "write HERE=THERE"),
        (("add", "big", "me@gpu", "--command", "'wina"), 1, "close its quotes"),
        (("check", "gpo"), 1, "did you mean gpu?"),
        (("add-ray", "grid", "head"), 2, "is no address of a Ray cluster"),
    ):
        assert said in wina.fails(code, "machines", *words)
    wina.succeeds("machines", "add-ray", "grid", "10.0.0.1:6379", "--gpus", 0.5)
    assert "Ray 10.0.0.1:6379" in wina.succeeds("machines", "list")
    assert "grid is a Ray cluster" in wina.fails(1, "machines", "check", "grid")
    assert set(load_machines()) == {"gpu"}
    wina.succeeds("machines", "remove", "grid")
    wina.succeeds("machines", "remove", "gpu")
