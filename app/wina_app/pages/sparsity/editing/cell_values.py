"""Kinds of values that the cells of a plan may have: their range, texts and steps."""

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from wina_app.heatmap.clipboard import BlockFormat
from wina_app.pages.sparsity.editing.budget_projection import Mask, Table
from wina_app.style.translation import tr

ValueKey = Literal["sparsity", "bits"]

EXACT = 1e-9
"""Tolerance of a kept budget."""


class CellValues(ABC):
    """A kind of values, as the editor, the brush and the controls below the map need it."""

    key: ClassVar[ValueKey]
    lowest: float
    highest: ClassVar[float]
    """Range of edits."""
    empty: ClassVar[float]
    """Value of a cleared cell: nothing is dropped, or nothing is quantized."""
    format: BlockFormat
    """Numbers of a pasted block."""
    name: str
    """Name of the quantity."""
    decimals: int
    """Decimals of a typed number."""
    suffix: ClassVar[str]
    """Unit behind a number, with a space before it."""
    factor: ClassVar[float] = 1.0
    """Shown number of the value 1."""
    resolution: ClassVar[float]
    """Step of the slider."""

    def text(self, value: float) -> str:
        """Return a value with its unit."""
        return f"{self.number(value)}{self.suffix}"

    @abstractmethod
    def number(self, value: float) -> str:
        """Return a value without its unit."""

    @abstractmethod
    def parse(self, text: str) -> float:
        """Parse a typed value. Raise WinaError for an invalid one."""

    @abstractmethod
    def stepped(self, value: float, step: int) -> float:
        """Return the value after a step: plus or minus 5 for a usual one, 1 for a small one."""

    @abstractmethod
    def shifted(self, value: float, amount: float) -> float:
        """Return the value moved by an amount in shown numbers, within the range."""

    @abstractmethod
    def snapped(self, value: float) -> float:
        """Return the nearest value that a cell may have."""

    @abstractmethod
    def step_text(self, cells: str, step: int) -> str:
        """Name the undo step of a `stepped`."""

    @abstractmethod
    def shift_text(self, cells: str, amount: float) -> str:
        """Name the undo step of a `shifted`."""

    @abstractmethod
    def balanced(self, values: Table, weights: Table, free: Mask, budget: float) -> Table:
        """Return the nearest table that meets the budget, where only the free cells differ; float64."""

    def meets(self, reached: float, budget: float) -> bool:
        """Return whether a mean keeps the budget."""
        return abs(reached - budget) <= EXACT

    def uniform_text(self, value: float) -> str:
        """Name the undo step of setting all cells."""
        return tr("uniform plan of {value}", value=self.text(value))
