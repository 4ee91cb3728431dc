"""An array job that another machine submits, over a real sshd."""

from pathlib import Path

import pytest

from tests.wina_core.conftest import Wina
from tests.wina_core.remote.cluster.slurm_server import SlurmServer, slurm
from tests.wina_core.remote.machines.sshd import SshServer
from wina_core.remote.machines.registry import save_machine

__all__ = ["slurm"]


@pytest.fixture
def cluster(sshd: SshServer, slurm: SlurmServer) -> str:
    """A machine with a queue; its name."""
    machine = sshd.machine()
    save_machine(machine.model_copy(update={"environment": machine.environment | slurm.environment}))
    return machine.name


def test_a_machine_over_ssh_submits_lists_and_cancels(wina: Wina, tmp_path: Path, cluster: str) -> None:
    study = tmp_path / "queued.toml"
    study.write_text(
        'name = "queued"\nsparsities = [0.2]\nmodels = [{ location = "synthetic" }]\n[evaluation]\n'
        'synthetic = { size = 32, seeds = 2, networks = ["lemma"] }\n[[configurations]]\nmethod = { name = "wina" }\n'
    )
    wina.succeeds("study", "submit", study, "--machine", cluster, "--slurm", "begin=now+1hour")
    assert "1 pending" in wina.succeeds("jobs")
    wina.succeeds("jobs", "cancel", "--all")
    assert "queued" not in wina.succeeds("jobs")
