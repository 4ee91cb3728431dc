"""Blocks of values as tab-separated text, as spreadsheets copy and paste them."""

import csv
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from wina_app.heatmap.selection import Selection
from wina_app.plots.colour_maps import ColourScale
from wina_app.style.number_format import plural
from wina_core.errors import WinaError
from wina_core.specs.plans import Cell

_CORNERS = ("layer", "")
"""Heads of the layers' column in a block with headings."""
_SPACES = " \u00a0\u202f"
_DIGITS = 14
"""Digits of a fraction: more than are copied, fewer than division by 100 rounds."""

MAX_CHARACTERS = 100_000
"""Most characters of a block, under `csv`'s limit for one cell; a plan of a thousand layers has half of it."""

Block = list[list[float | None]]
"""Rows of values, None where a cell is empty; all rows are equally long."""


@dataclass(frozen=True)
class BlockFormat:
    """The numbers that a block may have."""

    read: Callable[[Sequence[str]], Sequence[float | None]]
    """Return the values of a block's cells, None for an invalid one."""
    name: str
    """Plural, for example "targets"."""
    valid: str
    """Clause about the values that are valid."""


@dataclass(frozen=True)
class Pasted:
    """The outcome of pasting."""

    values: dict[Cell, float]
    remark: str
    """Remark on the cells left out; empty if the whole block has a place."""


def copied_text(
    rows: Sequence[str],
    columns: Sequence[str],
    values: np.ndarray,
    scale: ColourScale,
    cells: Iterable[Cell],
    headings: bool,
) -> str:
    """Write the bounding rectangle of some cells as tab-separated text; other cells in it are empty.

    Values have 12 digits; fractions are percentages with their sign, which spreadsheets read as such.
    """
    chosen = set(cells)
    down, across = (sorted({cell[axis] for cell in chosen}) for axis in (0, 1))
    table = [
        [_exact(float(values[row, column]), scale) if (row, column) in chosen else "" for column in across]
        for row in down
    ]
    if headings:
        names = [columns[column] for column in across]
        table = [["layer", *names], *([rows[row], *line] for row, line in zip(down, table, strict=True))]
    return "\n".join("\t".join(line) for line in table)


def _exact(value: float, scale: ColourScale) -> str:
    if math.isnan(value):
        return ""
    return f"{100 * value:.12g}%" if scale.unit in ("%", "points") else f"{value:.12g}"


def paste(text: str, selection: Selection, projections: Sequence[str], format_: BlockFormat) -> Pasted:
    """Return the values of the cells that a pasted block covers; its empty cells change nothing.

    A block whose size divides the selection's is repeated to fill it; any other starts at the selection's upper left
    corner and ends at the table's edge. Raises WinaError without a selection, and for a block without values or with
    an invalid cell.
    """
    block = read_block(text, projections, format_)
    if not selection.cells:
        raise WinaError("Nothing is selected; select the cell for the block's upper left corner.")
    rows, columns = (sorted({cell[axis] for cell in selection.cells}) for axis in (0, 1))
    across, down = columns[-1] - columns[0] + 1, rows[-1] - rows[0] + 1
    height, width = len(block), len(block[0])
    if down % height == 0 and across % width == 0:  # as in a spreadsheet: one value fills the whole selection
        targets = selection.cells
    else:
        targets = frozenset((rows[0] + r, columns[0] + c) for r in range(height) for c in range(width))
    values = {
        cell: value
        for cell in targets
        if cell[0] < selection.rows
        and cell[1] < selection.columns
        and (value := block[(cell[0] - rows[0]) % height][(cell[1] - columns[0]) % width]) is not None
    }
    beyond = sum(not (r < selection.rows and c < selection.columns) for r, c in targets)
    cells = plural(beyond, "cells", "cell")
    remark = f"Left out {cells} of the block beyond the table."
    return Pasted(values, remark if beyond else "")


def read_block(text: str, projections: Sequence[str], format_: BlockFormat) -> Block:
    """Parse tab-separated values, with or without headings.

    A first line of projections is a heading, and with "layer" or nothing before them the first column too. Raises
    WinaError that names the first invalid cell.
    """
    if len(text) > MAX_CHARACTERS:
        raise WinaError(f"The clipboard has {len(text):,} characters, too many for a plan's {format_.name}.")
    lines = [[cell.strip(_SPACES) for cell in line] for line in csv.reader(text.splitlines(), delimiter="\t")]
    while lines and not any(lines[-1]):  # spreadsheets end a block with an empty line
        lines.pop()
    first_row, first_column = 0, 0
    if lines and _is_heading(lines[0], projections):
        first_row = 1
        first_column = int(lines[0][0].lower() in _CORNERS)
    cells = [line[first_column:] for line in lines[first_row:]]
    filled = [(row, column) for row, line in enumerate(cells) for column, cell in enumerate(line) if cell]
    if not filled:
        raise WinaError(f"The clipboard has no {format_.name}; copy cells of a heatmap or of a spreadsheet first.")
    block: Block = [[None] * max(map(len, cells)) for _ in cells]
    for (row, column), value in zip(filled, format_.read([cells[r][c] for r, c in filled]), strict=True):
        if value is None:
            raise _bad(cells[row][column], row + first_row + 1, column + first_column + 1, format_)
        block[row][column] = value
    return block


def finite(text: str) -> float | None:
    """Parse a number with a decimal point or comma; None for anything else."""
    try:
        number = float(text.strip(_SPACES).replace(",", "."))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _fractions(cells: Sequence[str]) -> list[float | None]:
    """Parse targets: with a percent sign percentages, others fractions if all of them are under 1, else percentages."""
    numbers = [finite(cell.removesuffix("%")) for cell in cells]
    bare = [n for n, cell in zip(numbers, cells, strict=True) if n is not None and not cell.endswith("%")]
    unit = 1.0 if bare and max(bare) < 1 else 100.0
    return [
        None if number is None else _target(number / (100.0 if cell.endswith("%") else unit))
        for number, cell in zip(numbers, cells, strict=True)
    ]


def _target(number: float) -> float | None:
    value = round(number, _DIGITS) + 0.0  # no negative zero
    return value if 0 <= value < 1 else None


FRACTIONS = BlockFormat(_fractions, "targets", "a target is from 0 % to under 100 %, as in 62.5 % or 0.625")
"""Target sparsities, in percent or as fractions."""


def _is_heading(line: Sequence[str], projections: Sequence[str]) -> bool:
    names = [cell.lower() for cell in line]
    if names and names[0] in _CORNERS:
        names = names[1:]
    return bool(names) and set(names) <= {name.lower() for name in projections}


def _bad(cell: str, row: int, column: int, format_: BlockFormat) -> WinaError:
    short = cell if len(cell) <= 40 else cell[:39] + "\N{HORIZONTAL ELLIPSIS}"
    return WinaError(f'Nothing was pasted: row {row}, column {column} of the block is "{short}", but {format_.valid}.')
