"""Question before a job that would first compute something long, such as a refined rotation."""

from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

from wina_app.services.workbench import Workbench
from wina_app.style.number_format import duration
from wina_app.widgets.question import ComputeQuestion, ResourceRow
from wina_core.files.hardware import gigabytes
from wina_core.jobs import Job
from wina_core.jobs.planning import MemoryNeed, MissingProduct, memory_needs, missing_products, needed_models
from wina_core.specs.machine import LOCAL


class QuestionView(Protocol):
    """View that asks: a page, or the gate inspector."""

    def ask_compute(self, question: ComputeQuestion) -> bool:
        """Ask whether to begin a job with what it takes; return the answer."""


class ProductQuestion:
    """Question asked only if a job needs a product that is not on disk and takes a minute or more, or memory and disk
    that the user has not accepted before: those of a model that does not fit into memory, or of a rotation search.

    The latest request counts: what the user asks for goes before an earlier request whose files are still being read.
    """

    def __init__(self, workbench: Workbench, view: QuestionView) -> None:
        self._workbench, self._view = workbench, view
        self._latest = 0
        self._is_checking = False
        """True while the files of a user's request are being read."""
        self._accepted_needs: set[Hashable] = set()
        """Identities of the needs that the user agreed to."""

    def before(
        self,
        job: Job,
        go: Callable[[], object],
        *,
        declined: Callable[[], object] | None = None,
        silent: bool = False,
        machines: tuple[str, ...] | None = None,
    ) -> None:
        """Call `go` if nothing long is missing or the user wants it computed, else `declined`.

        With `silent` nothing is asked: work that nobody requested starts no long computation, and does nothing while
        the files of a user's request are being read. The disks of other machines are unknown here: a job for them
        starts, with `silent` only if it needs no refined rotation. `machines` will compute the job, by default the
        chosen ones.
        """
        if silent and self._is_checking:
            return
        machines = self._workbench.machines.chosen if machines is None else machines
        if machines and LOCAL not in machines:
            self._latest += 1
            self._is_checking = False  # the answer to an earlier request is ignored from now on
            if not (silent and _needs_refinement(job)):
                go()
            elif declined is not None:
                declined()
            return
        self._latest += 1
        request, self._is_checking = self._latest, not silent

        def answer(requirements: tuple[Sequence[MissingProduct], Sequence[MemoryNeed]]) -> None:
            missing, needs = requirements
            if request != self._latest:
                return
            long = [product for product in missing if product.is_long]
            try:
                new = [] if silent else [need for need in needs if need.identity not in self._accepted_needs]
                agreed = not (new or long) or (not silent and self._view.ask_compute(compute_question(missing, new)))
                self._accepted_needs |= {need.identity for need in new if agreed}
            finally:
                self._is_checking = False
            if agreed:
                go()
            elif declined is not None:
                declined()

        self._workbench.checks.ask(
            lambda: (missing_products(job), memory_needs(job)),
            answer,
            lambda _text: answer(((), ())),  # the job itself reports what is wrong with its files
        )


def _needs_refinement(job: Job) -> bool:
    rotations = [rotation for _, rotation in needed_models(job)]
    return any(rotation.objective != "eigen" for rotation in rotations if not rotation.is_identity)


def compute_question(missing: Sequence[MissingProduct], needs: Sequence[MemoryNeed]) -> ComputeQuestion:
    """Return the question before a job that computes products first, or that takes much memory or disk."""
    long = [product for product in missing if product.is_long]
    reasons = [reason for need in needs for reason in _reasons(need)]
    reasons += ["This first needs computations that take a minute or more:", products_text(long)] if long else []
    resources = [row for need in needs for row in _resources(need, named=len(needs) > 1)]
    if needs and missing:
        resources.append(ResourceRow("Time of the preparations", _time_text(missing)))
    return ComputeQuestion("\n".join(reasons), resources, " ".join(_advice(needs)))


def _reasons(need: MemoryNeed) -> list[str]:
    """Return a sentence for a model that does not fit into memory, and one for the search for its rotation."""
    sentences = []
    if need.in_files:
        sentences.append(f"{need.location} does not fit into free memory.")
    if need.search.memory:
        sentences.append(
            f"Finding the rotation of {need.location} takes {gigabytes(need.search.memory)} of memory beside "
            "its weights."
        )
    return sentences


def _resources(need: MemoryNeed, *, named: bool) -> list[ResourceRow]:
    """Return the memory and disk that a model takes against what is available."""
    of = f" · {need.location}" if named else ""
    free = f"{gigabytes(need.memory)} free"
    beside = free if need.in_files else f"{gigabytes(need.beside)} free beside the weights"
    left = f"{gigabytes(need.free)} in {need.folder}"
    rows = []

    def add(name: str, size: float, available: str = "", fits: bool | None = None) -> None:
        if size:
            rows.append(ResourceRow(name + of, gigabytes(size), available, fits))

    if need.in_files:
        add("Memory, whole model loaded", need.whole, free, fits=False)
        add("Memory, layer by layer", need.by_layer, free, fits=need.by_layer <= need.memory)
    add("Memory of the rotation search", need.search.memory, beside, fits=need.has_search_memory)
    both = need.disk and need.search.disk
    judged = () if both else (left, need.has_disk)
    add("Disk for rotated or converted weights (none if cached)", need.disk, *judged)
    add("Disk of the rotation search", need.search.disk, *judged)
    if both:
        add("Disk, both together", need.whole_disk, left, need.has_disk)
    return rows


def _advice(needs: Sequence[MemoryNeed]) -> list[str]:
    if not needs:
        return []
    way = "The weights are read from their files layer by layer; the numbers are the same."
    ways = [way] if any(need.in_files for need in needs) else []
    return [*ways, *dict.fromkeys(sentence for need in needs for sentence in need.advice)]


def _time_text(missing: Sequence[MissingProduct]) -> str:
    """Return the time of products as far as it is known from before."""
    durations = [product.seconds for product in missing if product.seconds is not None]
    if len(durations) == len(missing):
        return duration(sum(durations))
    return f"more than {duration(sum(durations))}" if durations else "unknown, never computed here"


def products_text(missing: Sequence[MissingProduct]) -> str:
    """Return a line for each product, with its duration as far as known."""
    return "\n".join(map(_line, missing))


def _line(product: MissingProduct) -> str:
    name = _name(product)
    if product.seconds is not None:
        took = f"took {duration(product.seconds)} before"
    else:
        took = "takes several minutes or more"
    rest = "continues from its finished stages" if product.begun else ""
    return ", ".join(filter(None, (f"{name}: {took}", rest)))


def _name(product: MissingProduct) -> str:
    prepositions = {"rotation": "", "quantization": "to ", "calibration": "of ", "allocation": "by "}
    return f"{product.kind.capitalize()} {prepositions[product.kind]}{product.label}"
