"""Every text of the window can be translated, and one that is translated is shown."""

import ast
import json
import re
import shutil
import string
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QCoreApplication, QLocale
from wina_app.style import translation
from wina_app.style.translation import tr

ROOT = Path(__file__).resolve().parents[3]
APP = ROOT / "app" / "wina_app"
FILES = sorted(APP.rglob("*.py"))
METHODS = sorted((ROOT / "wina_core" / "methods").glob("*.py"))
LEAST_TEXTS = 1000


def test_texts_are_literals_that_are_given_all_that_they_name():
    assert [said for file in FILES for call in _calls(file) for said in _faults(file, call)] == []


def test_every_text_is_found_by_lupdate(tmp_path: Path):
    found = _lupdate(tmp_path)
    assert found == {(text, one) for file in FILES + METHODS for call in _calls(file) for text, one in (_texts(call),)}
    assert len(found) >= LEAST_TEXTS


def test_the_window_shows_the_translation(home: Path):
    environment = {"PYTHONPATH": f"{ROOT / 'app'}:{ROOT}", "QT_QPA_PLATFORM": "offscreen", "WINA_HOME": str(home)}
    program = [sys.executable, "-m", "tests.wina_app.pseudo_translation"]
    done = subprocess.run(program, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout.splitlines()[-1])
    assert shown["bracketed"] >= 300, "of the labels that can be seen"
    assert shown["bare"] == []


def test_the_translation_is_there_before_what_has_texts_is_imported():
    program = "import json, sys, wina_app.__main__; print(json.dumps([*sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": f"{ROOT / 'app'}:{ROOT}"}, cwd=ROOT, capture_output=True
    )
    loaded = {name for name in json.loads(done.stdout) if name.startswith("wina_app")}
    assert loaded == {"wina_app", "wina_app.__main__"}


def test_numbers_are_told_in_the_forms_of_english():
    assert [tr("{n} runs", "{n} run", n) for n in (0, 1, 2, 12_345)] == ["0 runs", "1 run", "2 runs", "12,345 runs"]


def test_a_translation_beside_the_resources_is_installed(qapp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With the forms of its language's numbers, of which Polish has three."""
    _release(tmp_path / "translations" / "wina_pl.qm", tmp_path)
    monkeypatch.setattr(translation, "resources_folder", lambda: tmp_path)
    before = qapp.children()
    translation.install(qapp, QLocale("de_DE"))
    assert tr("Quit") == "Quit", "there is no German"
    translation.install(qapp, QLocale("pl_PL"))
    try:
        assert tr("Quit") == "Zakończ"
        assert tr("Not finished yet: {jobs}.", jobs="3") == "Jeszcze trwa: 3."
        assert [tr("{n} jobs", "{n} job", n) for n in (1, 2, 5)] == ["1 zadanie", "2 zadania", "5 zadań"]
    finally:
        for translator in (child for child in qapp.children() if child not in before):
            QCoreApplication.removeTranslator(translator)
            translator.deleteLater()
    assert tr("Quit") == "Quit"


# ---- reading the sources --------------------------------------------------------------------------------------------


def _calls(file: Path) -> list[ast.Call]:
    """All calls of `tr`, but for the one that it is made of."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "tr"]


def _texts(call: ast.Call) -> tuple[str, str]:
    """The text, and what is said of one."""
    found = [argument.value for argument in call.args[:2]]
    return (found[0], found[1] if len(found) > 1 else "")


def _faults(file: Path, call: ast.Call) -> Iterator[str]:
    place = f"{file.relative_to(APP)}:{call.lineno}"
    if not all(isinstance(argument, ast.Constant) for argument in call.args[:2]):
        yield f"{place}: not a literal"
        return
    if len(call.args) not in (1, 3) or any(keyword.arg is None for keyword in call.keywords):
        yield f"{place}: a text, or a text, what is said of one and the number; then names and their values"
        return
    given = {keyword.arg for keyword in call.keywords} | ({"n"} if len(call.args) == 3 else set())
    named = {name for text in _texts(call) if given for _, name, _, _ in string.Formatter().parse(text) if name}
    if named != given:
        yield f"{place}: names {sorted(named)}, is given {sorted(given)}"
    if not given and re.search(r"{\w+}", _texts(call)[0]):
        yield f"{place}: is given nothing"


# ---- Qt's tools -----------------------------------------------------------------------------------------------------


def _tool(name: str) -> str:
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name}, which PySide6 brings, is not installed")
    return found


def _lupdate(folder: Path) -> set[tuple[str, str]]:
    """(text, what is said of one) of all that lupdate finds, without a warning."""
    target = folder / "texts.ts"
    command = [_tool("pyside6-lupdate"), *map(str, FILES + METHODS), "-ts", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "warning" not in (done.stdout + done.stderr).lower(), done.stdout + done.stderr
    (context,) = ElementTree.parse(target).getroot().iter("context")
    assert not context.findtext("name")
    return {(message.findtext("source"), message.findtext("comment", "")) for message in context.iter("message")}


def _release(target: Path, folder: Path) -> None:
    """A translation of three texts into Polish, as a translator would make it."""
    source = folder / "wina_pl.ts"
    source.write_text(
        """<?xml version="1.0" encoding="utf-8"?><!DOCTYPE TS><TS version="2.1" language="pl_PL"><context><name></name>
        <message><source>Quit</source><translation>Zakończ</translation></message>
        <message><source>Not finished yet: {jobs}.</source><translation>Jeszcze trwa: {jobs}.</translation></message>
        <message numerus="yes"><source>{n} jobs</source><comment>{n} job</comment><translation>
        <numerusform>{n} zadanie</numerusform><numerusform>{n} zadania</numerusform><numerusform>{n} zadań</numerusform>
        </translation></message></context></TS>""",
        encoding="utf-8",
    )
    target.parent.mkdir()
    subprocess.run(
        [_tool("pyside6-lrelease"), str(source), "-qm", str(target)], check=True, capture_output=True, timeout=120
    )
