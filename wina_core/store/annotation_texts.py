"""Annotations of a run: tags, a note and a pin."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from wina_core.errors import WinaError


class RunAnnotations(NamedTuple):
    """Tags, a note, and whether lists keep the run at their top."""

    tags: tuple[str, ...] = ()
    note: str = ""
    pinned: bool = False


Annotations = Mapping[str, RunAnnotations]
"""By the hashes of the runs."""


def split_tags(text: str) -> tuple[str, ...]:
    """Return the tags of a line with commas between them, each once, in alphabetical order."""
    return tuple(sorted({" ".join(tag.split()) for tag in text.split(",")} - {""}))


def join_tags(tags: Iterable[str]) -> str:
    """Return tags as a line with commas between them. Raises WinaError for a tag with a comma."""
    tags = tuple(tags)
    if broken := [tag for tag in tags if "," in tag]:
        raise WinaError(f'A tag cannot have a comma, but "{broken[0]}" has one; write it as two tags.')
    return ", ".join(split_tags(",".join(tags)))
