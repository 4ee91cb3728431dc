"""The notebooks run from the first cell to the last, each in a program of its own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from wina_core.files.paths import resources_folder

NOTEBOOKS = sorted((resources_folder() / "notebooks").glob("*.ipynb"))


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_runs(notebook: Path) -> None:
    cells = [each for each in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if each["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in cells), "it is kept without outputs"
    lines = (line for cell in cells for line in (*cell["source"], "\n"))
    program = "".join("\n" if line.startswith("%") else line for line in lines)  # IPython's commands
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
