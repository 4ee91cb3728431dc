"""Build a bundle for the system that this runs on: a folder, and on macOS an application, in `dist`.

    python packaging/bundle/build.py

Needs the workbench with the dependency group `bundle` in the Python that runs this.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "dist" / "wina-workbench"


def main() -> int:
    """Build the kernels and the bundle, print its size, and return the exit status."""
    if importlib.util.find_spec("PyInstaller") is None:
        print(
            "PyInstaller is not installed here: run `pip install --group bundle --editable .` first.", file=sys.stderr
        )
        return 2
    # Unchecked: without a compiler the bundle goes without kernels.
    subprocess.run([sys.executable, ROOT / "kernels" / "wina_kernels" / "native" / "build.py"], check=False)
    spec = Path(__file__).with_name("wina.spec")
    options = ["--noconfirm", "--distpath", ROOT / "dist", "--workpath", ROOT / "build" / "bundle"]
    command = [sys.executable, "-m", "PyInstaller", *options, spec]
    status = subprocess.run(command, cwd=ROOT, env={**os.environ, "QT_QPA_PLATFORM": "offscreen"}).returncode
    if status == 0:
        size = sum(file.stat().st_size for file in FOLDER.rglob("*") if file.is_file() and not file.is_symlink())
        print(f"{FOLDER}: {size / 1e6:.0f} MB")
    return status


if __name__ == "__main__":
    sys.exit(main())
