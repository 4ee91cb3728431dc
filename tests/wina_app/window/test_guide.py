"""The user guide: what it links to is there, its commands are understood, and its terms fit into a tooltip."""

import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from wina_app.services import guide
from wina_app.window.help_dock import HelpView

from wina_core.specs.plans import SparsityPlan
from wina_core.studies.expand import count_runs, load_study

CHAPTERS = sorted(guide.folder().glob("*.md"))
MOST_WORDS = 45
"""Of what a tooltip shows of a term."""
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def _text(chapter: Path) -> str:
    return chapter.read_text(encoding="utf-8")


@cache
def _anchors(chapter: Path) -> frozenset[str]:
    return frozenset(guide.anchor(heading) for heading in _HEADING.findall(_text(chapter)))


def _lead_nowhere(chapter: Path) -> list[str]:
    wrong = []
    for link in _LINK.findall(_text(chapter)):
        if link.startswith("https://"):
            continue
        name, _, heading = link.partition("#")
        target = (chapter.parent / name).resolve() if name else chapter
        if not target.is_file() or (heading and heading not in _anchors(target)):
            wrong.append(link)
    return wrong


def test_the_first_page_names_every_chapter_once() -> None:
    linked = re.findall(r"^\d+\. \[[^\]]+\]\(([^)]+)\)", _text(guide.folder() / "index.md"), re.MULTILINE)
    assert sorted(linked) == sorted(chapter.name for chapter in CHAPTERS if chapter.name != "index.md")


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda chapter: chapter.name)
def test_a_chapter_is_plain_markdown_with_one_title_links_that_lead_somewhere_and_whole_tables(chapter: Path) -> None:
    """HTML is shown as text by one of a browser and a forge, and of two equal headings only one can be gone to. A row
    after a blank line belongs to no table, unless it is the header of another."""
    text = _text(chapter)
    assert _lead_nowhere(chapter) == []
    assert re.findall(r"^\|[^\n]*\n\n+(\|[^\n]*)\n(?!\| ?:?-)", text, re.MULTILINE) == []
    for table in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        assert len({row.count("|") for row in table.splitlines()}) == 1, table
    prose = re.sub(r"`[^`]*`", "", re.sub(r"^ {4}.*$", "", text, flags=re.MULTILINE))
    headings = [guide.anchor(heading) for heading in _HEADING.findall(prose)]
    assert re.search(r"</?[a-z]+[ >/]", prose) is None
    assert text.startswith("# ")
    assert len(re.findall(r"^# ", prose, re.MULTILINE)) == 1
    assert len(headings) == len(set(headings))


def test_terms_are_in_the_order_of_the_alphabet_and_fit_into_a_tooltip() -> None:
    terms = list(guide.terms().values())
    names = [term.name.casefold() for term in terms]
    assert len(terms) > 50
    assert names == sorted(names)
    assert {term.name: len(term.text.split()) for term in terms if not 5 <= len(term.text.split()) <= MOST_WORDS} == {}


_IN_PLACE = {"Heatmaps", "Jobs", "Tables and plots"}
"""Headings of keys that mean something in one place of the window alone, which no action has."""
_KEYS = re.compile(r"(?:(?:Ctrl|Alt|Shift)\+)+\S+?(?=[ ,]|$)|F\d+", re.MULTILINE)


def _keys_told() -> dict[str, set[str]]:
    """Heading of the chapter on the keyboard: what the first columns of its tables name."""
    parts = re.split(r"^## ", _text(guide.folder() / "keyboard.md"), flags=re.MULTILINE)[1:]
    cells = {part.partition("\n")[0]: re.findall(r"^\| (.*?) \|", part, re.MULTILINE) for part in parts}
    return {heading: set(_KEYS.findall("\n".join(keys))) for heading, keys in cells.items()}


@pytest.mark.all_pages
def test_the_keys_that_are_told_are_those_of_the_window(application) -> None:
    told, window = _keys_told(), application.window
    shown = set(window.current_page.commands)
    actions = {*window.menus.every(), *window.actions()} - shown
    everywhere = {keys.toString() for action in actions for keys in action.shortcuts()} - {""}
    of_pages = {action.shortcut().toString() for page in window.pages.values() for action in page.commands}
    assert everywhere <= told["Everywhere"]
    assert set().union(*(keys for name, keys in told.items() if name not in _IN_PLACE)) <= everywhere | of_pages


def _example(heading: str) -> str:
    """The block of text under a heading of the chapter on files."""
    part = _text(guide.folder() / "files.md").partition(f"## {heading}\n")[2]
    return re.sub(r"^ {4}", "", re.search(r"(?:^(?: {4}.*)?\n)*^ {4}.*$", part, re.MULTILINE)[0], flags=re.MULTILINE)


def test_the_study_and_the_plan_that_are_shown_are_ones(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(_example("Studies (TOML or JSON)"), encoding="utf-8")
    study = load_study(tmp_path / "study.toml")
    plan = SparsityPlan.model_validate_json(_example("Plans (JSON)"))
    assert count_runs(study) == 1 + 2 * 4  # dense once, the others at each sparsity
    assert plan.budget == pytest.approx((2 * 0.5 + 0.3) / 3)


def _commands() -> list[str]:
    text = "".join(_text(guide.folder() / page) for page in ("command-line.md", "machines.md", "slurm.md", "ray.md"))
    return re.findall(r"^ {4}wina (.+)$", text, re.MULTILINE)


@cache
def _wina():
    import typer

    from wina_core.cli import app

    return typer.main.get_command(app)


def _parse(line: str) -> str:
    """Read a command as the command line would, without doing it; returns its name."""
    command, arguments, name = _wina(), shlex.split(line), []
    while arguments and arguments[0] in getattr(command, "commands", {}):
        name.append(arguments.pop(0))
        command = command.commands[name[-1]]
    command.make_context(" ".join(name), arguments)
    return " ".join(name)


@pytest.mark.parametrize("line", _commands())
def test_a_command_of_the_guide_is_one_that_wina_understands(line: str) -> None:
    _parse(line)


def test_every_command_of_wina_is_in_the_guide() -> None:
    def names(command, path: tuple[str, ...] = ()) -> set[str]:
        inner = getattr(command, "commands", {})
        own = {" ".join(path)} if not inner or command.invoke_without_command else set()
        return own.union(*(names(each, (*path, name)) for name, each in inner.items() if not each.hidden))

    assert names(_wina()) <= {_parse(line) for line in _commands()}


def test_the_help_dock_shows_every_chapter_and_goes_to_every_heading(qtbot) -> None:
    view = HelpView()
    qtbot.addWidget(view)
    for chapter in CHAPTERS:
        view.show_topic(chapter.name)
        shown = view.text.toPlainText()
        assert view.chapters.currentData() == chapter.name
        assert "](" not in shown, "a link or picture stands there as text"
        headings = [block.text() for block in _blocks(view.text.document()) if block.blockFormat().headingLevel()]
        assert {guide.anchor(heading) for heading in headings} == _anchors(chapter)


def _blocks(document):
    block = document.firstBlock()
    while block.isValid():
        yield block
        block = block.next()
