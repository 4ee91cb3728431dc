"""Set up and start WINA Workbench with nothing but Python 3.11 or newer.

    python3 packaging/start.py [arguments of the workbench]   open the window, or run the demo study without a display
    python3 packaging/start.py test [arguments of pytest]     lint, types, import contracts and all tests

The first start makes `.venv`, installs the project and checks Qt's system libraries. Later starts skip this while a
stamp of the set-up's inputs is unchanged. The stamp is written last, so an interrupted set-up is repeated.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from system_libraries import SYSTEM_LIBRARIES, check_qt, check_test_programs

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = VENV / "set-up"
CONSTRAINTS = ROOT / "packaging" / "constraints.txt"
NATIVE = ROOT / "kernels" / "wina_kernels" / "native"
DEMO_STUDY = ROOT / "resources" / "studies" / "demo" / "demo-quick.toml"
OUTPUT = ROOT / "build" / "demo"


def main(arguments: list[str]) -> int:
    """Set up what is missing, then run the tests, the workbench or the headless demo; return the exit status."""
    if sys.version_info < (3, 11):  # noqa: UP036 - a user may well start this with an older Python
        print(f"WINA Workbench needs Python 3.11 or newer; this is {sys.version.split()[0]}.", file=sys.stderr)
        return 2
    testing = arguments[:1] == ["test"]
    try:
        set_up("test" if testing else "run")
    except subprocess.CalledProcessError as error:
        print(f"Set-up failed at: {' '.join(map(str, error.cmd))}", file=sys.stderr)
        print("Fix the problem above, then run the same command again; it continues from there.", file=sys.stderr)
        return 1
    if testing:
        check_test_programs()
        return run_tests(arguments[1:])
    if sys.platform in ("win32", "darwin") or any(
        map(os.environ.get, ("QT_QPA_PLATFORM", "DISPLAY", "WAYLAND_DISPLAY"))
    ):
        return run([PYTHON, "-m", "wina_app", *(arguments or ["--demo"])])
    return run_headless_demo()


def set_up(purpose: str) -> None:
    """Install what it takes to "run" or to "test" the project into `.venv`, and Qt's system libraries, if need be."""
    native = (NATIVE / "build.py", *sorted(NATIVE.glob("*.[ch]*")))
    inputs = (ROOT / "pyproject.toml", CONSTRAINTS, SYSTEM_LIBRARIES, Path(__file__), *native)
    content = b"".join(path.read_bytes() for path in inputs)
    # With the folder: `.venv` holds its path, in scripts and the editable install.
    digest = hashlib.sha256(content + f"{sys.version_info[:2]} {ROOT}".encode()).hexdigest()
    done = STAMP.read_text(errors="replace").split() if STAMP.exists() else []
    if not {digest, purpose} <= {*done} or not PYTHON.exists():
        STAMP.unlink(missing_ok=True)
        purposes = {"run", purpose, *done} & {"run", "test"}
        install(testing="test" in purposes)
        done = [digest, *purposes]
        STAMP.write_text(" ".join(done))
    # The command line works without Qt's libraries, so they are no reason to install everything again.
    if "qt" not in done and check_qt(PYTHON):
        STAMP.write_text(" ".join([*done, "qt"]))


def install(testing: bool) -> None:
    """Make `.venv` unless a working one is there, and install the project with its kernels into it."""
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--constraint", CONSTRAINTS]
    if not PYTHON.exists() or subprocess.run([*pip[:3], "--version"], capture_output=True).returncode:
        print(f"Making {VENV.relative_to(ROOT)} …", flush=True)
        shutil.rmtree(VENV, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    print("Installing the project and its dependencies, which takes some minutes the first time …", flush=True)
    subprocess.run([*pip, "--upgrade", "pip"], check=True)  # Python 3.11 brings a pip that knows no dependency groups
    groups = ["--group", f"{ROOT / 'pyproject.toml'}:test"] if testing else []
    # Otherwise HQQ's set-up tries to build CUDA extensions, which are not used here.
    environment = {**os.environ, "DISABLE_CUDA": "1"}
    subprocess.run([*pip, "--editable", ROOT, *groups], check=True, cwd=ROOT, env=environment)


def run_headless_demo() -> int:
    """Run the short demo study on the command line; write its table as CSV and its frontier plot as PNG."""
    print("There is no display here, so the demo study runs without a window.", flush=True)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    table, figure, study = OUTPUT / "demo.csv", OUTPUT / "demo.png", ["--study", DEMO_STUDY.stem]
    wina, offscreen = [PYTHON, "-m", "wina_core.cli"], {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    status = (
        run([*wina, "study", "run", DEMO_STUDY])
        or run([*wina, "export", table, *study])
        or run([PYTHON, "-m", "wina_app.tools.render_figure", figure, *study], offscreen)
    )
    if not status:
        print(f"Table: {table}\nPlot:  {figure}")
    return status


def run_tests(arguments: list[str]) -> int:
    """Run lint, types, import contracts and tests, all of them even if one fails; return the exit status."""
    checks = {
        "lint": [PYTHON, "-m", "ruff", "check", "."],
        "format": [PYTHON, "-m", "ruff", "format", "--check", "."],
        "types": [PYTHON, "-m", "mypy", "--num-workers", "2"],
        "import contracts": [PYTHON.with_name("lint-imports")],
        # Three processes on two cores, since some tests wait for servers, queues and engines.
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
