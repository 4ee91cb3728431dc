"""A report's table of words."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Plain:
    """A table of words."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
