"""Question before a job that would first compute something long, such as a refined rotation."""

from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

from wina_app.services.workbench import Workbench
from wina_app.style.number_format import duration
from wina_app.widgets.question import ComputeQuestion
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
    reasons = [need.text for need in needs]
    reasons += [f"This first needs computations that take a minute or more:\n{products_text(long)}"] if long else []
    return ComputeQuestion("\n\n".join(reasons), all(map(_fits, needs)))


def _fits(need: MemoryNeed) -> bool:
    return need.has_disk and need.has_search_memory and (not need.in_files or need.by_layer <= need.memory)


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
