"""Settings of array jobs: known ones by type, others as options of sbatch, nothing that could become a command."""

import subprocess
import sys

import pytest
from pydantic import ValidationError

from wina_core.cluster.slurm.settings import SlurmSettings, minutes, parse_settings
from wina_core.errors import WinaError


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
        {"export": "ALL"},
        {"output": "/etc/passwd"},
        {"bad name": "x"},
        {"partition": ""},
    ],
)
def test_no_option_can_become_a_command(options: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        SlurmSettings(options=options)


def test_no_ordinary_command_loads_submitit() -> None:
    code = "import sys, wina_core.cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"submitit", "cloudpickle", "ray", "psycopg", "keyring"} & set(loaded)
