"""Check that the wheel works by itself: build it, install it with pipx, and use it without this checkout.

    python packaging/check_wheel.py

Takes some minutes and 4 GB of disk in the folder of temporary files. Needs the package index, once.
"""

import os
import sys
import tempfile
import venv
from pathlib import Path

from installed import check_commands, check_window, environment, run

ROOT = Path(__file__).resolve().parent.parent
MOST_BYTES = 25_000_000
_IMPORTS = """
import sys
from pathlib import Path
import wina_app, wina_core, wina_kernels
from wina_app.services import guide
from wina_core.files.paths import resources_folder
from wina_app.pages.sparsity.presets import presets
from wina_kernels.native import build
for package in (wina_app, wina_core, wina_kernels):
    assert Path(package.__file__).is_relative_to(sys.prefix), package.__file__
assert resources_folder().is_relative_to(sys.prefix), resources_folder()
pages = sorted(path.name for path in guide.folder().glob("*.md"))
assert "index.md" in pages and guide.terms() and presets()
print(f"  {len(pages)} pages of the guide, {len(presets())} presets, native kernels: {build.library().exists()}")
"""


_LOAD = """
import wina_core.hf
from transformers import AutoModelForCausalLM
assert AutoModelForCausalLM.from_pretrained("sparse").wina.gates is not None
"""
"""Loads the sparse model that `check_commands` exports."""


def main() -> int:
    """Run all checks in a temporary folder, print the first failure, and return the exit status."""
    with tempfile.TemporaryDirectory(prefix="wina-wheel-", ignore_cleanup_errors=True) as folder:
        work = Path(folder)
        try:
            check(build(work), work)
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return 1
    print("The wheel works.")
    return 0


def build(work: Path) -> Path:
    """Build the wheel in an isolated environment, check its size, and return it. Raises RuntimeError."""
    print("Build", flush=True)
    venv.create(work / "tools", with_pip=True)
    python = _programs(work / "tools") / _program("python")
    run([python, "-m", "pip", "install", "--quiet", "build", "pipx"], work, dict(os.environ))
    run([python, "-m", "build", "--wheel", "--outdir", work / "dist", ROOT], work, dict(os.environ))
    (wheel,) = (work / "dist").glob("*.whl")
    size = wheel.stat().st_size
    print(f"  {wheel.name}: {size / 1e6:.1f} MB")
    if size > MOST_BYTES:
        raise RuntimeError(f"The wheel has {size / 1e6:.1f} MB, more than {MOST_BYTES / 1e6:.0f} MB.")
    return wheel


def check(wheel: Path, work: Path) -> None:
    """Install the wheel and use the window and the command line. Raises RuntimeError where one fails."""
    print("Install", flush=True)
    pipx = {"PIPX_HOME": str(work / "pipx"), "PIPX_BIN_DIR": str(work / "bin"), "PIPX_DEFAULT_BACKEND": "pip"}
    constraints = f"--constraint {ROOT / 'packaging' / 'constraints.txt'}"
    tools = _programs(work / "tools") / _program("python")
    # Otherwise HQQ's set-up tries to build CUDA extensions, which are not used here.
    variables = {**os.environ, **pipx, "DISABLE_CUDA": "1"}
    run([tools, "-m", "pipx", "install", "--pip-args", constraints, wheel], work, variables)
    print("Use", flush=True)
    use = work / "use"
    use.mkdir()
    programs = _programs(work / "pipx" / "venvs" / "wina-workbench")
    print(run([programs / _program("python"), "-c", _IMPORTS], use, environment(use)), end="")
    check_commands(work / "bin" / _program("wina"), use)
    run([programs / _program("python"), "-c", _LOAD], use, environment(use))
    check_window(work / "bin" / _program("wina-workbench"), use, {"QT_QPA_PLATFORM": "offscreen"})


def _programs(environment: Path) -> Path:
    return environment / ("Scripts" if os.name == "nt" else "bin")


def _program(name: str) -> str:
    return f"{name}.exe" if os.name == "nt" else name


if __name__ == "__main__":
    sys.exit(main())
