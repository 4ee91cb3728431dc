"""Submission of an array job by submitit, which writes the script for sbatch."""

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from wina_core.errors import WinaError
from wina_core.remote.cluster.slurm.settings import SlurmSettings

_SECRETS = ("WINA_DATABASE", "WINA_DATABASE_PASSWORD", "PGPASSWORD", "PGPASSFILE")
"""Variables with or of passwords: Slurm keeps the environment of a job, whose elements open no database."""


def submit_array(command: Sequence[str], elements: int, settings: SlurmSettings, logs: Path) -> str:
    """Submit a command as an array job with logs in a folder; return Slurm's number.

    Each element runs the same command and finds its index in SLURM_ARRAY_TASK_ID. No pickle is written or read: of
    submitit's files only the script and the logs are used. Raises WinaError where there is no Slurm, and with sbatch's
    words for what it refuses.
    """
    try:
        from submitit.core.utils import FailedJobError, FailedSubmissionError
        from submitit.slurm.slurm import SlurmExecutor
    except ImportError as error:
        raise WinaError(
            "Submitting to Slurm needs submitit on the machine that reaches the queue; install it there with: "
            'pip install "wina-workbench[slurm]".'
        ) from error
    if "%" in str(logs) or not str(logs).isprintable():
        raise WinaError(f"Slurm cannot write to {str(logs)!r}; set WINA_HOME to a folder without % and line ends.")
    try:
        executor = SlurmExecutor(folder=logs)
    except RuntimeError as error:
        raise WinaError(
            "This machine has no Slurm (there is no program srun); submit from the cluster's login node."
        ) from error
    executor.update_parameters(
        job_name="wina",
        time=settings.time,
        signal_delay_s=settings.signal,
        array_parallelism=settings.parallel,
        stderr_to_stdout=True,
        additional_parameters={"requeue": True, **settings.options},
    )
    executor.parameters["map_count"] = elements
    before, secrets = os.umask(0o077), {name: os.environ.pop(name) for name in _SECRETS if name in os.environ}
    try:
        return str(executor._submit_command(shlex.join(command)).job_id)
    except (FailedJobError, FailedSubmissionError) as error:
        raise WinaError(f"Slurm refuses the job: {_reason(str(error))}; check the settings.") from error
    finally:
        os.umask(before)
        os.environ.update(secrets)


def _reason(text: str) -> str:
    """Return the last line of sbatch that is not a hint at its help."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("Try ")]
    return re.sub("^sbatch: ((error|fatal): )?", "", lines[-1]).rstrip(".") if lines else "sbatch said nothing"
