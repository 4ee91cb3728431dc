"""Array jobs of Slurm: a database file for each element, merged by the hashes of what was measured.

The folder of an array lies in the data folder, which the cluster's machines share. It has the files of submitit,
`INDEX.sqlite` of each element, `array.json` and `progress.json`. Everything here may be repeated and may run in several
programs at once: a merge ignores what is stored.
"""

import os
import re
import shutil
import subprocess
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError
from sqlalchemy import func, select

from wina_core.errors import WinaError
from wina_core.files.paths import data_folder
from wina_core.files.tables import write_atomically
from wina_core.jobs import EvaluateJob
from wina_core.jobs.hosted import RUNS_PER_ELEMENT
from wina_core.jobs.job_specs import Message, by_model
from wina_core.records import ACTIVE
from wina_core.remote.slurm_settings import SlurmSettings
from wina_core.specs.studies import StudySpec
from wina_core.store import Store
from wina_core.store.connection import place_of
from wina_core.store.merge import merge_database, open_source
from wina_core.store.refusals import UnwritableError
from wina_core.store.sessions import QUEUED_ELSEWHERE
from wina_core.store.tables import RunTable, UnitTable

MAX_ELEMENTS = 1000
"""Below the usual limit of clusters (MaxArraySize 1001)."""
_MAX_TIMEOUTS = 10
"""Time limits after which submitit does not queue an element again: a run may be longer than all of them."""
_CALL_SECONDS = 60.0
_TAIL_BYTES = 2**14
_SECRETS = ("WINA_DATABASE", "WINA_DATABASE_PASSWORD", "PGPASSWORD", "PGPASSFILE")
"""Variables with or of passwords: Slurm keeps the environment of a job, whose elements open their own files alone."""
_NOT_REACHED = "Its element of the array job ended before this run was finished; submit the study again."

# ---- arrays ----------------------------------------------------------------------------------------------------------


class ElementProgress(Message):
    """State of an element at the last poll."""

    state: str = "pending"
    """Slurm's word, in lower case."""
    changed: int = 0
    """Time of the last change of its file that was merged, in nanoseconds."""
    measurements: int = 0
    """Measurements in its file."""
    ended: bool = False
    """True once nothing more can come."""


class ArrayProgress(Message):
    """State of an array at the last poll."""

    elements: tuple[ElementProgress, ...]
    cancelled: bool = False

    @property
    def ended(self) -> bool:
        return all(element.ended for element in self.elements)

    @property
    def measurements(self) -> int:
        return sum(element.measurements for element in self.elements)

    @property
    def states(self) -> str:
        """Return the numbers of elements by state, such as "5 pending, 2 running"."""
        counts = Counter(element.state for element in self.elements)
        return ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))


class SlurmArray(Message):
    """An array job as it was submitted."""

    id: str = Field(pattern=r"^[0-9a-f]{12}$")
    title: str
    database: str
    """Place of the database that it was submitted from."""
    submitted: float
    """Seconds since 1970."""
    names: tuple[str, ...]
    """Slurm's name of each element, such as "7_0"; a single element has the job's number alone."""
    runs: tuple[tuple[str, ...], ...]
    """Hashes of each element's runs."""
    measurements: int

    @property
    def job(self) -> str:
        return self.names[0].partition("_")[0]

    @property
    def owner(self) -> str:
        """Return the name under which it owns its runs in the database."""
        return f"{QUEUED_ELSEWHERE}{self.id}"

    @property
    def folder(self) -> Path:
        return _arrays_folder() / self.id

    @property
    def progress(self) -> ArrayProgress:
        """Return the state at the last poll; that of a new array where it cannot be read, which changes no result."""
        with suppress(OSError, ValidationError):
            progress = ArrayProgress.model_validate_json((self.folder / "progress.json").read_bytes())
            if len(progress.elements) == len(self.names):
                return progress
        return ArrayProgress(elements=(ElementProgress(),) * len(self.names))

    def save_progress(self, progress: ArrayProgress) -> None:
        # Another program may have ended the array, and removed its folder.
        with suppress(FileNotFoundError):
            write_atomically(self.folder / "progress.json", progress.model_dump_json().encode(), private=True)


def submitted_arrays(store: Store) -> list[SlurmArray]:
    """Return the arrays of a database that have not ended at the last poll, in the order of their submission."""
    arrays = []
    for path in _arrays_folder().glob("*/array.json"):
        with suppress(OSError, ValidationError):
            arrays.append(SlurmArray.model_validate_json(path.read_bytes()))
    return sorted(
        (array for array in arrays if array.database == place_of(store.url)), key=lambda array: array.submitted
    )


def queued_runs(store: Store) -> frozenset[str]:
    """Return the hashes of the runs of all elements that had not ended at the last poll."""
    elements = (
        pair for array in submitted_arrays(store) for pair in zip(array.progress.elements, array.runs, strict=True)
    )
    return frozenset(run for element, runs in elements if not element.ended for run in runs)


def _arrays_folder() -> Path:
    return data_folder() / "arrays"


