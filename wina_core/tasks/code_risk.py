"""What must be told before a model's programs are run. Light: the window shows it, too."""

RISK = (
    "The model's programs run in a sandbox without network, files or other processes, but a sandbox may have holes: "
    "consent only where nothing of value would be lost."
)
"""What must be told wherever consent to running a model's programs is asked for."""
