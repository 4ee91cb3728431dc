"""Each test has a home of its own; all share one sshd."""

from pathlib import Path

import pytest

from tests.wina_core.remote.machines.sshd import sshd

__all__ = ["sshd"]


@pytest.fixture(autouse=True)
def own_machines(home: Path) -> None:
    """Use `home`, which sets WINA_HOME."""
