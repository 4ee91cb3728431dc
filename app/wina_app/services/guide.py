"""The user guide: Markdown files that the Help dock shows and a forge shows as well."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from wina_core.files.paths import resources_folder

_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
_MARKS = re.compile(r"[*`_]")


def folder() -> Path:
    """Where its files and pictures are; `index.md` is the first one."""
    return resources_folder() / "guide"


def anchor(heading: str) -> str:
    """The name that a forge gives to a heading: "What is a dense prefix?" -> "what-is-a-dense-prefix"."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@dataclass(frozen=True)
class Term:
    """A term of the field as the glossary explains it."""

    name: str
    text: str
    """Its first paragraph, without markup."""

    @property
    def topic(self) -> str:
        """Where in the guide it is."""
        return f"glossary.md#{anchor(self.name)}"


@cache
def terms() -> dict[str, Term]:
    """Every term of `glossary.md`, by its name in lower case."""
    text = (folder() / "glossary.md").read_text(encoding="utf-8")
    found = {}
    for part in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        name, _, rest = part.partition("\n")
        found[name.strip().lower()] = Term(name.strip(), _plain(rest.strip().split("\n\n")[0]))
    return found


def _plain(markdown: str) -> str:
    return " ".join(_MARKS.sub("", _LINK.sub(r"\1", markdown)).split())
