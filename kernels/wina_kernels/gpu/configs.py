"""Division of the work among programs: the shipped tiles, the default, and tuning's candidates.

The choice is explicit: another division adds in another order, and the same input must give the same bits in every
process.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

MOST_SHARES = 64
MOST_STEP_SHARES = 16
"""In a decoding step, whose next kernel adds the shares: more would cost it more than a product gains."""


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
        """Outputs of all threads."""
        return 32 * self.warps * self.vector // self.lines

    @property
    def label(self) -> str:
        """A name of the tile."""
        lines = f" in {self.lines} lines" if self.lines > 1 else ""
        return f"{self.inputs} x {self.outputs}, {self.warps} warps{lines}"


@dataclass(frozen=True)
class Config:
    """A tile, and the number of programs that share the inputs of each tile of outputs: a power of 2."""

    tile: Tile
    shares: int

    def __post_init__(self) -> None:
        if not 1 <= self.shares <= MOST_SHARES or self.shares & (self.shares - 1):
            raise ValueError(f"shares is {self.shares}; it must be a power of 2, and at most {MOST_SHARES}.")

    @property
    def label(self) -> str:
        """A name of the division."""
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
"""By bits of a weight, and by rows of x up to 1, 4 and 8."""


def default(inputs: int, outputs: int, rows: int, bits: int, most_shares: int = MOST_SHARES) -> Config:
    """Return the tile and shares that keep most of a large GPU's warps busy, the first tile among equals; a function of
    its arguments alone."""
    of_tiles = [Config(tile, _enough_shares(tile, inputs, outputs, most_shares)) for tile in tiles(rows, bits)]
    return max(of_tiles, key=lambda config: config.shares * _warps(config.tile, outputs))


def candidates(inputs: int, outputs: int, rows: int, bits: int, most_shares: int = MOST_SHARES) -> list[Config]:
    """Return every tile, with a quarter to twice the shares that are enough for it."""
    found = []
    for tile in tiles(rows, bits):
        enough = _enough_shares(tile, inputs, outputs, MOST_SHARES)
        shares = {min(max(1, tried), most_shares) for tried in (enough // 4, enough // 2, enough, enough * 2)}
        found += [Config(tile, tried) for tried in sorted(shares)]
    return found


def tiles(rows: int, bits: int) -> tuple[Tile, ...]:
    """Return the shipped tiles for 1 to 8 rows of x and weights of that many bits."""
    by_rows = TILES[bits]
    return by_rows[next(most for most in sorted(by_rows) if rows <= most)]


def _enough_shares(tile: Tile, inputs: int, outputs: int, most_shares: int) -> int:
    useful = min(_WARPS_WANTED / _warps(tile, outputs), inputs / (2 * tile.inputs), most_shares)
    return 1 << max(0, math.floor(math.log2(max(useful, 1))))


def _warps(tile: Tile, outputs: int) -> int:
    """Return the warps of one share."""
    return math.ceil(outputs / tile.outputs) * tile.warps
