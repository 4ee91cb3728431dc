"""The start of the process for jobs in the background."""

import sys

import pytest

from wina_core.engine.client import background
from wina_core.errors import WinaError


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    ("program", "end"),
    [("import time; time.sleep(600)", "did not answer within 0 s"), ("input(); raise SystemExit(3)", "exit code 3")],
)
def test_a_process_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch, program: str, end: str) -> None:
    monkeypatch.setattr(background, "own_command", lambda _: (sys.executable, "-S", "-c", program))
    monkeypatch.setattr(background, "START_SECONDS", 0.3 if "sleep" in program else 120.0)
    with pytest.raises(WinaError, match=end):
        background.BackgroundProcess(background.Handover(database="sqlite://", engines=1, jobs=()))
