"""The notebooks run from the first cell to the last, each with names of its own, one after the other in one program."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from wina_core.files.paths import resources_folder

NOTEBOOKS = sorted((resources_folder() / "notebooks").glob("*.ipynb"))
PROGRAM = """
import json, sys
for name, source in json.load(sys.stdin).items():
    exec(compile(source, name, "exec"), {"__name__": "__main__"})
"""


def source_of(notebook: Path) -> str:
    """The Python of a notebook's cells, on half of the tokens."""
    cells = [each for each in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if each["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in cells), "it is kept without outputs"
    lines = (line for cell in cells for line in (*cell["source"], "\n"))
    source = "".join("\n" if line.startswith("%") else line for line in lines)  # IPython's commands
    assert "1024" in source
    return source.replace("1024", "512")


@pytest.mark.usefixtures("home")
def test_the_notebooks_run() -> None:
    sources = json.dumps({notebook.name: source_of(notebook) for notebook in NOTEBOOKS})
    done = subprocess.run([sys.executable, "-c", PROGRAM], input=sources, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "6 of 6 measurements are stored and reused" in done.stdout, "the command line has the rule, too"
