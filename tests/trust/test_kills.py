"""A few of the kills of `python -m tests.trust.kills`."""

import sys
from pathlib import Path

import pytest

from tests.trust.kills import run


@pytest.mark.skipif(sys.platform == "win32", reason="forks, and looks for processes in /proc")
def test_nothing_is_lost_doubled_damaged_or_left_behind_by_kills(tmp_path: Path) -> None:
    report = run(4, 2, tmp_path)
    assert sum(report.kills.values()) == 4
    assert report.faults == 0, report
