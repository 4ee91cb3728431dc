"""Keepers of engines."""

from pathlib import Path

import pytest

from wina_core.errors import WinaError
from wina_core.files import disk
from wina_core.remote.engine.keeper import enter_session


def test_a_full_disk_is_a_sentence(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setattr(disk, "free_on_disk", lambda _: 10**6)
    with pytest.raises(
        WinaError, match=r"takes up to 0\.1 GB, but .* has 0\.0 GB left; free some space there\.$"
    ) as refused:
        enter_session("a" * 16)
    assert str(home) in str(refused.value)
