"""Each test of the command line has a home of its own."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_command_line(home: Path) -> None:
    """Use `home`, which sets WINA_HOME."""
