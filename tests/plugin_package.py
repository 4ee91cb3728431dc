"""Packages that add to the workbench, installed in a folder as pip installs them."""

import shutil
import tomllib
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from wina_core.files.paths import resources_folder

TEMPLATE = resources_folder() / "examples" / "plugin"


def install_template(folder: Path) -> None:
    """Copy the template's modules to a folder, with the metadata that pip makes of its pyproject.toml."""
    project = tomllib.loads((TEMPLATE / "pyproject.toml").read_text())["project"]
    shutil.copytree(TEMPLATE / "wina_example", folder / "wina_example", ignore=shutil.ignore_patterns("__pycache__"))
    install(folder, project["name"], project["entry-points"], *project["dependencies"], version=project["version"])


def install(
    folder: Path, name: str, groups: Mapping[str, Mapping[str, str]], *needs: str, version: str = "2.0", code: str = ""
) -> None:
    """Write a package's metadata, and its one module of the package's name where it has code."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {n}" for n in needs)]
    (info / "METADATA").write_text("\n".join(lines) + "\n")
    points = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in own.items()) for group, own in groups.items()]
    (info / "entry_points.txt").write_text("\n".join(points))
    if code:
        (folder / f"{name}.py").write_text(code)


def offer(monkeypatch: pytest.MonkeyPatch, plugins: Any, **values: str) -> None:
    """Let plugins of one kind find these entry points alone."""
    group = f"wina.{plugins.kind}s"
    monkeypatch.setitem(
        vars(plugins), "_points", {name: EntryPoint(name, value, group) for name, value in values.items()}
    )
    monkeypatch.setattr(plugins, "_loaded", {})
    monkeypatch.setattr(plugins, "_left_out", [])
