"""Preparation of an engine for its first job: the libraries' lazy imports and the compiled kernels."""

import logging
from collections.abc import Callable

from wina_core.compute.reporter import NullReporter, Reporter
from wina_core.compute.session.model_session import Session
from wina_core.engine.server.run_job import run_job
from wina_core.errors import Cancelled
from wina_core.jobs import GenerateJob, InspectGateJob
from wina_core.records.gates import GateTarget
from wina_core.specs import NO_ROTATION, MethodSpec, ModelSource
from wina_core.specs.generation import CompletionSpec
from wina_core.specs.plans import UniformSparsity

_METHOD = MethodSpec(name="wina")
_PROMPT = "The quick brown fox"


def warm(session: Session, reporter: Reporter) -> None:
    """Inspect a gate and complete a few words on the demo model, with results for no one, until `reporter` cancels.

    Without it, the first job waits for the imports of transformers and for the compilation of the kernels: 8 s on two
    cores.
    """
    demo = ModelSource(location="demo", device="auto")
    jobs = (
        InspectGateJob(
            model=demo,
            rotation=NO_ROTATION,
            layer=0,
            projection="q",
            prompt=_PROMPT,
            gates=(GateTarget(method=_METHOD, target=0.5),),
        ),
        GenerateJob(
            model=demo,
            prompt=_PROMPT,
            new_tokens=3,
            configurations=(CompletionSpec(), CompletionSpec(method=_METHOD, plan=UniformSparsity(sparsity=0.5))),
        ),
    )
    try:
        for job in jobs:
            run_job(job, session, lambda _: None, reporter)
    except Cancelled:
        return
    except Exception:  # no job of anyone's fails
        logging.getLogger(__name__).exception("The engine could not prepare for its first job")


class UntilWanted(NullReporter):
    """Reporter that cancels once a job waits."""

    def __init__(self, wanted: Callable[[], bool]) -> None:
        self._wanted = wanted

    def check(self) -> None:
        """Raise Cancelled if a job waits."""
        if self._wanted():
            raise Cancelled
