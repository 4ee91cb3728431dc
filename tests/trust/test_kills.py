"""One of each scenario's kills of `python -m tests.trust.kills`, an engine's among them."""

import sys
from pathlib import Path

import pytest

from tests.trust.kills import run


@pytest.mark.skipif(sys.platform == "win32", reason="forks, and looks for processes in /proc")
def test_nothing_is_lost_doubled_damaged_or_left_behind_by_kills(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINA_MEMORY", "64GB")  # a limit leaves out light engines, which would compute nothing
    report = run(4, 104, tmp_path)
    assert set(report.kills.values()) == {1}
    assert report.faults == 0, report
