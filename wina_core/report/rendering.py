"""The Jinja templates of reports and model cards.

All that an expression of a template gives is escaped for the template's language, so no template can forget to.
"""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from wina_core.files.tables import latex_text
from wina_core.report.layout import ABSENT, MISSES

if TYPE_CHECKING:
    from jinja2 import Environment

_FOLDER = Path(__file__).with_name("templates")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&@]|:(?=//)|(?<=www)\.)", re.IGNORECASE)
"""Characters that Markdown reads, those of links without brackets included."""
_LATEX = {"±": r"$\pm$", MISSES: r"$\dagger$", ABSENT: "--"}
_BLANK_LINES = re.compile(r"\n{3,}")


def render_template(template: str, **values: object) -> str:
    """Return a template of `templates/`, filled; its suffix before .j2 names the language to escape values for."""
    language = template.split(".")[-2]
    text = _environment(language).get_template(template).render(values)
    return text if language == "html" else _BLANK_LINES.sub("\n\n", text)


@cache
def _environment(language: str) -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # only for reports
    from markupsafe import Markup, escape

    escapes: dict[str, Callable[[str], str]] = {"html": escape, "md": markdown_line, "tex": _latex_line}

    def finalize(value: object) -> Markup:
        return value if isinstance(value, Markup) else Markup(escapes[language](str(value)))

    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,  # so that macros give Markup, which is not escaped again
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["line"] = lambda text: Markup(one_line(text))
    return environment


def one_line(text: str) -> str:
    """Return a text as one line of printable characters."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def markdown_line(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", one_line(text))


def _latex_line(text: str) -> str:
    escaped = latex_text(text)
    for character, command in _LATEX.items():
        escaped = escaped.replace(character, command)
    return escaped
