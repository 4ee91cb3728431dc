"""The workbench's folders, and where its results are by default."""

from pathlib import Path

import pytest

from wina_core.engine.client.client import EngineClient
from wina_core.errors import WinaError
from wina_core.files import paths
from wina_core.store import Store


def test_a_folder_that_cannot_be_made_is_named_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("WINA_HOME", str(tmp_path / "file"))
    monkeypatch.delenv("WINA_DATABASE", raising=False)
    with pytest.raises(WinaError) as caught:
        paths.cache_folder()
    assert str(caught.value) == (
        f"The folder {tmp_path}/file/cache cannot be created (Not a directory); make it writable or set WINA_HOME to "
        "another folder."
    )
    with pytest.raises(WinaError, match="set WINA_DATABASE to a file elsewhere"):
        Store()
    EngineClient(lambda _: None)
    assert "The engine's log file could not be opened" in caplog.text


def test_the_workbenchs_own_folders_are_closed_to_other_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINA_HOME", str(tmp_path))
    monkeypatch.delenv("WINA_DATABASE", raising=False)
    (tmp_path / "config").mkdir(mode=0o755)  # of an earlier version
    Store().close()
    for folder in (paths.config_folder(), paths.cache_folder(), paths.log_folder(), tmp_path / "data"):
        assert folder.stat().st_mode & 0o777 == 0o700
    Store(tmp_path / "shared" / "results.sqlite").close()
    (tmp_path / "usual").mkdir()
    assert (tmp_path / "shared").stat().st_mode == (tmp_path / "usual").stat().st_mode


@pytest.mark.parametrize("name", ["file/new", "file/deep/new"])
def test_a_folder_that_cannot_be_made_is_refused_before_anything_is_computed(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(WinaError, match=r"new cannot be made \(.*\); choose a folder that you may write to"):
        paths.check_new_folder(tmp_path / name)
    paths.check_new_folder(tmp_path / "deep" / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"], "nothing is left behind"
