"""One Slurm for all tests here."""

from tests.wina_core.remote.cluster.slurm_server import slurm

__all__ = ["slurm"]
