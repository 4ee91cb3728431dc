"""Set up and start WINA Workbench with nothing but Python 3.11 or newer.

    python3 packaging/start.py [arguments of the workbench]   open the window, or run the demo study without a display
    python3 packaging/start.py test [arguments of pytest]     lint, types, import contracts and all tests

The first start makes `.venv`, installs the project and checks Qt's system libraries; later ones skip this while a stamp
of its inputs is unchanged. The stamp is written last, so that an interrupted set-up is repeated.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

from system_libraries import SYSTEM_LIBRARIES, check_qt, check_test_programs

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = ROOT / ".venv" / "set-up"
CONSTRAINTS = ROOT / "packaging" / "constraints.txt"
NATIVE = ROOT / "kernels" / "wina_kernels" / "native"
OUTPUT = ROOT / "build" / "demo"
CHECKS = ("ruff check .", "ruff format --check .", "mypy --num-workers 2", "lint-imports")


def main(arguments: list[str]) -> "int | str":
    """Set up what is missing, then run the tests, the workbench or the headless demo; return the status or an error."""
    if sys.version_info < (3, 11):  # noqa: UP036 - a user may well start this with an older Python
        return f"WINA Workbench needs Python 3.11 or newer; this is {sys.version.split()[0]}."
    try:
        set_up(testing := arguments[:1] == ["test"])
    except subprocess.CalledProcessError as error:
        return f"Set-up failed at: {' '.join(map(str, error.cmd))}\nFix the problem above, then run this again."
    if testing:
        check_test_programs(by_night="WINA_LONG_TESTS" in os.environ or "service" in arguments)
        # Three processes on two cores, since some tests wait for servers, queues and engines.
        checks = [*map(str.split, CHECKS), ["pytest", "-n", "3", "--dist", "worksteal", *arguments[1:]]]
        failed = [" ".join(words) for words in checks if run(*words)]
        return f"Failed: {', '.join(failed)}." if failed else 0
    displays = map(os.environ.get, ("QT_QPA_PLATFORM", "DISPLAY", "WAYLAND_DISPLAY"))
    if sys.platform in ("win32", "darwin") or any(displays):
        return run("python", "-m", "wina_app", *(arguments or ["--demo"]))
    print(f"There is no display here; demo.csv and a report of the demo study go to {OUTPUT}.", flush=True)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    return (
        run("wina", "study", "run", "demo-quick")
        or run("wina", "export", OUTPUT / "demo.csv", "--study", "demo-quick")
        or run("wina", "report", "demo-quick", "--output-path", OUTPUT)
    )


def set_up(testing: bool) -> None:
    """Install the project into `.venv`, with its tests' packages if asked, and Qt's system libraries, if need be."""
    native = (NATIVE / "build.py", *sorted(NATIVE.glob("*.[ch]*")))
    inputs = (ROOT / "pyproject.toml", CONSTRAINTS, SYSTEM_LIBRARIES, Path(__file__), *native)
    # With the folder: `.venv` holds its path, in scripts and the editable install.
    content = b"".join(path.read_bytes() for path in inputs) + f"{sys.version_info[:2]} {ROOT}".encode()
    wanted = {hashlib.sha256(content).hexdigest(), "test" if testing else "run"}
    done = set(STAMP.read_text(errors="replace").split()) if STAMP.exists() else set()
    if not wanted <= done or not PYTHON.exists():
        STAMP.unlink(missing_ok=True)
        install(testing)
        done = {*wanted, "run"}
    # The command line works without Qt's libraries, so they are no reason to install everything again.
    if "qt" not in done and check_qt(PYTHON):
        done.add("qt")
    STAMP.write_text(" ".join(done))


def install(testing: bool) -> None:
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--constraint", CONSTRAINTS]
    if not PYTHON.exists() or subprocess.run([*pip[:3], "--version"], capture_output=True).returncode:
        subprocess.run([sys.executable, "-m", "venv", "--clear", STAMP.parent], check=True)
    print("Installing the project and its dependencies, which takes some minutes the first time …", flush=True)
    subprocess.run([*pip, "--upgrade", "pip"], check=True)  # Python 3.11 brings a pip that knows no dependency groups
    groups = ["--group", f"{ROOT / 'pyproject.toml'}:test"] if testing else []
    # Otherwise HQQ's set-up tries to build CUDA extensions, which are not used here.
    subprocess.run([*pip, "--editable", ROOT, *groups], check=True, cwd=ROOT, env=os.environ | {"DISABLE_CUDA": "1"})


def run(program: str, *arguments: object) -> int:
    try:
        return subprocess.run([PYTHON.with_name(program), *map(str, arguments)], cwd=ROOT).returncode
    except KeyboardInterrupt:  # which reaches the child as well
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
