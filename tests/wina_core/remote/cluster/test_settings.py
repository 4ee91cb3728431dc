"""Settings of array jobs: known ones by type, others as options of sbatch, nothing that could become a command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from wina_core.errors import WinaError
from wina_core.remote.cluster.slurm.settings import SlurmSettings, minutes, parse_settings
from wina_core.remote.cluster.slurm.submitting import submit_array


def test_settings_become_options_of_sbatch() -> None:
    found = parse_settings(["partition=gpu,gpus=1,time=1:30:00,parallel=4", "nodelist=a1,a2", "licenses=x:2"])
    assert (found.time, found.parallel) == (90, 4)
    assert found.options == {"partition": "gpu", "gpus-per-node": "1", "nodelist": "a1,a2", "licenses": "x:2"}


@pytest.mark.parametrize(
    ("text", "expected"), [("90", 90), ("1:30", 2), ("1:30:00", 90), ("2-0", 2880), ("1-2:03:04", 1564)]
)
def test_times_are_those_of_slurm(text: str, expected: int) -> None:
    assert minutes(text) == expected


@pytest.mark.parametrize("given", ["partition", "gpus=one", "time=soon", "mem=lots", "=gpu", "cpus=-1"])
def test_a_setting_of_another_type_is_refused(given: str) -> None:
    with pytest.raises(WinaError, match="Slurm setting"):
        parse_settings([given])


@pytest.mark.parametrize(
    "options",
    [
        {"partition": "a\nrm -rf ~"},
        {"comment": "$(touch x)"},
        {"comment": "`id`"},
        {"account": "a'b"},
        {"wrap": "touch x"},
        {"wra": "touch x"},
        {"export": "ALL"},
        {"output": "/etc/passwd"},
        {"bad name": "x"},
        {"partition": ""},
    ],
)
def test_no_option_can_become_a_command(options: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        SlurmSettings(options=options)


@pytest.mark.skipif(os.name == "nt", reason="shell scripts in the place of Slurm's programs")
def test_no_password_of_a_database_goes_to_the_queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("submitit")
    for name in ("srun", "sbatch"):
        (tmp_path / name).write_text(f"#!/bin/sh\nenv > '{tmp_path}/environment'\necho Submitted batch job 7\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("WINA_DATABASE", "postgresql://me:sesame@host/db")
    monkeypatch.setenv("PGPASSWORD", "sesame")
    assert submit_array(["true"], 2, SlurmSettings(), tmp_path) == "7"
    assert "sesame" not in (tmp_path / "environment").read_text()
    assert os.environ["PGPASSWORD"] == "sesame"


def test_no_ordinary_command_loads_submitit() -> None:
    code = "import sys, wina_core.cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"submitit", "cloudpickle", "ray", "psycopg", "keyring"} & set(loaded)
