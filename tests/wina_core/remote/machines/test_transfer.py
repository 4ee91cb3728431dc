"""Files of a machine over a real ssh, by rsync and by sftp."""

import os
import shutil
from pathlib import Path

import pytest

from tests.wina_core.remote.machines.sshd import SshServer
from wina_core.errors import Cancelled, WinaError
from wina_core.remote.machines import transfer
from wina_core.remote.machines.transfer import fetch

ODD = '-it\'s $(id) `x` "a" *[b]'
WAYS = ("rsync", "sftp")


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Fetch by rsync, or by sftp as where there is no rsync."""
    if request.param == "sftp":
        monkeypatch.setattr(transfer, "_by_rsync", lambda *_: False)
    elif not shutil.which("rsync"):
        pytest.skip("rsync is not installed (Debian: apt install rsync)")
    return str(request.param)


def given(sshd: SshServer, *parts: str, content: bytes = b"content") -> Path:
    """Write a file of the machine's user."""
    file = sshd.home.joinpath(*parts)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    sshd.give(sshd.home / parts[0])
    return file


def test_names_stay_data(sshd: SshServer, way: str, tmp_path: Path) -> None:
    name = f"{ODD}\n" if way == "rsync" else ODD
    file = given(sshd, f"from {way}", name, name)
    target = tmp_path / "to 'it'" / "$(id)"
    assert fetch(sshd.machine(), str(file.parent), target) == target / name
    assert fetch(sshd.machine(), f"~/from {way}/{name}/{name}", tmp_path).read_bytes() == b"content"
    assert (os.listdir(target / name), os.listdir(target)) == ([name], [name])


def test_links_are_followed_or_refused(sshd: SshServer, way: str, tmp_path: Path) -> None:
    file = given(sshd, f"links {way}", "blobs", "1")
    (sshd.home / f"links {way}" / "model").mkdir()
    (sshd.home / f"links {way}" / "model" / "weights").symlink_to(file)
    if way == "rsync":
        copy = fetch(sshd.machine(), f"~/links {way}/model", tmp_path)
        assert not (copy / "weights").is_symlink()
        assert (copy / "weights").read_bytes() == b"content"
    else:
        with pytest.raises(WinaError, match="has links, which sftp leaves out; install rsync"):
            fetch(sshd.machine(), f"~/links {way}/model", tmp_path)


def test_an_interrupted_copy_continues(sshd: SshServer, way: str, tmp_path: Path) -> None:
    content = os.urandom(40 * 2**20)
    file = given(sshd, f"big {way}", "model", "weights", content=content)
    seen: list[float] = []

    def stop(done: float, _total: float | None) -> None:
        seen.append(done)
        if done:
            raise Cancelled

    for attempt in range(2):
        try:
            fetch(sshd.machine(), str(file.parent), tmp_path, stop if attempt == 0 else lambda *_: None)
        except Cancelled:
            assert not (tmp_path / "model").exists()
            (part,) = tmp_path.iterdir()
            assert part.name.startswith(".wina-part-")
    assert seen
    assert (tmp_path / "model" / "weights").read_bytes() == content
    assert os.listdir(tmp_path) == ["model"]


def test_failures_are_sentences(sshd: SshServer, way: str, tmp_path: Path) -> None:
    machine = sshd.machine()
    with pytest.raises(WinaError, match=rf"'/no/{way}' could not .*\(.*(?i:no such|not found).*check the path"):
        fetch(machine, f"/no/{way}", tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(WinaError, match="name is unknown"):
        fetch(machine.model_copy(update={"destination": "nowhere.invalid"}), "/a", tmp_path)
    (tmp_path / "here").touch()
    with pytest.raises(WinaError, match="exists already"):
        fetch(machine, "/home/here", tmp_path)


@pytest.mark.parametrize("path", ["", "/", "/..", "/a/..", "relative", "-x", "/a\0"])
def test_paths_that_name_nothing_are_refused(sshd: SshServer, path: str, tmp_path: Path) -> None:
    with pytest.raises(WinaError, match="cannot be fetched"):
        fetch(sshd.machine(), path, tmp_path)
