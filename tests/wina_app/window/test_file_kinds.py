"""What cannot be opened is refused in a sentence, whatever it is."""

import os
from pathlib import Path

import pytest
from wina_app.window.file_kinds import kind_of

from wina_core.errors import WinaError


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_keeps_nobody_waiting(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(WinaError, match=r"pipe.json.* is neither a file nor a folder"):
        kind_of(tmp_path / "pipe.json")


@pytest.mark.parametrize("name", ["nul\0byte.json", "n" * 300], ids=["nul", "long"])
def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path, name: str):
    with pytest.raises(WinaError, match="cannot be opened"):
        kind_of(tmp_path / name)


def test_a_folder_that_leads_to_itself_is_refused(tmp_path: Path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(WinaError, match=r"loop.* cannot be opened"):
        kind_of(tmp_path / "loop")


def test_gguf_files_and_folders_with_one_are_models(tmp_path: Path):
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    assert kind_of(tmp_path / "model.gguf") == "model"
    assert kind_of(tmp_path) == "model"