# ---- submission ------------------------------------------------------------------------------------------------------

Compute = Callable[[StudySpec, EvaluateJob, Path], object]
"""Function that stores the missing measurements of a study's job in an SQLite file. It is pickled by its name."""


class _Element(partial[object]):
    """Call that computes an element, as submitit pickles it."""

    def checkpoint(self) -> Any:
        """Return the same call for the element's next start: its file has what is done."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def split_job(job: EvaluateJob, runs_per_element: int = RUNS_PER_ELEMENT) -> tuple[EvaluateJob, ...]:
    """Return the elements of a job: at most so many runs each, which share a rotated model."""
    elements = tuple(
        job.model_copy(update={"runs": tuple(runs[start : start + runs_per_element])})
        for runs in by_model(job.runs).values()
        for start in range(0, len(runs), runs_per_element)
    )
    if len(elements) > MAX_ELEMENTS:
        raise WinaError(
            f"The array would have {len(elements):,} elements, and most clusters take {MAX_ELEMENTS:,}; "
            "give more runs to each (--runs-per-element)."
        )
    return elements


def submit(
    elements: Sequence[EvaluateJob], study: StudySpec, settings: SlurmSettings, store: Store, compute: Compute
) -> SlurmArray:
    """Submit an array job by submitit, and mark its runs as queued there.

    Raises WinaError where there is no Slurm or no submitit, and with sbatch's words for what it refuses.
    """
    array_id = uuid.uuid4().hex[:12]
    folder = _arrays_folder() / array_id
    executor = _executor(folder, settings)
    from submitit.core.utils import FailedJobError, FailedSubmissionError

    try:
        # Elements run the pickles of this folder, which no other user may replace.
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _private_environment(), executor.batch():
            jobs = [
                executor.submit(_Element(compute, study, job, folder / f"{index}.sqlite"))
                for index, job in enumerate(elements)
            ]
    except (FailedJobError, FailedSubmissionError, OSError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError):
            raise WinaError(f"The files of the array cannot be written to {folder} ({error.strerror}).") from error
        raise WinaError(f"Slurm refuses the job: {_reason(str(error))}; check the settings.") from error
    array = SlurmArray(
        id=array_id,
        title=study.name,
        database=place_of(store.url),
        submitted=time.time(),
        names=tuple(job.job_id for job in jobs),
        runs=tuple(tuple(run.spec.content_hash() for run in job.runs) for job in elements),
        measurements=sum(len(run.units) for job in elements for run in job.runs),
    )
    try:
        write_atomically(folder / "array.json", array.model_dump_json().encode(), private=True)
        store.hand_over([run for runs in array.runs for run in runs], array.owner)
    except BaseException:  # no poll would find and merge it
        _call("scancel", array.job)
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return array


def _executor(folder: Path, settings: SlurmSettings) -> Any:
    try:
        from submitit.slurm.slurm import SlurmExecutor
    except ImportError as error:
        raise WinaError(
            'Submitting to Slurm needs submitit; install it with: pip install "wina-workbench[slurm]".'
        ) from error
    # sbatch replaces patterns such as %j in the names of log files.
    if "%" in str(folder) or not str(folder).isprintable():
        raise WinaError(f"Slurm cannot write to {str(folder)!r}; set WINA_HOME to a folder without % and line ends.")
    try:
        executor = SlurmExecutor(folder, max_num_timeout=_MAX_TIMEOUTS)
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
    return executor


@contextmanager
def _private_environment() -> Iterator[None]:
    """Keep passwords from Slurm, and files from other users."""
    mask, secrets = os.umask(0o077), {name: os.environ.pop(name) for name in _SECRETS if name in os.environ}
    try:
        yield
    finally:
        os.umask(mask)
        os.environ.update(secrets)


def _reason(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("Try ")]
    return re.sub("^sbatch: ((error|fatal): )?", "", lines[-1]).rstrip(".") if lines else "sbatch said nothing"


# ---- results and states of submitted arrays --------------------------------------------------------------------------

_IN_QUEUE = frozenset(
    {"pending", "configuring", "running", "suspended", "stopped", "signaling", "stage out", "resizing", "completing"}
    | {"requeued", "requeue hold", "requeue fed", "special exit", "resv del hold"}
)


@dataclass
class ArrayUpdate:
    """Results of one poll of an array."""

    progress: ArrayProgress
    failures: list[str] = field(default_factory=list)
    """Errors of runs and elements that ended since the last poll."""
    dead: list[int] = field(default_factory=list)
    """Elements that ended since the last poll without having finished."""
    unmerged: list[int] = field(default_factory=list)
    """Elements that ended with a file which could not be merged."""


def update_array(array: SlurmArray, store: Store) -> ArrayUpdate:
    """Merge what an array's elements have stored since the last poll, and remove the files of one that has ended.

    Raises WinaError where Slurm does not answer, and where the store cannot be written.
    """
    result = ArrayUpdate(array.progress)
    elements = list(result.progress.elements)
    states = _element_states(array)  # before the merge: what has ended then has stored all
    for index, element in enumerate(elements):
        if not element.ended:
            elements[index] = _merge_element(array, index, states[index], result, store)
    result.progress = result.progress.model_copy(update={"elements": tuple(elements)})
    if result.progress.ended and result.unmerged:
        (array.folder / "array.json").unlink(missing_ok=True)  # arrays are listed by this file
        files = ", ".join(str(array.folder / f"{index}.sqlite") for index in result.unmerged)
        result.failures.append(f"Not merged, and kept: {files}.")
    elif result.progress.ended:
        shutil.rmtree(array.folder, ignore_errors=True)
    else:
        array.save_progress(result.progress)
    return result


def cancel(array: SlurmArray, store: Store) -> ArrayUpdate:
    """Cancel an array; what its elements have stored is merged, now or by a poll after the last one has stopped."""
    done = _call("scancel", array.job)
    if done.returncode and "Invalid job id" not in done.stderr:
        raise WinaError(f"Slurm does not cancel the job {array.job}: {done.stderr.strip()[:300]}")
    array.save_progress(array.progress.model_copy(update={"cancelled": True}))
    return update_array(array, store)


def log_tail(array: SlurmArray, index: int) -> str:
    """Return the end of an element's log; empty before it has begun."""
    # submitit names the log of task 0 of a job so.
    with suppress(FileNotFoundError), (array.folder / f"{array.names[index]}_0_log.out").open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        return file.read().decode(errors="replace")
    return ""


