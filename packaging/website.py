"""Build the guide, the API reference and the command reference as a static site in build/site, with every link checked.

    pip install --constraint packaging/constraints.txt --group docs --editable .
    python packaging/website.py

A broken link, a page that the navigation lacks, or an unreadable docstring ends it with an error.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import typer
from typer.cli import get_docs_for_click

import wina_core
from wina_core.cli import app

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "packaging" / "mkdocs.yml"
GUIDE = ROOT / "resources" / "guide"
SOURCE = ROOT / "build" / "site-source"
REFERENCE = "python-reference.md"
COMMANDS = "command-reference.md"
_BESIDE = ("screenshots", "reports")
"""Folders beside the guide that its pages link to; a report's HTML would be at the place of its Markdown page."""


def pages() -> dict[str, str]:
    """Return the text of every page by its name: the guide's, and the references made of docstrings and of help."""
    texts = {}
    for file in sorted(GUIDE.glob("*.md")):
        text = file.read_text(encoding="utf-8")
        for folder in _BESIDE:
            text = text.replace(f"(../{folder}/", f"({folder}/")
        texts[file.name] = text
    entries = "\n\n".join(f"::: wina_core.{name}" for name in wina_core.__all__ if name != "__version__")
    reference = f"# Python reference\n\n[Python](python.md) explains how to use it.\n\n{entries}\n"
    return {**texts, REFERENCE: reference, COMMANDS: command_reference()}


def command_reference() -> str:
    """Return the help of every command."""
    wina = typer.main.get_command(app)
    return get_docs_for_click(obj=wina, ctx=click.Context(wina, info_name="wina"), name="wina")


def main() -> int:
    """Write the pages to build/site-source, build the site, and return the exit status."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    SOURCE.mkdir(parents=True)
    for name, text in pages().items():
        (SOURCE / name).write_text(text, encoding="utf-8")
    for folder in _BESIDE:
        shutil.copytree(ROOT / "resources" / folder, SOURCE / folder, ignore=shutil.ignore_patterns("*.html"))
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--clean", "--config-file", CONFIG]
    return subprocess.run(command, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}).returncode


if __name__ == "__main__":
    sys.exit(main())
