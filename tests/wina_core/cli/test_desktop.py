"""The workbench in a desktop's menu."""

import shlex
import shutil
import subprocess
import sys
from configparser import RawConfigParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from wina_core.cli import app
from wina_core.errors import WinaError
from wina_core.files import desktop_entry

linux = pytest.mark.skipif(sys.platform != "linux", reason="desktop entries are for Linux")


@pytest.fixture
def share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    programs = tmp_path / "my programs, 100 % mine"
    programs.mkdir()
    (programs / "wina-workbench").touch(mode=0o755)
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    return tmp_path / "share"


def files(folder: Path) -> set[str]:
    """The package's files, without the caches of the desktop's tools."""
    return {file.name for file in folder.rglob("wina-workbench.*")}


@linux
def test_the_entry_starts_the_program_with_the_files_of_its_types_and_is_removed(share: Path):
    printed = CliRunner().invoke(app, ["desktop", "install"]).output.split("\n")
    assert files(share) == {"wina-workbench.desktop", "wina-workbench.svg", "wina-workbench.xml"}
    file = share / "applications" / "wina-workbench.desktop"
    assert str(file) in printed
    content = RawConfigParser()
    content.optionxform = str
    content.read(file)
    entry = content["Desktop Entry"]
    program, files_given = shlex.split(entry["Exec"].replace("%%", "%"))
    assert (Path(program).exists(), files_given) == (True, "%F")
    assert (share / "icons/hicolor/scalable/apps" / f"{entry['Icon']}.svg").exists()
    types = ElementTree.parse(share / "mime/packages/wina-workbench.xml").getroot()
    assert {kind.get("type") for kind in types} == set(entry["MimeType"].strip(";").split(";"))
    if shutil.which("desktop-file-validate"):
        assert subprocess.run(["desktop-file-validate", file], capture_output=True).stdout == b""
    assert CliRunner().invoke(app, ["desktop", "remove"]).exit_code == 0
    assert files(share) == set()
    assert CliRunner().invoke(app, ["desktop", "remove"]).output == ""


@linux
def test_a_place_that_cannot_be_written_is_named(share: Path):
    share.write_text("a file")
    with pytest.raises(WinaError, match="applications"):
        desktop_entry.install()


def test_other_systems_are_referred_to_bundles(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(WinaError, match="for Linux"):
        desktop_entry.install()
