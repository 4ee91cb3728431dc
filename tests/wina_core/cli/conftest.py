"""Each test of the command line has a home of its own."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_command_line(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001 - sets WINA_HOME
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
