"""`wina machines`, and the guide's page with the commands that it prints."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.wina_core.conftest import Wina
from tests.wina_core.remote.sshd import SshServer, sshd
from wina_core.files.paths import resources_folder
from wina_core.remote.registry import load_places, save_machine

__all__ = ["sshd"]

pytestmark = pytest.mark.usefixtures("home")
PAGE = resources_folder() / "guide" / "machines.md"


@pytest.mark.service
def test_the_guides_commands_work(wina: Wina, sshd: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = sshd.config.read_text().replace("Host away", "Host gpu")
    (tmp_path / "config").write_text(config)
    sshd.put_on_path(monkeypatch, tmp_path / "bin", tmp_path / "config")
    done = set[str]()
    for line in re.findall(r"^    (wina .+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE):
        _, *words = shlex.split(line)
        if words[0] != "machines":  # which tests/trust/test_remote.py computes, and test_guide.py reads
            continue
        done.add(words[1])
        printed = wina.succeeds(*words)
        if words[1] == "add":
            assert load_places()["gpu"].folders
            save_machine(sshd.machine(host="gpu"))
        elif words[1] == "check":
            assert re.search(r"device +cpu(.|\n)*python +3(.|\n)*torch +\d", printed)
    assert done == {"add", "list", "check", "remove"}
    assert load_places() == {}


def test_machines_are_listed_and_faults_are_sentences(wina: Wina) -> None:
    assert "no machine yet" in wina.succeeds("machines", "list")
    wina.succeeds("machines", "add", "me@gpu", "--folder=/a b=/c", "--command", "env A=b wina")
    (listed,) = json.loads(wina.succeeds("machines", "list", "--json"))
    assert listed == {"machine": "me@gpu", "command": "env A=b wina", "folders": {"/a b": "/c"}}
    assert "/a b=/c" in wina.succeeds("machines", "list")
    for words, code, error in (
        (("add", "ssh://gpu"), 2, "it should be a host of your ~/.ssh/config"),
        (("add", "big", "--folder", "/a"), 1, "write HERE=THERE"),
        (("add", "big", "--command", ""), 2, "it should begin with a program"),
        (("check", "me@gpo"), 1, "did you mean me@gpu?"),
        (("add-ray", "grid", "head"), 2, "is no address of a Ray cluster"),
    ):
        assert error in wina.fails(code, "machines", *words)
    wina.succeeds("machines", "add-ray", "grid", "10.0.0.1:6379", "--gpus", 0.5)
    assert "Ray 10.0.0.1:6379" in wina.succeeds("machines", "list")
    assert "grid is a Ray cluster" in wina.fails(1, "machines", "check", "grid")
    assert set(load_places()) == {"grid", "me@gpu"}
    wina.succeeds("machines", "remove", "grid")
    wina.succeeds("machines", "remove", "me@gpu")
