"""Qt's system libraries and the programs of the tests: checked, and installed with apt if this runs as root."""

import glob
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SYSTEM_LIBRARIES = Path(__file__).with_name("system-libraries.json")
# Programs that some tests run, by their list in system-libraries.json: of a virtual screen with a real window manager,
# of a database server, of other machines and their queue, and of the sandbox of programs that a model writes.
TEST_PROGRAMS = {
    "virtual_screen": ("Xvfb", "openbox", "xdotool", "wmctrl"),
    "postgresql": ("initdb", "postgres"),
    "openssh": ("sshd", "ssh", "rsync"),
    "slurm": ("slurmctld", "slurmd", "sbatch", "munged"),
    "sandbox": ("bwrap",),
}
BY_DAY = ("sandbox",)
# Debian's packages ask this program before they start a service.
SERVICE_POLICY = "/usr/sbin/policy-rc.d"
# Folders of servers that are not on a user's PATH.
SERVER_FOLDERS = ("/usr/sbin", "/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin")

# Load Qt and, on Linux, the X11 platform plugin with all its libraries.
QT_CHECK = """
import ctypes, pathlib, sys
from PySide6 import QtGui, QtWidgets
if sys.platform == "linux":
    import PySide6
    ctypes.CDLL(str(pathlib.Path(PySide6.__file__).parent / "Qt/plugins/platforms/libqxcb.so"))
"""


def check_qt(python: Path) -> bool:
    """Return whether Qt's system libraries load in `python`; as root, install them with apt first."""
    error = qt_error(python)
    if error and install_with_apt("packages", "Qt's system libraries"):
        error = qt_error(python)
    if error:
        print(f"Qt cannot load a system library: {error}\nInstall the libraries with one of:", file=sys.stderr)
        for manager in json.loads(SYSTEM_LIBRARIES.read_text()).values():
            print(f"  sudo {manager['command']} {' '.join(manager['packages'])}", file=sys.stderr)
    return not error


def check_test_programs(by_night: bool) -> None:
    """Install with apt the programs that tests need by day or by night; if that fails, print what is skipped."""
    for packages in TEST_PROGRAMS if by_night else BY_DAY:
        purpose, missing = packages.replace("_", " "), missing_programs(packages)
        if missing and install_with_apt(packages, f"the tests' programs of {purpose}"):
            missing = missing_programs(packages)
        if missing:
            print(f"Tests of {purpose} are skipped: {', '.join(missing)} not installed.", file=sys.stderr)


def missing_programs(packages: str) -> list[str]:
    folders = [os.environ.get("PATH", ""), *(folder for pattern in SERVER_FOLDERS for folder in glob.glob(pattern))]
    found = [shutil.which(name, path=os.pathsep.join(folders)) for name in TEST_PROGRAMS[packages]]
    return [
        name
        for name, file in zip(TEST_PROGRAMS[packages], found, strict=True)
        if sys.platform == "linux" and file is None
    ]


def install_with_apt(packages: str, purpose: str) -> bool:
    """Install a list of the system packages if this is root on a system with apt; return whether it was tried.

    The services of servers are not started: tests start their own, which listen to this machine alone.
    """
    if not (shutil.which("apt-get") and hasattr(os, "geteuid") and os.geteuid() == 0):
        return False
    print(f"Installing {purpose} …", flush=True)
    apt = json.loads(SYSTEM_LIBRARIES.read_text())["apt"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with without_services():
        for command in (["apt-get", "update"], [*apt["command"].split(), "--no-install-recommends", *apt[packages]]):
            outcome = subprocess.run(command, capture_output=True, text=True, env=environment)
    if outcome.returncode:
        print((outcome.stderr.strip().splitlines() or ["apt-get failed"])[-1], file=sys.stderr)
    return True


@contextmanager
def without_services() -> Iterator[None]:
    """Keep Debian's packages from starting services, unless the system has a rule of its own on that."""
    try:
        with open(SERVICE_POLICY, "x") as file:
            # 101: the action is forbidden by the policy.
            file.write("#!/bin/sh\nexit 101\n")
    except OSError:
        yield
        return
    try:
        os.chmod(SERVICE_POLICY, 0o755)
        yield
    finally:
        os.remove(SERVICE_POLICY)


def qt_error(python: Path) -> str | None:
    """Return the last line of Qt's error; None if Qt loads."""
    outcome = subprocess.run([python, "-c", QT_CHECK], capture_output=True, text=True)
    return None if outcome.returncode == 0 else (outcome.stderr.strip().splitlines() or ["unknown error"])[-1]
