"""Each test of the command line has a home of its own."""

from pathlib import Path

import pytest

from wina_core.errors import WinaError
from wina_core.jobs import Job


@pytest.fixture(autouse=True)
def own_command_line(home: Path) -> None:
    """Use `home`, which sets WINA_HOME."""


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """The jobs that commands would run; each ends with an error."""
    jobs: list[Job] = []

    def remember(job: Job, *_: object) -> None:
        jobs.append(job)
        raise WinaError("stopped")

    for module in ("model", "planning"):
        monkeypatch.setattr(f"wina_core.cli.{module}.confirm_and_run", remember)
    return jobs
