"""Reasons for which the window cannot be opened: one sentence each."""

import sys

import pytest
from wina_app.__main__ import main


def test_a_missing_library_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "PySide6.QtWidgets", None)
    assert main([]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("wina-workbench: The library PySide6 cannot be loaded")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is always a display")
def test_a_machine_without_a_display_is_told_of_the_command_line(monkeypatch, capsys):
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    assert main([]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "There is no display" in line
