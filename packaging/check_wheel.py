"""Check that the wheel works by itself: build it, install it with pipx or uv, and use it without this checkout.

    python packaging/check_wheel.py [pipx|uv]

Takes some minutes and 4 GB of disk in the folder of temporary files. Needs the package index, once.
"""

import argparse
import os
import sys
import tempfile
import venv
from pathlib import Path

from installed import check_commands, check_server, check_window, environment, run

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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("installer", nargs="?", choices=("pipx", "uv"), default="pipx")
    installer = parser.parse_args().installer
    with tempfile.TemporaryDirectory(prefix="wina-wheel-", ignore_cleanup_errors=True) as folder:
        work = Path(folder)
        try:
            check(build(work, installer), work, installer)
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return 1
    print("The wheel works.")
    return 0


def build(work: Path, installer: str) -> Path:
    """Build the wheel in an isolated environment, check its size, and return it. Raises RuntimeError."""
    print("Build", flush=True)
    venv.create(work / "tools", with_pip=True)
    python = _programs(work / "tools") / _program("python")
    run([python, "-m", "pip", "install", "--quiet", "build", installer], work, dict(os.environ))
    run([python, "-m", "build", "--wheel", "--outdir", work / "dist", ROOT], work, dict(os.environ))
    (wheel,) = (work / "dist").glob("*.whl")
    size = wheel.stat().st_size
    print(f"  {wheel.name}: {size / 1e6:.1f} MB")
    if size > MOST_BYTES:
        raise RuntimeError(f"The wheel has {size / 1e6:.1f} MB, more than {MOST_BYTES / 1e6:.0f} MB.")
    return wheel


def check(wheel: Path, work: Path, installer: str) -> None:
    """Install the wheel and use window, command line and server. Raises RuntimeError if one fails."""
    print("Install", flush=True)
    constraints, package = ROOT / "packaging" / "constraints.txt", f"{wheel}[serve]"
    if installer == "pipx":
        variables = {"PIPX_HOME": str(work / "pipx"), "PIPX_BIN_DIR": str(work / "bin"), "PIPX_DEFAULT_BACKEND": "pip"}
        words = ["--pip-args", f"--constraint {constraints}", package]
        installed = work / "pipx" / "venvs"
    else:
        # uv does not read pip's settings, which may name an index of smaller builds of PyTorch.
        links = {"UV_FIND_LINKS": os.environ["PIP_FIND_LINKS"]} if "PIP_FIND_LINKS" in os.environ else {}
        variables = {"UV_TOOL_DIR": str(work / "uv"), "UV_TOOL_BIN_DIR": str(work / "bin"), **links}
        words = ["--constraints", constraints, f"wina-workbench[serve] @ {wheel.as_uri()}"]
        installed = work / "uv"
    command = ["-m", installer, *(["tool"] if installer == "uv" else []), "install", *words]
    # Otherwise HQQ's set-up tries to build CUDA extensions, which are not used here.
    run(
        [_programs(work / "tools") / _program("python"), *command],
        work,
        {**os.environ, **variables, "DISABLE_CUDA": "1"},
    )
    print("Use", flush=True)
    use = work / "use"
    use.mkdir()
    python = _programs(installed / "wina-workbench") / _program("python")
    print(run([python, "-c", _IMPORTS], use, environment(use)), end="")
    check_commands(work / "bin" / _program("wina"), use)
    run([python, "-c", _LOAD], use, environment(use))
    check_server(work / "bin" / _program("wina"), use)
    check_window(work / "bin" / _program("wina-workbench"), use, {"QT_QPA_PLATFORM": "offscreen"})


def _programs(environment: Path) -> Path:
    return environment / ("Scripts" if os.name == "nt" else "bin")


def _program(name: str) -> str:
    return f"{name}.exe" if os.name == "nt" else name


if __name__ == "__main__":
    sys.exit(main())
