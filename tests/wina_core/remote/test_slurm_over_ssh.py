"""An array job that another machine submits, over a real sshd."""

from pathlib import Path

import pytest

from tests.wina_core.conftest import Wina
from tests.wina_core.remote.cluster.slurm_server import SlurmServer, slurm
from tests.wina_core.remote.sshd import SshServer, sshd
from wina_core.remote.registry import save_machine

__all__ = ["slurm", "sshd"]

STUDY = """\
name = "queued"
sparsities = [0.2]
models = [{ location = "synthetic" }]
[evaluation]
synthetic = { size = 32, seeds = 2, networks = ["lemma"] }
[[configurations]]
method = { name = "wina" }
"""

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def cluster(sshd: SshServer, slurm: SlurmServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A machine with a queue, which this computer's programs do not find; its name."""
    sshd.put_on_path(monkeypatch, tmp_path / "bin")
    monkeypatch.delenv("SLURM_CONF")
    machine = sshd.machine(command=sshd.command(**slurm.environment))
    save_machine(machine)
    return machine.name


def test_a_machine_over_ssh_submits_lists_and_cancels(wina: Wina, tmp_path: Path, cluster: str) -> None:
    study = tmp_path / "queued.toml"
    study.write_text(STUDY)
    wina.succeeds("study", "submit", study, "--machine", cluster, "--slurm", "begin=now+1hour")
    _, title, *state = wina.succeeds("jobs").splitlines()[1].split()
    assert (title, state[:3]) == ("queued", [cluster, "1", "pending"])
    wina.succeeds("jobs", "cancel", "--all")
    assert "queued" not in wina.succeeds("jobs")
