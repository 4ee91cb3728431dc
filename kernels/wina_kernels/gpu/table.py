"""The divisions of work that ship, by target, shape, rows, bits and sparsity: `tuned.json`.

`kernels/benchmarks/run.py gpu` writes what it has measured into the table. Shapes and targets that it does not have are
measured where they occur. A table that cannot be read, and tiles that no longer ship, are left out with a warning.
"""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Iterable
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

import torch

from wina_kernels.gpu.configs import Config, Tile, tiles
from wina_kernels.gpu.operands import bits_of
from wina_kernels.tuning import write_atomically
from wina_kernels.weights import WeightT

FILE = Path(__file__).with_name("tuned.json")
_BAND = 0.1
"""Largest distance of a sparsity from a measured one."""


@dataclass(frozen=True)
class Case:
    """A product on a device: everything that its best division of work depends on, but for the sparsity."""

    target: str
    """`target_of` the device."""
    inputs: int
    outputs: int
    rows: int
    bits: int
    most_shares: int


@dataclass(frozen=True)
class Entry:
    """The fastest division of a case at a sparsity."""

    case: Case
    dropped: float
    config: Config
    device: str
    """Name of the device that it was measured on."""

    @classmethod
    def of(cls, line: dict[str, Any]) -> Entry:
        """Return the entry of a line of the file; raise ValueError, KeyError or TypeError if it is none that ships."""
        case, tile = Case(**line["case"]), Tile(*line["tile"])
        if tile not in tiles(case.rows, case.bits):
            raise ValueError(f"{tile} does not ship")
        return cls(case, float(line["dropped"]), Config(tile, line["shares"]), str(line["device"]))

    @property
    def line(self) -> dict[str, Any]:
        """The entry's line in the file."""
        return {
            "case": asdict(self.case), "dropped": self.dropped, "tile": list(astuple(self.config.tile)),
            "shares": self.config.shares, "device": self.device,
        }  # fmt: skip


def case_of(weight_t: WeightT, rows: int, most_shares: int) -> Case:
    """Return the case of a product with W^T [n, m]; rows count as the next power of 2."""
    n, m = weight_t.shape
    return Case(target_of(weight_t.device), n, m, 1 << (rows - 1).bit_length(), bits_of(weight_t), most_shares)


@functools.cache
def target_of(device: torch.device) -> str:
    """Return the architecture of a device, such as "sm_90" or "gfx942"; empty for a processor."""
    if device.type != "cuda":
        return ""
    if torch.version.hip is not None:
        return str(torch.cuda.get_device_properties(device).gcnArchName).partition(":")[0]
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"


def shipped(case: Case, dropped: float, file: Path = FILE) -> Config | None:
    """Return the division measured for a case at the nearest sparsity, at most 0.1 away; None without one."""
    near = [entry for entry in _by_case(file).get(case, ()) if abs(entry.dropped - dropped) < _BAND + 1e-9]
    return min(near, key=lambda entry: abs(entry.dropped - dropped)).config if near else None


def read(file: Path = FILE) -> list[Entry]:
    """Return the usable entries of a table; none, with a warning, if the file is damaged."""
    if not file.exists():
        return []
    try:
        lines = list(json.loads(file.read_text(encoding="utf-8"))["entries"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        warnings.warn(f"{file} is no table of tuned kernels ({error}); they are tuned anew.", stacklevel=2)
        return []
    found, unusable = [], 0
    for line in lines:
        try:
            found.append(Entry.of(line))
        except (ValueError, KeyError, TypeError):
            unusable += 1
    if unusable:
        warnings.warn(f"{unusable} of {len(lines)} entries of {file} are of other versions; run the benchmark "
                      "`gpu` again to replace them.", stacklevel=2)  # fmt: skip
    return found


def write(entries: Iterable[Entry], file: Path = FILE) -> None:
    """Add entries to a table, in place of those of the same case and sparsity; raise OSError on failure."""
    every = {(entry.case, entry.dropped): entry for entry in (*read(file), *entries)}
    ordered = sorted(every.values(), key=lambda entry: (astuple(entry.case), entry.dropped))
    lines = ",\n  ".join(json.dumps(entry.line) for entry in ordered)
    write_atomically(file, f'{{"entries": [\n  {lines}\n]}}\n' if ordered else '{"entries": []}\n')
    _by_case.cache_clear()


@functools.cache
def _by_case(file: Path) -> dict[Case, list[Entry]]:
    found: dict[Case, list[Entry]] = {}
    for entry in read(file):
        found.setdefault(entry.case, []).append(entry)
    return found
