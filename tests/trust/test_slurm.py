"""A few of the kills of `python -m tests.trust.slurm`."""

from pathlib import Path

import pytest

from tests.trust.slurm import run
from tests.wina_core.remote.slurm_server import SlurmServer, slurm

__all__ = ["slurm"]

pytestmark = pytest.mark.service


def test_an_array_whose_elements_die_is_complete_each_run_once(tmp_path: Path, slurm: SlurmServer) -> None:
    folder = tmp_path / 'it\'s $HOME `id` "here"'
    folder.mkdir()
    report = run(2, 1, 3, folder, slurm, per_element=1)
    assert report.kills.total() == 1
    assert not report.faults.total(), report
