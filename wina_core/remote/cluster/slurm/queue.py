"""States, cancellation and requeueing of an array job, by Slurm's own programs."""

import subprocess
from collections.abc import Iterable

from wina_core.errors import WinaError
from wina_core.remote.cluster.requests import ElementState, ElementStatus

_SECONDS = 60.0
_WAITING = frozenset(
    {"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
)
_STATES: dict[str, ElementState] = {
    "RUNNING": "running",
    "SUSPENDED": "running",
    "STOPPED": "running",
    "SIGNALING": "running",
    "STAGE_OUT": "running",
    "RESIZING": "running",
    "COMPLETING": "running",
    "COMPLETED": "done",
    "CANCELLED": "cancelled",
    "REVOKED": "cancelled",
    "TIMEOUT": "timed out",
    "DEADLINE": "failed",
    "FAILED": "failed",
    "BOOT_FAIL": "failed",
    "NODE_FAIL": "failed",
    "OUT_OF_MEMORY": "failed",
    "PREEMPTED": "failed",
}


def element_states(job: str, elements: int) -> dict[int, ElementStatus]:
    """Return the state of each element of a job: squeue's, or sacct's for what squeue has forgotten."""
    found = _from_squeue(job)
    if any(index not in found for index in range(elements)):
        found = {**_from_sacct(job), **found}
    return {index: found.get(index, ElementStatus(state="unknown")) for index in range(elements)}


def cancel(job: str) -> None:
    """Cancel a job; one that has ended is left as it is."""
    done = _call("scancel", job)
    if done.returncode and "Invalid job id" not in done.stderr:
        raise WinaError(f"Slurm does not cancel the job {job}: {done.stderr.strip()[:300]}")


def requeue(job: str, elements: Iterable[int]) -> dict[int, str]:
    """Queue elements of a job again; return Slurm's reasons for those that it refuses."""
    refused = {}
    for index in elements:
        done = _call("scontrol", "requeue", f"{job}_{index}")
        if done.returncode:
            refused[index] = done.stderr.strip()[:300] or "scontrol gave no reason"
    return refused


def _from_squeue(job: str) -> dict[int, ElementStatus]:
    layout = "ArrayTaskID:12,State:20,RestartCnt:10,Reason:200"
    done = _call("squeue", "--array", "--noheader", "--states=all", "--jobs", job, "--Format", layout)
    if done.returncode and "Invalid job id" not in done.stderr:
        raise WinaError(f"Slurm does not answer: {done.stderr.strip()[:300]}")
    found = {}
    for line in done.stdout.splitlines():
        index, state, restarts, *reason = line.split(maxsplit=3)
        if index.isdigit():
            words = "".join(reason).strip()
            found[int(index)] = _status(state, restarts != "0", "" if words == "None" else words)
    return found


def _from_sacct(job: str) -> dict[int, ElementStatus]:
    """Return what the accounting knows; nothing where the cluster has none."""
    done = _call(
        "sacct", "--allocations", "--array", "--noheader", "--parsable2", "--format=JobID,State", "--jobs", job
    )
    found = {}
    for line in done.stdout.splitlines() if done.returncode == 0 else ():
        name, _, state = line.partition("|")
        index = name.partition("_")[2]
        if index.isdigit() and state:
            found[int(index)] = _status(state.split()[0], False, "")
    return found


def _status(state: str, restarted: bool, reason: str) -> ElementStatus:
    known: ElementState = _STATES.get(state, "unknown")
    if state in _WAITING:
        known = "requeued" if restarted or state.startswith("REQUEUE") else "pending"
    return ElementStatus(state=known, reason=reason[:300])


def _call(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False)
    except FileNotFoundError as error:
        raise WinaError(f"This machine has no Slurm (there is no program {command[0]}).") from error
    except subprocess.TimeoutExpired as error:
        raise WinaError(f"Slurm has not answered for {_SECONDS:.0f} s ({command[0]}); try again later.") from error
