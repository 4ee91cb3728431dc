"""The user guide: its Markdown files, and the terms of its glossary."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from wina_core.files.paths import resources_folder

_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
_MARKS = re.compile(r"[*`_]")


def folder() -> Path:
    """Return the folder of chapters and pictures; `index.md` is the first chapter."""
    return resources_folder() / "guide"


def anchor(heading: str) -> str:
    """Return the anchor of a heading, as on GitHub: "What is a dense prefix?" -> "what-is-a-dense-prefix"."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@dataclass(frozen=True)
class Term:
    """A term of the glossary."""

    name: str
    text: str
    """Its first paragraph, without markup."""

    @property
    def topic(self) -> str:
        return f"glossary.md#{anchor(self.name)}"


@cache
def terms() -> dict[str, Term]:
    """Return the terms of `glossary.md` by their names in lower case."""
    text = (folder() / "glossary.md").read_text(encoding="utf-8")
    entries = {}
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        name, _, rest = section.partition("\n")
        entries[name.strip().lower()] = Term(name.strip(), _plain(rest.strip().split("\n\n")[0]))
    return entries


def _plain(markdown: str) -> str:
    return " ".join(_MARKS.sub("", _LINK.sub(r"\1", markdown)).split())
