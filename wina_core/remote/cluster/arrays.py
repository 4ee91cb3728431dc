"""Array jobs of a database: submitted, watched, imported, queued again where an element died, and cancelled.

Everything here talks to the machine that reaches the queue by requests (`remote.cluster.requests`), and never to a
file there.
"""

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from wina_core.errors import WinaError
from wina_core.jobs import EvaluateJob
from wina_core.jobs.run_sharing import by_model
from wina_core.records import UnitRecord
from wina_core.remote.cluster.asking import translated
from wina_core.remote.cluster.importing import Imported, import_lines
from wina_core.remote.cluster.kept import ArrayProgress, ElementProgress, KeptArray, KeptArrays
from wina_core.remote.cluster.requests import (
    ENDED,
    MOST_ELEMENTS,
    ArrayAnswer,
    ArrayDone,
    ArrayLook,
    ArrayRequest,
    ArraySubmitted,
    CancelArray,
    ElementState,
    ElementStatus,
    Lines,
    LogTail,
    LookAtArray,
    RemoveArray,
    RequeueElements,
    SubmitArray,
    TailLog,
)
from wina_core.remote.cluster.slurm.settings import RUNS_PER_ELEMENT, SlurmSettings
from wina_core.store import Store

Ask = Callable[[str, ArrayRequest], ArrayAnswer]
"""Sends a request to a machine, by its name, and returns the answer."""

MOST_REQUEUES = 3
"""Times that an element that died is queued again."""
_NOT_REACHED = "Its element of the array job ended before this run was finished; submit the study again."


@dataclass
class Update:
    """Results of one look at an array."""

    array: KeptArray
    progress: ArrayProgress
    units: list[UnitRecord] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    dead: list[int] = field(default_factory=list)
    """Elements that ended without having finished."""


def split_job(job: EvaluateJob, runs_per_element: int = RUNS_PER_ELEMENT) -> tuple[EvaluateJob, ...]:
    """Return the elements of a job: at most so many runs each, which share a rotated model."""
    elements = tuple(
        job.model_copy(update={"runs": tuple(runs[start : start + runs_per_element])})
        for runs in by_model(job.runs).values()
        for start in range(0, len(runs), runs_per_element)
    )
    if len(elements) > MOST_ELEMENTS:
        raise WinaError(
            f"The array would have {len(elements):,} elements, and most clusters take {MOST_ELEMENTS:,}; "
            "give more runs to each (--runs-per-element)."
        )
    return elements


def submit(
    elements: Sequence[EvaluateJob], title: str, machine: str, settings: SlurmSettings, store: Store, ask: Ask
) -> KeptArray:
    """Submit an array job, keep it beside the database, and mark its runs as queued there."""
    array = uuid.uuid4().hex[:12]
    sent = tuple(translated(element, machine) for element in elements)
    answer = ask(machine, SubmitArray(array=array, elements=sent, settings=settings))
    assert isinstance(answer, ArraySubmitted)
    kept = KeptArray(
        id=array,
        title=title,
        machine=machine,
        job=answer.job,
        submitted=time.time(),
        elements=tuple(each.model_copy(update={"run_model_code": False, "task_code": {}}) for each in elements),
        runs={there: here for there, here in zip(_runs(sent), _runs(elements), strict=True) if there != here},
    )
    KeptArrays(store.url).keep(kept)
    store.hand_over(_runs(kept.elements), kept.owner)
    return kept


def update(array: KeptArray, store: Store, ask: Ask) -> Update | None:
    """Look at an array once, import what has come, queue elements again that died, and forget an array that has ended.

    Return None where another process does so now.
    """
    arrays = KeptArrays(store.url)
    with arrays.held(array) as free:
        if not free:
            return None
        found = Update(array, arrays.progress(array))
        try:
            look = _take(found, store, ask)
            while look.lines:
                arrays.save(array, found.progress)
                look = _take(found, store, ask)
            _end_dead(found, store, ask)
        finally:
            arrays.save(array, found.progress)
        if found.progress.ended:
            ask(array.machine, RemoveArray(array=array.id))
            arrays.forget(array)
        return found


