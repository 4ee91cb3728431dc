"""Contents of the question before a job that takes long or much."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class ResourceRow:
    """A resource that a job takes."""

    name: str
    """For example "Memory, layer by layer"."""
    needed: str
    available: str = ""
    fits: bool | None = None
    """Whether there is enough of it; None if that is no question, or unknown."""


@dataclass(frozen=True)
class ComputeQuestion:
    """Question before a job begins."""

    text: str
    """Why, a line or sentence for each reason."""
    resources: Sequence[ResourceRow] = ()
    advice: str = ""
    """The way that fits, and better ones."""

    @property
    def fits(self) -> bool:
        """Return whether no resource is short."""
        return all(row.fits is not False for row in self.resources)
