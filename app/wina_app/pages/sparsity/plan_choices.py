"""Plans beside the one being edited."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wina_app.style.number_format import percent

if TYPE_CHECKING:  # SQLAlchemy takes a second to import: only the store's thread does
    from wina_core.store.rows import PlannedRun, PlanRow


@dataclass(frozen=True)
class PlanChoices:
    """Plans to load, delete or compare with."""

    saved: "Sequence[PlanRow]" = ()
    """Saved plans, the latest first."""
    runs: "Sequence[PlannedRun]" = ()
    """Runs of the current model, the latest first."""
    before: bool = False
    """True if the plan before the last change is known."""
    allocated: bool = False
    """True if a plan was allocated here."""
    possible: bool = False
    """True if there is a plan at all."""
    compared: str = ""
    """Name of the compared plan; empty for none."""


def planned_text(run: "PlannedRun") -> str:
    """Return a run's plan in words, for example "wina, global + heads: curves 50.0 %"."""
    return f"{run.configuration}: {run.plan} {percent(run.target_sparsity)}"
