"""Speed and quality of one GGUF file, which llama.cpp's tools write into two files, as one point."""

from collections.abc import Iterable
from typing import NamedTuple

from wina_core.records.imports import ImportedPoint, ImportedValue, StoredImport
from wina_core.store.imported.table_rows import date_text

_SUFFIX = ".gguf"


class JoinedPoint(NamedTuple):
    """An imported point with its files; those of a GGUF file's speed also have its quality."""

    name: str
    metrics: dict[str, ImportedValue]
    stored: StoredImport
    """The file of its speed, or its only one."""
    source: str
    """Tool, file and date of each file that it is from."""


def join_points(imports: Iterable[StoredImport]) -> list[JoinedPoint]:
    """Return the points of files on one model, the last imported first.

    A point with a decoding speed gets the metrics that it lacks from points of the same GGUF file name without one, the
    last imported first, and these are left out then. All others stay as they are.
    """
    found = [(stored, point) for stored in imports for point in stored.content.points]
    timed = {point.name for _, point in found if _is_timed(point)}
    qualities: dict[str, list[tuple[StoredImport, ImportedPoint]]] = {}
    for stored, point in found:
        if point.name in timed and not _is_timed(point) and point.name.lower().endswith(_SUFFIX):
            qualities.setdefault(point.name, []).append((stored, point))
    taken = {id(point) for each in qualities.values() for _, point in each}
    return [
        _joined(stored, point, qualities.get(point.name, []) if _is_timed(point) else [])
        for stored, point in found
        if id(point) not in taken
    ]


def _is_timed(point: ImportedPoint) -> bool:
    return "tokens_per_s" in point.metrics


def _joined(
    stored: StoredImport, point: ImportedPoint, others: Iterable[tuple[StoredImport, ImportedPoint]]
) -> JoinedPoint:
    metrics, files = dict(point.metrics), [stored]
    for file, other in others:
        if new := other.metrics.keys() - metrics.keys():
            metrics |= {name: other.metrics[name] for name in new}
            files.append(file)
    source = "; ".join(f"{file.content.tool}, {file.content.file}, {date_text(file)}" for file in files)
    return JoinedPoint(point.name, metrics, stored, source)
