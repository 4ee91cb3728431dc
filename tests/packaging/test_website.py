"""The site has every page of the guide, and a reference of every public name."""

import re
import subprocess
import sys

import website
import yaml

import wina_core


def test_the_navigation_names_every_page_once() -> None:
    configuration = yaml.safe_load(website.CONFIG.read_text(encoding="utf-8"))
    named = [next(iter(entry.values())) if isinstance(entry, dict) else entry for entry in configuration["nav"]]
    assert sorted(named) == sorted(website.pages())
    assert configuration["strict"]


def test_the_reference_has_every_public_name() -> None:
    names = re.findall(r"^::: wina_core\.(\w+)$", website.pages()[website.REFERENCE], re.MULTILINE)
    assert sorted(names) == sorted({*wina_core.__all__} - {"__version__"})


def test_the_reference_has_every_command_with_its_options() -> None:
    text = website.pages()[website.COMMANDS]
    commands = subprocess.run([sys.executable, "-m", "wina_core.cli", "--help"], capture_output=True, text=True).stdout
    names = re.findall(r"^│ ([a-z][a-z-]+)  ", commands, re.MULTILINE)
    assert len(names) > 20
    assert {name for name in names if f"## `wina {name}`" not in text} == set()
    assert "`--sparsity" in text.split("## `wina eval`")[1].split("## `wina")[0]


def test_pages_reach_the_folders_beside_the_guide() -> None:
    links = [link for text in website.pages().values() for link in re.findall(r"\]\((\.\./[^)]+)\)", text)]
    assert links == []
