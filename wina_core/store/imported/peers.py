"""The fastest imported configuration that a user could choose instead, on the same machine and in the same bits."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from wina_core.records.imports import ImportedPoint, StoredImport
from wina_core.specs import ModelSource
from wina_core.store.imported.metrics import date_text

WIDTHS = (2, 3, 4, 5, 6, 8, 16, 32)
"""Bits by which configurations are compared; scales and zeros come on top."""
_NAMED = re.compile(
    r"(?<![a-z0-9])(?:(?:i?q|int|w)([2-8])(?![0-9])|(?:bf|f|fp)(16|32)(?![0-9])|([2-8])[ -]?bits?(?![a-z]))",
    re.IGNORECASE,
)
_THREADS = re.compile(r", [0-9][0-9 of]* threads$")
"""End of a processor's name, as in "AMD EPYC, 4 of 8 threads"."""


class ImportedPeer(NamedTuple):
    """An imported point with the file that it is from."""

    stored: StoredImport
    point: ImportedPoint

    @property
    def name(self) -> str:
        return f"{self.point.name} (imported)"

    @property
    def origin(self) -> str:
        """Return the point's name with the tool, file and date that it is from."""
        content = self.stored.content
        tool = self.point.settings.get("tool", "") if content.tool == "table" else content.tool
        origins = filter(None, (tool, f"imported from {content.file}", date_text(self.stored)))
        return f"{self.point.name} ({', '.join(origins)})"


def width_of(point: ImportedPoint) -> int | None:
    """Return the bits that the point's name states, as Q4_0 or F16, or else those nearest to its bits per weight."""
    match = _NAMED.search(point.name.replace("_", "-"))
    if match is not None:
        return int(match[1] or match[2] or match[3])
    bits = point.metrics.get("bits")
    return None if bits is None else nearest_width(bits.value)


def nearest_width(bits: float) -> int:
    # Halves go to the lower width: scales add to it.
    return min(WIDTHS, key=lambda width: (abs(width - bits), width))


def is_same_machine(stated: str, hardware: str) -> bool:
    """Return whether a file states the processor or GPU of an `Environment.hardware`, with any number of threads."""
    one, other = (" ".join(text.lower().split()) for text in (stated, without_threads(hardware)))
    return bool(one) and one == other


def without_threads(hardware: str) -> str:
    return _THREADS.sub("", hardware)


def fastest_peer(imports: Iterable[StoredImport], model: ModelSource, hardware: str, width: int) -> ImportedPeer | None:
    """Return the fastest decoding of this model on this hardware in this width; None without any."""
    peers = [
        ImportedPeer(stored, point)
        for stored in imports
        for point in stored.content.points
        if stored.is_of(model)
        and "tokens_per_s" in point.metrics
        and width_of(point) == width
        and is_same_machine(point.hardware, hardware)
    ]
    return max(peers, key=lambda peer: peer.point.metrics["tokens_per_s"].value, default=None)
