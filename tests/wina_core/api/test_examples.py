"""The examples run from the first line to the last, each with names of its own, one after the other in one program."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from wina_core.files.paths import resources_folder

EXAMPLES = resources_folder() / "examples"
PROGRAM = """
import json, sys
for name, source in json.load(sys.stdin).items():
    exec(compile(source, name, "exec"), {"__name__": "__main__"})
"""


def source_of(example: Path) -> str:
    """Return the Python of a script or of a notebook's cells, on half of the tokens."""
    if example.suffix == ".py":
        return on_fewer_tokens(example.read_text(encoding="utf-8"))
    cells = [cell for cell in json.loads(example.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in cells), "it is kept without outputs"
    lines = (line for cell in cells for line in (*cell["source"], "\n"))
    return on_fewer_tokens("".join("\n" if line.startswith("%") else line for line in lines))  # IPython's commands


def on_fewer_tokens(source: str) -> str:
    assert "1024" in source
    return source.replace("1024", "512")


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.[pi]*")), ids=lambda example: example.name)
def test_an_example_is_python_and_kept_without_outputs(example: Path) -> None:
    compile(source_of(example), example.name, "exec")


@pytest.mark.nightly  # by day test_api.py has the examples of the functions
@pytest.mark.usefixtures("home")
def test_the_examples_run() -> None:
    sources = json.dumps({file.name: source_of(file) for file in sorted(EXAMPLES.glob("*.[pi]*"))})
    done = subprocess.run([sys.executable, "-c", PROGRAM], input=sources, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "6 of 6 measurements are stored and reused" in done.stdout, "the command line has the rule, too"
