"""A Ray cluster as a place for a pool's engines."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RayOptions:
    """A running cluster and the resources of one engine there; None for a GPU where there are any, else a node."""

    address: str = "auto"
    """HOST:PORT, or "auto" for the cluster of which this machine is a node."""
    gpus: float | None = None
    cpus: float | None = None
    memory: float | None = None
    """Bytes that Ray sets aside."""
