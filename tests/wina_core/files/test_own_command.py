"""The command of a further process of the program."""

import subprocess
import sys

from wina_core.files.own_command import own_command


def test_an_interpreter_runs_a_module_of_the_program():
    command = [*own_command("wina_core.cli"), "--version"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.startswith("wina ")


def test_a_bundle_runs_it_with_its_command_line(monkeypatch):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", "/opt/bundle/wina-workbench")
    assert own_command("wina_core.engine") == ("/opt/bundle/wina", "-m", "wina_core.engine")
