"""`--machine`: what is computed there is what this computer finds."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.wina_core.conftest import Wina
from tests.wina_core.remote.fake_machine import ROOT, install_fake_ssh
from tests.wina_core.tiny import tiny_folder
from wina_core.remote.registry import save_machine
from wina_core.specs.machine import Machine

SOURCES = (ROOT, ROOT / "kernels")
PROMPT = ("--layer", 1, "--projection", "q", "--prompt", "A gate.", "--json")


@pytest.mark.nightly  # by day wina_core/remote has jobs on machines
@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for ssh is a shell script")
@pytest.mark.usefixtures("home")
def test_a_gate_on_a_machine_is_the_one_found_here(wina: Wina, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_fake_ssh(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    sources = os.pathsep.join(map(str, SOURCES))
    command = f"env WINA_HOME={tmp_path / 'away'} PYTHONPATH={sources} {sys.executable} -m wina_core.cli"
    save_machine(Machine(host="away", command=command, folders={str(tmp_path): str(tmp_path / "there")}))
    model = tiny_folder(tmp_path / "model")
    shutil.copytree(model, tmp_path / "there" / "model")
    here = json.loads(wina.succeeds("gate", model, *PROMPT))
    assert json.loads(wina.succeeds("gate", model, *PROMPT, "--machine", "away")) == here
    assert "There is no machine" in wina.fails(1, "cost", model, "--machine", "nowhere")
