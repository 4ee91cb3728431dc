"""Memory for a second engine, in a control group with a limit."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from wina_core.engine.client.room import has_room

GIB = 2**30


@pytest.mark.parametrize(("cache", "room"), [(0, False), (3 * GIB, True)])
def test_the_page_cache_of_a_control_group_counts_as_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: int, room: bool
) -> None:
    """The cache of files that were read, such as a model's, is given back when memory is needed."""
    monkeypatch.setattr("wina_core.engine.client.room._CGROUP", tmp_path)
    monkeypatch.setattr(
        "wina_core.engine.client.room.psutil.virtual_memory",
        lambda: SimpleNamespace(available=32 * GIB, total=64 * GIB),
    )
    (tmp_path / "memory.max").write_text(f"{4 * GIB}\n")
    (tmp_path / "memory.current").write_text(f"{3.5 * GIB:.0f}\n")
    (tmp_path / "memory.stat").write_text(f"anon {GIB // 2}\ninactive_file {cache}\nactive_file 0\n")
    assert has_room(None) == room
