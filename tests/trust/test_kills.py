"""One of each scenario's kills of `python -m tests.trust.kills`, an engine's among them."""

import os
import sys
from pathlib import Path

import pytest

from tests.trust import kills
from tests.trust.kills import run


@pytest.mark.skipif(sys.platform == "win32", reason="forks, and looks for processes in /proc")
def test_nothing_is_lost_doubled_damaged_or_left_behind_by_kills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "WINA_LONG_TESTS" not in os.environ:  # the window and background jobs are killed at night
        few = tuple(each for each in kills.SCENARIOS if each.name in ("command line", "engines"))
        monkeypatch.setattr(kills, "SCENARIOS", few)
        monkeypatch.setattr(kills, "STUDY", kills.STUDY.replace("[0.3, 0.6]", "[0.5]"))
    monkeypatch.setenv("WINA_MEMORY", "64GB")  # a limit leaves out light engines, which would compute nothing
    report = run(len(kills.SCENARIOS), 104, tmp_path)
    assert report.kills == dict.fromkeys((scenario.name for scenario in kills.SCENARIOS), 1)
    assert not report.faults.total(), report
