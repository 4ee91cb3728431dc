"""What an export has written."""

from wina_core.records.base import Record


class ExportRecord(Record):
    """A sparse model's folder."""

    folder: str
    bytes: int
    """Size of all its files."""