def cancel(array: KeptArray, store: Store, ask: Ask) -> Update | None:
    """Cancel an array; what its elements have written is imported, and stays."""
    ask(array.machine, CancelArray(array=array.id))
    arrays = KeptArrays(store.url)
    with arrays.held(array) as free:
        if free:
            arrays.save(array, arrays.progress(array).model_copy(update={"cancelled": True}))
    return update(array, store, ask)


def log_tail(array: KeptArray, element: int, ask: Ask) -> str:
    """Return the end of an element's log."""
    answer = ask(array.machine, TailLog(array=array.id, element=element))
    assert isinstance(answer, LogTail)
    return answer.text


def _runs(elements: Iterable[EvaluateJob]) -> list[str]:
    return [run.spec.content_hash() for element in elements for run in element.runs]


def _take(found: Update, store: Store, ask: Ask) -> ArrayLook:
    """Ask for states and new results, and store them."""
    array = found.array
    elements = list(found.progress.elements)
    offsets = {index: element.offset for index, element in enumerate(elements) if not element.ended}
    look = ask(array.machine, LookAtArray(array=array.id, offsets=offsets))
    assert isinstance(look, ArrayLook)
    for index, status in look.states.items():
        if index in offsets and index < len(elements):
            elements[index] = elements[index].model_copy(update={"status": status})
    try:
        for index in sorted(offsets.keys() & look.lines.keys()):
            elements[index] = _import(found, index, look.lines[index], elements[index], store)
    finally:
        found.progress = found.progress.model_copy(update={"elements": tuple(elements)})
    return look


def _import(found: Update, index: int, lines: Lines, element: ElementProgress, store: Store) -> ElementProgress:
    imported: Imported = import_lines(found.array, index, lines, element, store)
    found.units += imported.units
    found.failures += imported.failures
    progress = imported.progress
    if progress.ended:
        _end_runs(found, index, store, progress.error)
        state: ElementState = "failed" if progress.error else "done"
        progress = progress.model_copy(update={"status": ElementStatus(state=state)})
    return progress


def _end_dead(found: Update, store: Store, ask: Ask) -> None:
    """Queue elements again that ended without having finished, a few times, and end the others."""
    elements = list(found.progress.elements)
    again = []
    for index, element in enumerate(elements):
        if element.ended or element.status.state not in ENDED:
            continue
        cancelled = found.progress.cancelled or element.status.state == "cancelled"
        found.dead += [] if cancelled else [index]
        if not cancelled and element.status.state != "unknown" and element.requeued < MOST_REQUEUES:
            again.append(index)
        else:
            error = "" if cancelled else _death(index, element)
            _end_runs(found, index, store, error, cancelled=cancelled)
            elements[index] = element.model_copy(update={"ended": True, "error": error})
    found.progress = found.progress.model_copy(update={"elements": tuple(elements)})
    if not again:
        return
    answer = ask(found.array.machine, RequeueElements(array=found.array.id, elements=tuple(again)))
    assert isinstance(answer, ArrayDone)
    for index in again:
        status = ElementStatus(state="requeued", reason=answer.refused.get(index, ""))
        changes = {"requeued": elements[index].requeued + 1, "status": status}
        elements[index] = elements[index].model_copy(update=changes)
    found.progress = found.progress.model_copy(update={"elements": tuple(elements)})


def _death(index: int, element: ElementProgress) -> str:
    if element.status.state == "unknown":
        return f"Element {index} ended without having finished, and Slurm no longer knows it; submit the study again."
    return f"Element {index} {element.status.state} {element.requeued + 1} times without having finished; read its log."


def _end_runs(found: Update, index: int, store: Store, error: str, *, cancelled: bool = False) -> None:
    """Record the end of the runs of an element that have not ended."""
    runs = _runs([found.array.elements[index]])
    if cancelled:
        store.end_runs(runs, "cancelled")
    else:
        store.end_runs(runs, "failed" if error else "interrupted", error or _NOT_REACHED)