def _merge_element(array: SlurmArray, index: int, state: str, result: ArrayUpdate, store: Store) -> ElementProgress:
    """Merge an element's file if it has changed, and record the end of an element's runs."""
    before, file = result.progress.elements[index], array.folder / f"{index}.sqlite"
    ended = state not in _IN_QUEUE
    changed, measurements, runs = before.changed, before.measurements, dict[str, tuple[str, str]]()
    fault = ""
    with suppress(FileNotFoundError):
        os.listdir(array.folder)  # makes a network file system show a new file
        changed = file.stat().st_mtime_ns
    if changed and (ended or changed != before.changed):
        try:
            merge_database(file, store, newer=True)
            measurements, runs = _read_element(file)
        except UnwritableError:
            raise
        except WinaError as error:  # also of a file that its element is creating
            changed, fault = before.changed, str(error)
    if ended and fault:
        result.unmerged.append(index)
    if ended:
        cancelled = result.progress.cancelled or state.startswith("cancelled")
        is_finished = _end_runs(array, index, runs, fault, store, result, cancelled=cancelled)
        state = "cancelled" if cancelled else "done" if is_finished else state
    return ElementProgress(state=state, changed=changed, measurements=measurements, ended=ended)


def _read_element(file: Path) -> tuple[int, dict[str, tuple[str, str]]]:
    """Return the number of measurements in an element's file, and status and error of its runs."""
    with open_source(file) as engine, engine.connect() as connection:
        runs = connection.execute(select(RunTable.hash, RunTable.status, RunTable.error)).all()
        count = connection.scalar(select(func.count(UnitTable.id)))
    return count or 0, {row.hash: (row.status, row.error) for row in runs}


def _end_runs(
    array: SlurmArray,
    index: int,
    runs: Mapping[str, tuple[str, str]],
    fault: str,
    store: Store,
    result: ArrayUpdate,
    *,
    cancelled: bool,
) -> bool:
    """Record the end of an element's runs that are not done here; return whether the element had finished."""
    missing = [run for run in array.runs[index] if store.run_status(run) in ACTIVE]
    for run in missing:
        status, error = runs.get(run, ("queued", ""))
        if status == "failed":
            store.end_runs([run], "failed", error, array.owner)
            result.failures.append(error)
        elif cancelled:
            store.end_runs([run], "cancelled", owner=array.owner)
        else:
            store.end_runs([run], "interrupted", error or fault or _NOT_REACHED, array.owner)
    is_finished = bool(runs) and all(status not in ACTIVE for status, _ in runs.values())
    if not cancelled and not is_finished:
        result.dead.append(index)
        result.failures.append(fault or f"Element {index} ended without having finished; submit the study again.")
    return is_finished


def _element_states(array: SlurmArray) -> list[str]:
    """Return the state of each element in squeue's words; "ended" for one that it has forgotten."""
    done = _call("squeue", "--array", "--noheader", "--states=all", "--jobs", array.job, "--format=%i|%T")
    if done.returncode and "Invalid job id" not in done.stderr:
        raise WinaError(f"Slurm does not answer: {done.stderr.strip()[:300]}")
    states = dict(line.strip().split("|", 1) for line in done.stdout.splitlines() if "|" in line)
    return [states.get(name, "ended").lower().replace("_", " ") for name in array.names]


def _call(*command: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_CALL_SECONDS, check=False
        )
    except FileNotFoundError as error:
        raise WinaError(f"This machine has no Slurm (there is no program {command[0]}).") from error
    except subprocess.TimeoutExpired as error:
        raise WinaError(f"Slurm has not answered for {_CALL_SECONDS:.0f} s ({command[0]}); try again later.") from error
