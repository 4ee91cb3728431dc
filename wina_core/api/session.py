"""The models in this process, and jobs computed with them."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import RLock
from typing import TYPE_CHECKING, TypeVar

from wina_core.api.progress import library_reporter
from wina_core.api.running import run_recorded
from wina_core.compute.importing import without_collections
from wina_core.errors import WinaError
from wina_core.jobs import Job
from wina_core.specs import ModelSource, RotationSpec
from wina_core.store import Store

if TYPE_CHECKING:  # torch takes seconds to import
    from wina_core.compute.models.loading import LoadedModel
    from wina_core.compute.session.model_session import Session

Value = TypeVar("Value")
Key = tuple[str, str]
"""Hashes of a model's source and rotation."""
_gated: "dict[Key, LoadedModel]" = {}
"""The models that are gated now; they stay in memory whatever else is loaded."""
COMPUTING = RLock()
"""Held by the thread that computes; other threads wait."""


@cache
def session() -> "Session":
    """Return the models of this process."""
    with without_collections():
        from wina_core.compute.session.model_session import Session

    return Session()


def load(source: ModelSource, rotation: RotationSpec) -> "LoadedModel":
    """Return a model from memory, or else load, rotate and quantize it, with progress on stderr."""
    if (gated := _gated.get((source.content_hash(), rotation.content_hash()))) is not None:
        return gated
    with COMPUTING, library_reporter() as reporter:
        return session().prepare(source, rotation, reporter)


@contextmanager
def held_while_gated(source: ModelSource, rotation: RotationSpec, loaded: "LoadedModel") -> Iterator[None]:
    """Keep a model in memory within the block; raise WinaError if it is gated already."""
    key = source.content_hash(), rotation.content_hash()
    if key in _gated:
        raise WinaError("This model is gated already; leave that `with` block first.")
    _gated[key] = loaded
    try:
        yield
    finally:
        del _gated[key]


@contextmanager
def in_job() -> "Iterator[Session]":
    """Compute a job within the block, with the models of this process as they were loaded.

    Raises WinaError while a model is gated, in any thread, and where the job takes a model that the caller has changed.
    """
    with COMPUTING:
        if _gated:  # a job would measure its gates, too
            raise WinaError("A model is gated now, which would change what is computed; leave the `with` block first.")
        with session().refusing_changed():
            yield session()


def compute(job: Job, kind: type[Value], database: str | None) -> Value:
    """Compute a job with the models of this process, store its results, and return what is not stored, of this kind."""
    with in_job() as models, Store(database) as store:
        value = run_recorded(job, store, session=models, reporting=library_reporter).result
    assert isinstance(value, kind)
    return value
