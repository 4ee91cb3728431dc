"""Division of the work among programs: the shipped tiles, the default, tuning's candidates, and the table of the
fastest.

The choice is explicit: another division adds in another order, and the same input must give the same bits in every
process. `tuned.json` has the divisions that ship, by target, shape, rows, bits and sparsity, and
`kernels/benchmarks/run.py gpu` writes what it has measured into it. Shapes and targets that it does not have are
measured where they occur.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

import torch

from wina_kernels.gpu.operands import bits_of
from wina_kernels.tuning import write_atomically
from wina_kernels.weights import WeightT

MOST_SHARES = 64
MOST_STEP_SHARES = 16
"""Shares of a decoding step, whose next kernel adds them: more would cost that kernel more than the product gains."""


@dataclass(frozen=True)
class Tile:
    """The weights that a program holds at a time: `inputs` x `outputs`.

    Each thread of its `warps`, of 32, loads `vector` outputs at once for each of its inputs: all its loads are in
    flight together, and its sums are its own. Weights, values of x, and sums use its registers. `lines` warps take
    other inputs of the same outputs and add their sums at the end: fewer shares keep as many warps busy.
    """

    inputs: int
    vector: int
    warps: int
    lines: int = 1

    @property
    def outputs(self) -> int:
        return 32 * self.warps * self.vector // self.lines

    @property
    def label(self) -> str:
        lines = f" in {self.lines} lines" if self.lines > 1 else ""
        return f"{self.inputs} x {self.outputs}, {self.warps} warps{lines}"


@dataclass(frozen=True)
class Config:
    """A tile, and the number of programs that share the inputs of each tile of outputs: a power of 2."""

    tile: Tile
    shares: int

    def __post_init__(self) -> None:
        # Kernels index the shares by Triton's `arange`, whose length must be a power of 2.
        if not 1 <= self.shares <= MOST_SHARES or self.shares & (self.shares - 1):
            raise ValueError(f"shares is {self.shares}; it must be a power of 2, and at most {MOST_SHARES}.")

    @property
    def label(self) -> str:
        return f"{self.tile.label}, {self.shares} shares"


_WARPS_WANTED = 2048
"""About 16 for each multiprocessor of a large GPU: more bytes in flight than its memory's latency needs."""

TILES: dict[int, dict[int, tuple[Tile, ...]]] = {
    32: {1: (Tile(16, 4, 1), Tile(16, 4, 4)), 4: (Tile(8, 4, 1),), 8: (Tile(4, 4, 1),)},
    16: {
        1: (Tile(16, 8, 1), Tile(16, 8, 4), Tile(64, 8, 4, 4), Tile(128, 8, 8, 8)),
        4: (Tile(8, 4, 1),),
        8: (Tile(4, 4, 1),),
    },
    8: {1: (Tile(8, 8, 1), Tile(8, 16, 1), Tile(32, 8, 4, 4)), 4: (Tile(8, 4, 1),), 8: (Tile(4, 4, 1),)},
    4: {1: (Tile(16, 8, 1), Tile(8, 16, 1), Tile(64, 8, 4, 4)), 4: (Tile(8, 4, 1),), 8: (Tile(4, 4, 1),)},
}
"""Tiles by bits of a weight, and by rows of x up to 1, 4 and 8."""


def default(inputs: int, outputs: int, rows: int, bits: int, most_shares: int = MOST_SHARES) -> Config:
    """Return the tile and shares that keep most of a large GPU's warps busy, the first tile among equals.

    It depends on the arguments alone."""
    of_tiles = [Config(tile, _enough_shares(tile, inputs, outputs, most_shares)) for tile in tiles(rows, bits)]
    return max(of_tiles, key=lambda config: config.shares * _warps(config.tile, outputs))


