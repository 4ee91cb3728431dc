"""Set up and start WINA Workbench with nothing but Python 3.11 or newer.

    python3 packaging/start.py [arguments of the workbench]   open the window, or run the demo study without a display
    python3 packaging/start.py test [arguments of pytest]     lint, types, import contracts and all tests

The first start makes `.venv`, installs the project and checks Qt's system libraries. Later starts skip this while a
stamp of the set-up's inputs is unchanged. The stamp is written last, so an interrupted set-up is repeated.
"""

import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = VENV / "wina-setup.json"
CONSTRAINTS = ROOT / "packaging" / "constraints.txt"
NATIVE = ROOT / "kernels" / "wina_kernels" / "native"
SYSTEM_LIBRARIES = ROOT / "packaging" / "system-libraries.json"
DEMO_STUDY = ROOT / "resources" / "studies" / "demo" / "demo-quick.toml"
OUTPUT = ROOT / "build" / "demo"
# Programs that some tests run, by their list in system-libraries.json: of a virtual screen with a real window manager,
# of a database server, of other machines and their queue, and of the sandbox of programs that a model writes.
TEST_PROGRAMS = {
    "virtual_screen": ("Xvfb", "openbox", "xdotool", "wmctrl"),
    "postgresql": ("initdb", "postgres"),
    "openssh": ("sshd", "ssh", "rsync"),
    "slurm": ("slurmctld", "slurmd", "sbatch", "munged"),
    "sandbox": ("bwrap",),
}
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


def main(arguments: list[str]) -> int:
    """Set up what is missing, then run the tests, the workbench or the headless demo; return the exit status."""
    if sys.version_info < (3, 11):  # noqa: UP036 - a user may well start this with an older Python
        print(f"WINA Workbench needs Python 3.11 or newer; this is {sys.version.split()[0]}.", file=sys.stderr)
        return 2
    testing = arguments[:1] == ["test"]
    try:
        set_up("test" if testing else "")
    except subprocess.CalledProcessError as error:
        print(f"Set-up failed at: {' '.join(map(str, error.cmd))}", file=sys.stderr)
        print("Fix the problem above, then run the same command again; it continues from there.", file=sys.stderr)
        return 1
    if testing:
        check_test_programs()
        return run_tests(arguments[1:])
    if has_display():
        return run([PYTHON, "-m", "wina_app", *(arguments or ["--demo"])])
    return run_headless_demo()


def set_up(extra: str) -> None:
    """Install into `.venv` what pyproject.toml and the constraints list, and Qt's system libraries."""
    stamp = read_stamp()
    if stamp.get("inputs") != fingerprint() or not {extra} <= {"", *stamp["extras"]} or not PYTHON.exists():
        stamp = install(sorted({*stamp.get("extras", []), extra} - {""}))
    if stamp.get("native") != native_sources():
        stamp = build_native(stamp)
    # The command line works without Qt's libraries, so they are no reason to install everything again.
    if not stamp["qt"] and check_qt():
        write_stamp({**stamp, "qt": True})


def build_native(stamp: dict) -> dict:
    """Build the native kernels, or have the build say why not, and return the new stamp; all works without them."""
    print("Building the native kernels …", flush=True)
    if run([PYTHON, NATIVE / "build.py"]):
        # Where no compiler is installed, a build by pip takes ziglang from PyPI (native_hook.py).
        run([*pip_install(), "--no-deps", "--editable", ROOT])
    return write_stamp({**stamp, "native": native_sources()})


