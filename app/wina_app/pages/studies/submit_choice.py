"""Choices of a submission to a cluster's queue."""

from dataclasses import dataclass

from wina_core.remote.cluster.slurm.settings import RUNS_PER_ELEMENT
from wina_core.specs.machine import LOCAL


@dataclass(frozen=True)
class SubmitChoice:
    """A machine, and settings of the array job."""

    machine: str = LOCAL
    slurm: str = ""
    """Settings as `--slurm` takes them."""
    runs_per_element: int = RUNS_PER_ELEMENT

    @property
    def words(self) -> tuple[str, ...]:
        """Return the options of `wina study submit`."""
        settings = (f"--slurm={self.slurm}",) if self.slurm else ()
        return f"--machine={self.machine}", f"--runs-per-element={self.runs_per_element}", *settings
