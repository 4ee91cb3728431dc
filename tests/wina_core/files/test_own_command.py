"""The command of a further process of the program."""

import sys

from wina_core.files.own_command import own_command


def test_a_bundle_runs_it_with_its_command_line(monkeypatch):
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", "/opt/bundle/wina-workbench")
    assert own_command("wina_core.engine") == ("/opt/bundle/wina", "-m", "wina_core.engine")
