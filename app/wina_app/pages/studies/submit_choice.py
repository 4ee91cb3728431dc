"""Choices of a submission to a cluster's queue."""

from dataclasses import dataclass

from wina_core.jobs.hosted import RUNS_PER_ELEMENT


@dataclass(frozen=True)
class SubmitChoice:
    """Settings of an array job."""

    slurm: str = ""
    """Settings as `--slurm` takes them."""
    runs_per_element: int = RUNS_PER_ELEMENT

    @property
    def words(self) -> tuple[str, ...]:
        """Return the options of `wina study submit`."""
        settings = (f"--slurm={self.slurm}",) if self.slurm else ()
        return f"--runs-per-element={self.runs_per_element}", *settings
