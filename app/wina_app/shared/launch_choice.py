"""What is ticked for one launch of a study; no part of the study itself."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LaunchChoice:
    """What holds for one launch."""

    samples: bool
    """Whether every document's answers are kept."""
    run_model_code: bool
    """Consent to run what the model writes."""
