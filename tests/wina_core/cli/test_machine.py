"""`--machine`: what is computed there is what this computer finds."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.wina_core.conftest import Wina
from tests.wina_core.remote.engine.fake_machine import ROOT, install_fake_ssh
from tests.wina_core.tiny import tiny_folder
from wina_core.remote.machines.registry import save_machine
from wina_core.specs.machine import FolderPair, Machine

SOURCES = (ROOT, ROOT / "kernels")
PROMPT = ("--layer", 1, "--projection", "q", "--prompt", "A gate.", "--json")


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for ssh is a shell script")
@pytest.mark.usefixtures("home")
def test_a_gate_on_a_machine_is_the_one_found_here(wina: Wina, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_fake_ssh(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "config").write_text("")
    machine = Machine(
        name="away",
        destination="away",
        command=(sys.executable, "-m", "wina_core.cli"),
        environment={"WINA_HOME": str(tmp_path / "away"), "PYTHONPATH": os.pathsep.join(map(str, SOURCES))},
        ssh_config=str(tmp_path / "config"),
        folders=(FolderPair(here=str(tmp_path), there=str(tmp_path / "there")),),
    )
    save_machine(machine)
    model = tiny_folder(tmp_path / "model")
    shutil.copytree(model, tmp_path / "there" / "model")
    here = json.loads(wina.succeeds("gate", model, *PROMPT))
    assert json.loads(wina.succeeds("gate", model, *PROMPT, "--machine", "away")) == here
    assert "There is no machine" in wina.fails(1, "cost", model, "--machine", "nowhere")