def candidates(inputs: int, outputs: int, rows: int, bits: int, most_shares: int = MOST_SHARES) -> list[Config]:
    """Return every tile with a quarter, half, once and twice the shares that keep a large GPU busy with it."""
    found = []
    for tile in tiles(rows, bits):
        enough = _enough_shares(tile, inputs, outputs, MOST_SHARES)
        shares = {min(max(1, tried), most_shares) for tried in (enough // 4, enough // 2, enough, enough * 2)}
        found += [Config(tile, tried) for tried in sorted(shares)]
    return found


def tiles(rows: int, bits: int) -> tuple[Tile, ...]:
    by_rows = TILES[bits]
    return by_rows[next(most for most in sorted(by_rows) if rows <= most)]


def _enough_shares(tile: Tile, inputs: int, outputs: int, most_shares: int) -> int:
    useful = min(_WARPS_WANTED / _warps(tile, outputs), inputs / (2 * tile.inputs), most_shares)
    return 1 << max(0, math.floor(math.log2(max(useful, 1))))


def _warps(tile: Tile, outputs: int) -> int:
    return math.ceil(outputs / tile.outputs) * tile.warps


FILE = Path(__file__).with_name("tuned.json")
_BAND = 0.1
"""Largest distance of a sparsity from a measured one."""


@dataclass(frozen=True)
class ProductCase:
    """A product on a device: everything but the sparsity that determines its best division of work."""

    target: str
    """`target_of` the device."""
    inputs: int
    outputs: int
    rows: int
    bits: int
    most_shares: int


@dataclass(frozen=True)
class TunedConfig:
    """The fastest division of a case at a sparsity."""

    case: ProductCase
    dropped: float
    config: Config
    device: str
    """Name of the device that it was measured on."""

    @classmethod
    def of(cls, line: dict[str, Any]) -> TunedConfig:
        """Return the entry of a line of the file; raise ValueError, KeyError or TypeError unless its tile ships."""
        case, tile = ProductCase(**line["case"]), Tile(*line["tile"])
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


def case_of(weight_t: WeightT, rows: int, most_shares: int) -> ProductCase:
    """Return the case of a product with W^T [n, m]; rows count as the next power of 2."""
    n, m = weight_t.shape
    return ProductCase(target_of(weight_t.device), n, m, 1 << (rows - 1).bit_length(), bits_of(weight_t), most_shares)


@functools.cache
def target_of(device: torch.device) -> str:
    """Return the architecture of a device, such as "sm_90" or "gfx942"; empty for a processor."""
    if device.type != "cuda":
        return ""
    if torch.version.hip is not None:
        return str(torch.cuda.get_device_properties(device).gcnArchName).partition(":")[0]
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"


def shipped(case: ProductCase, dropped: float, file: Path = FILE) -> Config | None:
    """Return the division measured for a case at the nearest sparsity, at most 0.1 away; None without one."""
    # 1e-9: in binary 0.4 - 0.3 is more than 0.1.
    near = [entry for entry in _by_case(file).get(case, ()) if abs(entry.dropped - dropped) < _BAND + 1e-9]
    return min(near, key=lambda entry: abs(entry.dropped - dropped)).config if near else None


def read_entries(file: Path = FILE) -> list[TunedConfig]:
    """Return the entries of a table; raise ValueError, KeyError or TypeError for one whose tile does not ship."""
    if not file.exists():
        return []
    return [TunedConfig.of(line) for line in json.loads(file.read_text(encoding="utf-8"))["entries"]]


def write_entries(entries: Iterable[TunedConfig], file: Path = FILE) -> None:
    """Add entries to a table, in place of those of the same case and sparsity; raise OSError on failure."""
    every = {(entry.case, entry.dropped): entry for entry in (*read_entries(file), *entries)}
    ordered = sorted(every.values(), key=lambda entry: (astuple(entry.case), entry.dropped))
    lines = ",\n  ".join(json.dumps(entry.line) for entry in ordered)
    write_atomically(file, f'{{"entries": [\n  {lines}\n]}}\n' if ordered else '{"entries": []}\n')
    _by_case.cache_clear()


@functools.cache
def _by_case(file: Path) -> dict[ProductCase, list[TunedConfig]]:
    found: dict[ProductCase, list[TunedConfig]] = {}
    for entry in read_entries(file):
        found.setdefault(entry.case, []).append(entry)
    return found
