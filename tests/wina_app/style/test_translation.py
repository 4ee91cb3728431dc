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
from wina_app.services import guide
from wina_app.style import translation
from wina_app.style.translation import tr

ROOT = Path(__file__).resolve().parents[3]
APP = ROOT / "app" / "wina_app"
FILES = sorted(APP.rglob("*.py"))
METHODS = sorted((ROOT / "wina_core" / "methods").glob("*.py"))
LEAST_TEXTS = 1000
WORD = re.compile(r"[^\W\d_]{3}")
PROSE = re.compile(r"[^\W\d_]{2,}[,;:]? [^\W\d_]{2,}")
SHOWN = {
    *("setText", "setToolTip", "setPlaceholderText", "setAccessibleName", "setAccessibleDescription", "setWindowTitle"),
    *("setSpecialValueText", "setSuffix", "setPrefix", "setTitle", "setStatusTip", "setInformativeText"),
    *("QLabel", "QPushButton", "QAction", "QCheckBox", "QRadioButton", "QGroupBox", "QMenu", "QDockWidget"),
    *("addItem", "addItems", "addAction", "addMenu", "addTab", "addButton", "setHorizontalHeaderLabels"),
    *("QListWidgetItem", "QTableWidgetItem", "text_label", "labelled", "captioned", "add_command", "add_action"),
    *("show_error", "show_notice", "show_problem", "show_failure", "show_empty", "set_primary", "explain_disabled"),
    *(
        "EmptyState",
        "CollapsibleSection",
        "Panel",
        "Bar",
        "BarList",
        "ComboBox",
        "DataPlot",
        "ColourScale",
        "RowTableView",
    ),
    *("submit", "offer_export", "WinaError"),
}
"""What takes words that a person sees, as far as its name tells."""
ASIDE = ("reason", "explanation", "hint", "tip", "button")
"""Keywords under which such words are given."""
ROLES = {"title", "section", "muted", "figure", "failed", "warning"}
"""Of the style sheet: what `text_label` takes after its text."""
KEYS = re.compile(r"(Ctrl|Alt|Shift|Del|Space|Return|Esc|F\d)\b")
NOT_FOR_PEOPLE = {
    "stylesheet.py": "the style sheet",
    "models/plot_script.py": "a program in Python that is written into a file",
    "__main__.py": "the command line, which is English as all of `wina` is",
    "figure.py": "a command line",
    "screenshots.py": "a command line",
    "screenshot_scenes.py": "of the same command line",
}
NAMES = {
    "WINA Workbench": "the program",
    "dense": "a method",
    "demo:calibration": "a text in a specification",
    "demo:heldout": "a text in a specification",
    "plan study.toml": "a file",
    "median ms": "a column of files and of the command line",
    "of roofline %": "a column",
    "dense tokens/s": "a column",
}
"""Names are the same in every language."""
DATA = {
    "The report is ": "what `wina report` prints",
    "The rows of a weight matrix": "a prompt",
    "The capital of France is": "a prompt",
    "Explain in one paragraph": "a prompt",
    "The following example shows": "a prompt",
    "def ": "a prompt",
    "class ": "a prompt",
}
"""What texts begin with that are read or computed with, and not said."""
FOR_DEVELOPERS = {"debug", "info", "warning", "error", "exception", "ValueError", "TypeError"}
"""Log lines, and mistakes in calling."""


def test_no_text_is_left_untranslatable():
    assert [said for file in FILES for said in _untranslatable(file)] == []


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
    assert loaded == {"wina_app", "wina_app.__main__", "wina_app.pages", "wina_app.style.translation"}


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


def _untranslatable(file: Path) -> Iterator[str]:
    """Texts with words that reach a person, as far as can be told, and that are not in `tr`."""
    name = file.relative_to(APP).as_posix()
    if name in NOT_FOR_PEOPLE:
        return
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node, shown in _strings(tree, shown=False):
        words = _words(node)
        said = WORD.search(words) and not KEYS.match(words) and words not in ROLES if shown else PROSE.search(words)
        if said and not _is_known(words, shown=shown):
            yield f"{name}:{node.lineno}: {words!r}"


def _is_known(words: str, *, shown: bool) -> bool:
    """Whether it is a name, data, or stands for a chapter of the glossary."""
    named = words.removesuffix(" \0") in NAMES or any(words.startswith(known) for known in DATA)
    return named or (not shown and words.lower() in guide.terms())


def _strings(node: ast.AST, *, shown: bool) -> Iterator[tuple[ast.Constant | ast.JoinedStr, bool]]:
    """Strings below a node without those in `tr`, in documentation and in logs; and whether each is an argument of what
    shows it."""
    match node:
        case ast.Expr(value=ast.Constant()):
            return
        case ast.AnnAssign(value=value):
            yield from () if value is None else _strings(value, shown=False)
        case ast.FunctionDef(args=arguments, body=body):
            for part in (*arguments.defaults, *filter(None, arguments.kw_defaults), *body):
                yield from _strings(part, shown=False)
        case ast.Constant(value=str()):
            yield node, shown
        case ast.JoinedStr(values=parts):
            yield node, shown
            for part in parts:
                if isinstance(part, ast.FormattedValue):
                    yield from _strings(part.value, shown=shown)
        case ast.Call(func=function, args=arguments, keywords=keywords):
            called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if called == "tr":
                arguments = arguments[2:]
            elif called in FOR_DEVELOPERS:
                arguments = []
            yield from _strings(function, shown=False)
            takes = called in SHOWN
            for argument in arguments:
                yield from _strings(argument, shown=takes)
            for keyword in keywords:
                yield from _strings(keyword.value, shown=takes and keyword.arg in ASIDE)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield from _strings(test, shown=False)
            for branch in (body, orelse):
                yield from _strings(branch, shown=shown)
        case ast.BinOp(left=left, right=right):
            for side in (left, right):
                yield from _strings(side, shown=shown)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            for element in elements:
                yield from _strings(element, shown=shown)
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _strings(child, shown=False)


def _words(node: ast.Constant | ast.JoinedStr) -> str:
    """What a string says of its own."""
    if isinstance(node, ast.Constant):
        return node.value
    return "".join(part.value if isinstance(part, ast.Constant) else "\0" for part in node.values)


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
        [_tool("pyside6-lrelease"), str(source), "-qm", str(target)], check=True, capture_output=True, timeout=60
    )
