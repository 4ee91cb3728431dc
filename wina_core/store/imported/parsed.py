"""The content of another tool's file, as its parser found it."""

from typing import NamedTuple

from wina_core.records.imports import ImportedPoint, Tool


class Parsed(NamedTuple):
    """Points with the tool that measured them."""

    tool: Tool
    points: tuple[ImportedPoint, ...]
    version: str = ""
    measured: float | None = None
    """Seconds since the epoch."""
    remarks: tuple[str, ...] = ()
    """Sentences on content that was left out."""
