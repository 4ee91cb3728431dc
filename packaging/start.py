"""Set up and start WINA Workbench with nothing but Python 3.11 or newer.

    python3 packaging/start.py [arguments of the workbench]   open the window, or run the demo study without a display
    python3 packaging/start.py test [arguments of pytest]     lint, types, import contracts and all tests

The first start makes `.venv`, installs the project and checks Qt's system libraries. A stamp over everything that
set-up depends on makes later starts skip all that; the stamp is written last, so an interrupted set-up is repeated.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = VENV / "wina-setup.json"
CONSTRAINTS = ROOT / "packaging" / "constraints.txt"
SYSTEM_LIBRARIES = ROOT / "packaging" / "system-libraries.json"
DEMO_STUDY = ROOT / "resources" / "studies" / "demo" / "demo-quick.toml"
OUTPUT = ROOT / "build" / "demo"

# Loads what a window needs: Qt itself and, on Linux, the X11 platform plugin with all its libraries.
QT_CHECK = """
import ctypes, pathlib, sys
from PySide6 import QtGui, QtWidgets
if sys.platform == "linux":
    import PySide6
    ctypes.CDLL(str(pathlib.Path(PySide6.__file__).parent / "Qt/plugins/platforms/libqxcb.so"))
"""


def main(arguments: list[str]) -> int:
    """Set up what is missing, then run the tests, the workbench, or the headless demo; returns the exit status."""
    if sys.version_info < (3, 11):  # noqa: UP036 - a user may well start this with an older Python
        print(f"WINA Workbench needs Python 3.11 or newer; this is {sys.version.split()[0]}.", file=sys.stderr)
        return 2
    testing = arguments[:1] == ["test"]
    try:
        set_up("test" if testing else "")
    except subprocess.CalledProcessError as error:
        print(f"Set-up failed at: {' '.join(map(str, error.cmd))}", file=sys.stderr)
        print("Mend what it says above, then run the same command again: it continues by itself.", file=sys.stderr)
        return 1
    if testing:
        return run_tests(arguments[1:])
    if has_display():
        return run([PYTHON, "-m", "wina_app", *(arguments or ["--demo"])])
    return run_headless_demo()


def set_up(extra: str) -> None:
    """Bring `.venv` and Qt's system libraries up to what pyproject.toml and the constraints ask for."""
    stamp = read_stamp()
    if stamp.get("inputs") != fingerprint() or not {extra} <= {"", *stamp["extras"]} or not PYTHON.exists():
        stamp = install(sorted({*stamp.get("extras", []), extra} - {""}))
    # Without Qt's libraries the command line still works, so this is no reason to install everything again.
    if not stamp["qt"] and check_qt():
        write_stamp({**stamp, "qt": True})


def install(extras: list[str]) -> dict:
    """Make `.venv` unless a working one is there, install the project into it, and return the new stamp."""
    STAMP.unlink(missing_ok=True)
    if not PYTHON.exists() or subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True).returncode:
        print(f"Making {VENV.relative_to(ROOT)} …", flush=True)
        shutil.rmtree(VENV, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    print("Installing the project and its dependencies, which takes some minutes the first time …", flush=True)
    target = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # HQQ's own set-up would else try to build CUDA extensions that are not used here.
    environment = {**os.environ, "DISABLE_CUDA": "1"}
    subprocess.run([*pip, "--constraint", CONSTRAINTS, "--editable", target], check=True, env=environment)
    return write_stamp({"inputs": fingerprint(), "extras": extras, "qt": False})


def fingerprint() -> str:
    """Digest of all that set-up depends on."""
    digest = hashlib.sha256(f"{sys.version_info[:2]} {ROOT}".encode())
    for path in (ROOT / "pyproject.toml", CONSTRAINTS, SYSTEM_LIBRARIES, Path(__file__)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def read_stamp() -> dict:
    """The finished set-up's stamp; empty when there is none or it is damaged."""
    try:
        return json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}


def write_stamp(stamp: dict) -> dict:
    """Record a finished step of the set-up."""
    STAMP.write_text(json.dumps(stamp))
    return stamp


def check_qt() -> bool:
    """Whether Qt's system libraries load, after trying to install them where that is allowed."""
    error = qt_error()
    if error is None:
        return True
    managers = json.loads(SYSTEM_LIBRARIES.read_text())
    apt = managers["apt"]
    if shutil.which("apt-get") and hasattr(os, "geteuid") and os.geteuid() == 0:
        print("Installing Qt's system libraries …", flush=True)
        quiet = {"stdout": subprocess.DEVNULL, "env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}}
        subprocess.run(["apt-get", "update"], check=False, **quiet)
        subprocess.run([*apt["command"].split(), "--no-install-recommends", *apt["packages"]], check=False, **quiet)
        error = qt_error()
    if error is None:
        return True
    print(f"Qt cannot load a system library: {error}\nInstall the libraries with one of:", file=sys.stderr)
    for manager in managers.values():
        print(f"  sudo {manager['command']} {' '.join(manager['packages'])}", file=sys.stderr)
    return False


def qt_error() -> str | None:
    """The last line of what Qt says when it does not load; None when it does."""
    outcome = subprocess.run([PYTHON, "-c", QT_CHECK], capture_output=True, text=True)
    return None if outcome.returncode == 0 else (outcome.stderr.strip().splitlines() or ["unknown error"])[-1]


def has_display() -> bool:
    """Whether a window can be shown here."""
    if sys.platform in ("win32", "darwin") or os.environ.get("QT_QPA_PLATFORM"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def run_headless_demo() -> int:
    """Run the short demo study on the command line; leaves its table as CSV and its frontier plot as PNG."""
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
    """Lint, types, import contracts and tests, all of them even when one fails."""
    checks = {
        "lint": [PYTHON, "-m", "ruff", "check", "."],
        "format": [PYTHON, "-m", "ruff", "format", "--check", "."],
        "types": [PYTHON, "-m", "mypy"],
        "import contracts": [PYTHON.with_name("lint-imports")],
        # Tests of a file share fixtures. In the files' own order: else those of few tests, the longest, come last.
        "tests": [PYTHON, "-m", "pytest", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", *arguments],
    }
    # Two test processes on two cores: more threads in each would only get into each other's way.
    environment = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    failed = []
    for name, command in checks.items():
        print(f"\n== {name}", flush=True)
        if run(command, environment):
            failed.append(name)
    if failed:
        print(f"Failed: {', '.join(failed)}.", file=sys.stderr)
    return 1 if failed else 0


def run(command: list, env: dict | None = None) -> int:
    """Run in the project folder with our output, returning the exit status; Ctrl-C reaches the child as well."""
    try:
        return subprocess.run([str(part) for part in command], cwd=ROOT, env=env).returncode
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
