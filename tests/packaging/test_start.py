"""The start-up script: steps it repeats, steps it skips, and advice on what it cannot do."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import system_libraries

SCRIPT = Path(__file__).parents[2] / "packaging" / "start.py"


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A fresh copy of the script whose `.venv` is in a temporary folder, with every command recorded, none run."""
    spec = importlib.util.spec_from_file_location("wina_start", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.ROOT, module.NATIVE = tmp_path, tmp_path / "native"
    module.NATIVE.mkdir()
    module.PYTHON, module.STAMP = tmp_path / ".venv" / "bin" / "python", tmp_path / ".venv" / "set-up"
    module.CONSTRAINTS = tmp_path / "constraints.txt"
    for name in ("pyproject.toml", "constraints.txt", "native/kernel.cpp", "native/build.py"):
        (tmp_path / name).write_text(name)
    module.commands = []
    module.answers = {}

    def fake_run(command: list, check: bool = False, **_: object) -> SimpleNamespace:
        words = [str(word) for word in command]
        module.commands.append(words)
        if "venv" in words:
            module.PYTHON.parent.mkdir(parents=True, exist_ok=True)
            module.PYTHON.touch()
        code, error = next((value for key, value in module.answers.items() if key in words), (0, ""))
        if code and check:
            raise subprocess.CalledProcessError(code, words)
        return SimpleNamespace(returncode=code, stderr=error, stdout="")

    monkeypatch.setattr(module.subprocess, "run", fake_run)
    return module


def installs(start: ModuleType) -> int:
    return sum("--editable" in command for command in start.commands)


@pytest.mark.parametrize(
    ("starts", "expected"), [(["run", "run"], 1), (["run", "test", "test", "run"], 2), (["test", "run"], 1)]
)
def test_dependencies_are_installed_once(start: ModuleType, starts: list[str], expected: int) -> None:
    for purpose in starts:
        start.set_up(purpose == "test")
    assert installs(start) == expected
    start.commands.clear()
    start.set_up(testing=False)
    assert start.commands == []


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt", "native/kernel.cpp"])
def test_a_changed_input_installs_again(start: ModuleType, tmp_path: Path, name: str) -> None:
    start.set_up(testing=True)
    (tmp_path / name).write_text("changed")
    start.set_up(testing=False)
    assert installs(start) == 2


def test_an_interrupted_installation_is_repeated(start: ModuleType) -> None:
    start.answers["--editable"] = (1, "")
    with pytest.raises(subprocess.CalledProcessError):
        start.set_up(testing=False)
    start.answers.clear()
    start.set_up(testing=False)
    assert installs(start) == 2
    assert "qt" in start.STAMP.read_text()


def test_a_damaged_environment_is_made_anew(start: ModuleType) -> None:
    start.set_up(testing=False)
    start.STAMP.write_text("half a dig")
    start.commands.clear()
    start.answers["--version"] = (1, "")
    start.set_up(testing=False)
    assert any({"venv", "--clear"} <= set(command) for command in start.commands)


def test_missing_qt_libraries_are_named_with_the_commands_that_install_them(
    start: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(system_libraries.shutil, "which", lambda *_, **__: None)
    start.answers["-c"] = (1, "Traceback\nImportError: libEGL.so.1: cannot open shared object file")
    start.set_up(testing=False)
    message = capsys.readouterr().err
    assert "libEGL.so.1" in message
    for manager in ("apt-get install", "dnf install", "pacman -S"):
        assert manager in message
    start.commands.clear()
    start.set_up(testing=False)
    assert installs(start) == 0, "a missing system library is no reason to install Python packages again"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such servers")
@pytest.mark.parametrize("installable", [True, False])
@pytest.mark.parametrize(
    ("program", "packages"),
    [
        ("Xvfb", ["xvfb", "openbox", "xdotool", "wmctrl"]),
        ("slurmctld", ["slurm-wlm"]),
        ("bwrap", ["bubblewrap"]),
    ],
)
def test_programs_of_tests_are_installed_as_root_or_their_tests_announced_as_skipped(
    start: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
    installable: bool,
    program: str,
    packages: list[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("WINA_LONG_TESTS", "1")
    policy = tmp_path / "policy-rc.d"
    monkeypatch.setattr(system_libraries, "SERVICE_POLICY", str(policy))
    monkeypatch.setattr(system_libraries, "SERVER_FOLDERS", ())
    monkeypatch.setattr(system_libraries.os, "geteuid", lambda: 0, raising=False)
    start.answers["apt-get"] = (0 if installable else 100, "E: Unable to locate package")

    def which(name: str, path: str = "") -> str | None:  # noqa: ARG001 - the library's signature
        installed = installable and any(packages[0] in command for command in start.commands)
        return f"/usr/bin/{name}" if name == "apt-get" or name != program or installed else None

    monkeypatch.setattr(system_libraries.shutil, "which", which)
    assert start.main(["test"]) == 0
    installing = [set(command) for command in start.commands if {"apt-get", "install"} <= set(command)]
    assert len(installing) == 1, "nothing else is missing"
    assert not policy.exists(), "services may start again"
    assert set(packages) <= installing[0]
    notes = capsys.readouterr().err
    assert (f"are skipped: {program} not installed" in notes) is not installable
    assert ("Unable to locate" in notes) is not installable


@pytest.mark.skipif(sys.platform != "linux", reason="other systems always have a display")
@pytest.mark.parametrize(
    ("environment", "expected"),
    [({}, False), ({"DISPLAY": ":0"}, True), ({"WAYLAND_DISPLAY": "w"}, True), ({"QT_QPA_PLATFORM": "vnc"}, True)],
)
def test_the_window_opens_where_there_is_a_display_else_the_demo_study_leaves_its_table_and_report(
    start: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture,
    environment: dict,
    expected: bool,
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    start.OUTPUT = tmp_path / "out"
    assert start.main([]) == 0
    assert ([str(start.PYTHON), "-m", "wina_app", "--demo"] in start.commands) is expected
    assert any(command[1:3] == ["study", "run"] for command in start.commands) is not expected
    output = capsys.readouterr().out
    assert all((text in output) is not expected for text in ("no display", "demo.csv", "report"))
