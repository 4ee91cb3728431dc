"""Options of one launch, which are no part of a study."""

from dataclasses import dataclass


@dataclass(frozen=True)
class LaunchChoice:
    """Options of one launch."""

    samples: bool
    """True to store every document's completions."""
    run_model_code: bool
    """Consent to run code that the model writes."""