def native_sources() -> str:
    """Return a digest of the native kernels' sources and of their build."""
    digest = hashlib.sha256()
    for path in sorted((*NATIVE.glob("*.h"), *NATIVE.glob("*.cpp"), NATIVE / "build.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def install(extras: list[str]) -> dict:
    """Make `.venv` unless a working one is there, install the project into it, and return the new stamp."""
    STAMP.unlink(missing_ok=True)
    if not PYTHON.exists() or subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True).returncode:
        print(f"Making {VENV.relative_to(ROOT)} …", flush=True)
        shutil.rmtree(VENV, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    print("Installing the project and its dependencies, which takes some minutes the first time …", flush=True)
    target = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
    # Otherwise HQQ's set-up tries to build CUDA extensions, which are not used here.
    environment = {**os.environ, "DISABLE_CUDA": "1"}
    subprocess.run([*pip_install(), "--constraint", CONSTRAINTS, "--editable", target], check=True, env=environment)
    return write_stamp({"inputs": fingerprint(), "extras": extras, "qt": False})


def pip_install() -> list:
    """Return the command that installs into `.venv`, without its arguments."""
    return [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]


def fingerprint() -> str:
    """Return a digest of the set-up's inputs."""
    digest = hashlib.sha256(f"{sys.version_info[:2]} {ROOT}".encode())
    for path in (ROOT / "pyproject.toml", CONSTRAINTS, SYSTEM_LIBRARIES, Path(__file__)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def read_stamp() -> dict:
    """Return the stamp of the finished set-up; empty if there is none or it is damaged."""
    try:
        return json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}


def write_stamp(stamp: dict) -> dict:
    """Write the stamp of a finished step, and return it."""
    STAMP.write_text(json.dumps(stamp))
    return stamp


def check_qt() -> bool:
    """Return whether Qt's system libraries load; as root, install them with apt first."""
    error = qt_error()
    if error is None:
        return True
    if install_with_apt("packages", "Qt's system libraries"):
        error = qt_error()
    if error is None:
        return True
    print(f"Qt cannot load a system library: {error}\nInstall the libraries with one of:", file=sys.stderr)
    for manager in json.loads(SYSTEM_LIBRARIES.read_text()).values():
        print(f"  sudo {manager['command']} {' '.join(manager['packages'])}", file=sys.stderr)
    return False


def check_test_programs() -> None:
    """Install with apt the programs that tests need; where that fails, print which tests are skipped."""
    for packages in TEST_PROGRAMS:
        purpose, missing = packages.replace("_", " "), missing_programs(packages)
        if missing and install_with_apt(packages, f"the tests' programs of {purpose}"):
            missing = missing_programs(packages)
        if missing:
            print(f"Tests of {purpose} are skipped: {', '.join(missing)} not installed.", file=sys.stderr)


def missing_programs(packages: str) -> list[str]:
    """Return the programs of a list that are not installed; none on other systems than Linux."""
    return [name for name in TEST_PROGRAMS[packages] if sys.platform == "linux" and not is_installed(name)]


def is_installed(program: str) -> bool:
    """Return whether a program is on PATH or in a folder of servers."""
    servers = (file for folder in SERVER_FOLDERS for file in glob.glob(f"{folder}/{program}"))
    return shutil.which(program) is not None or any(os.access(file, os.X_OK) for file in servers)


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
            file.write("#!/bin/sh\nexit 101\n")
    except OSError:
        yield
        return
    try:
        os.chmod(SERVICE_POLICY, 0o755)
        yield
    finally:
        os.remove(SERVICE_POLICY)


def qt_error() -> str | None:
    """Return the last line of Qt's error, or None if Qt loads."""
    outcome = subprocess.run([PYTHON, "-c", QT_CHECK], capture_output=True, text=True)
    return None if outcome.returncode == 0 else (outcome.stderr.strip().splitlines() or ["unknown error"])[-1]


def has_display() -> bool:
    """Return whether a window can be shown here."""
    if sys.platform in ("win32", "darwin") or os.environ.get("QT_QPA_PLATFORM"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def run_headless_demo() -> int:
    """Run the short demo study on the command line; write its table as CSV and its frontier plot as PNG."""
    print("There is no display here, so the demo study runs without a window.", flush=True)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    table, figure = OUTPUT / "demo.csv", OUTPUT / "demo.png"
    wina = [PYTHON, "-m", "wina_core.cli"]
    status = run([*wina, "study", "run", DEMO_STUDY]) or run([*wina, "export", table, "--study", DEMO_STUDY.stem])
    if status:
        return status
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    status = run([PYTHON, "-m", "wina_app.tools.render_figure", figure, "--study", DEMO_STUDY.stem], env=environment)
    if not status:
        print(f"Table: {table}\nPlot:  {figure}")
    return status


def run_tests(arguments: list[str]) -> int:
    """Run lint, types, import contracts and tests, all of them even if one fails; return the exit status.

    Tests run in three processes on two cores, since some wait for servers, queues and engines.
    """
    checks = {
        "lint": [PYTHON, "-m", "ruff", "check", "."],
        "format": [PYTHON, "-m", "ruff", "format", "--check", "."],
        "types": [PYTHON, "-m", "mypy", "--num-workers", "2"],
        "import contracts": [PYTHON.with_name("lint-imports")],
        "tests": [PYTHON, "-m", "pytest", "-n", "3", "--dist", "worksteal", *arguments],
    }
    failed = []
    for name, command in checks.items():
        print(f"\n== {name}", flush=True)
        if run(command):
            failed.append(name)
    if failed:
        print(f"Failed: {', '.join(failed)}.", file=sys.stderr)
    return 1 if failed else 0


def run(command: list, env: dict | None = None) -> int:
    """Run a command in the project folder and return its exit status; Ctrl-C reaches the child as well."""
    try:
        return subprocess.run([str(word) for word in command], cwd=ROOT, env=env).returncode
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
