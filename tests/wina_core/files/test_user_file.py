"""Special and huge files are refused in one sentence, without being opened."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from wina_core.errors import WinaError
from wina_core.files.paths import what_is_at
from wina_core.files.user_file import LIMITS, check_file, read_file


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(LIMITS["plan"] + 1)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda path: os.mkfifo(path), "is a pipe, a device or the like, which is not opened; choose a file"),
        (lambda path: path.symlink_to("/dev/zero"), "is a pipe, a device or the like"),
        (lambda path: path.symlink_to("/proc/self/status"), "is a pipe, a device or the like"),
        (lambda path: path.symlink_to(path), r"cannot be read \(Too many levels of symbolic links\); check the path"),
        (lambda path: path.mkdir(), "is a folder; choose a file"),
        (lambda _: None, r"cannot be read \(No such file or directory\); check the path"),
        (_sparse, "is larger than 4 MiB, too large for a plan; choose another file"),
    ],
    ids=["pipe", "device", "kernel", "loop", "folder", "missing", "huge"],
)
def test_what_is_no_ordinary_file_is_refused(tmp_path: Path, make: Callable[[Path], object], sentence: str) -> None:
    path = tmp_path / "plan.json"
    make(path)
    for read in (read_file, check_file):
        with pytest.raises(WinaError, match=sentence):
            read(path, "plan")


def test_a_pipe_is_neither_file_nor_folder(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model")
    with pytest.raises(
        WinaError, match="is a pipe, a device or the like, which is not opened; choose a file or folder"
    ):
        what_is_at(tmp_path / "model")


def test_a_link_to_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(b"content")
    (tmp_path / "link").symlink_to(tmp_path / "blob")
    assert read_file(tmp_path / "link", "plan") == b"content"
