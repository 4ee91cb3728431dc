"""The models in this process, and jobs computed with them as the command line computes them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partialmethod
from threading import RLock
from typing import TYPE_CHECKING

from wina_core.cli.asking import ANSWERED
from wina_core.cli.running import run_recorded
from wina_core.cli.terminal import IN_LIBRARY, terminal_reporter
from wina_core.compute.importing import without_collections
from wina_core.errors import WinaError
from wina_core.jobs import Job, ResultValue
from wina_core.specs import ModelSource, RotationSpec
from wina_core.store import Store

if TYPE_CHECKING:  # torch takes seconds to import
    from wina_core.compute.models.loading import LoadedModel
    from wina_core.compute.session.shared_session import SharedSession

Key = tuple[str, str]
"""Hashes of a model's source and rotation."""
_gated: "dict[Key, LoadedModel]" = {}
"""The models that are gated now; they stay in memory whatever else is loaded."""
_COMPUTING = RLock()
"""Held by the thread that computes; other threads wait."""
_NO_BARS = "TQDM_DISABLE"
"""Environment variable that switches progress bars off in engines; one bar is enough."""


@cache
def session() -> "SharedSession":
    """Return the models of this process."""
    with without_collections():
        from wina_core.compute.session.shared_session import SharedSession

    return SharedSession()


@contextmanager
def in_library() -> Iterator[None]:
    """Compute within the block as a library, one thread at a time: without questions and bars of other libraries, which
    are shown again afterwards, and with KeyboardInterrupt at a second Ctrl-C."""
    with _COMPUTING, _quiet():
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    from tqdm.std import tqdm  # type: ignore[import-untyped]  # before TQDM_DISABLE is set, which it reads once

    known, shown = os.environ.get(_NO_BARS), vars(tqdm)["__init__"]  # a descriptor: reading it binds it anew
    tokens = (IN_LIBRARY, IN_LIBRARY.set(True)), (ANSWERED, ANSWERED.set(True))
    os.environ[_NO_BARS], tqdm.__init__ = "1", partialmethod(tqdm.__init__, disable=True)
    try:
        yield
    finally:
        tqdm.__init__ = shown
        if known is None:
            del os.environ[_NO_BARS]
        else:
            os.environ[_NO_BARS] = known
        for variable, token in tokens:
            variable.reset(token)


def load(source: ModelSource, rotation: RotationSpec) -> "LoadedModel":
    """Return a model from memory, or else load, rotate and quantize it, with progress on stderr."""
    if (source.content_hash(), rotation.content_hash()) in _gated:
        return _gated[source.content_hash(), rotation.content_hash()]
    with in_library(), terminal_reporter() as reporter:
        return session().prepare(source, rotation, reporter)


def hold_gated(source: ModelSource, rotation: RotationSpec, loaded: "LoadedModel") -> None:
    """Keep a model in memory while it is gated; raise WinaError if it is gated already."""
    key = source.content_hash(), rotation.content_hash()
    if key in _gated:
        raise WinaError("This model is gated already; leave that `with` block first.")
    _gated[key] = loaded


def release_gated(source: ModelSource, rotation: RotationSpec) -> None:
    """Let a model go that is gated no more."""
    del _gated[source.content_hash(), rotation.content_hash()]


@contextmanager
def in_job() -> "Iterator[SharedSession]":
    """Compute a job within the block, with the models of this process as they were loaded.

    Raises WinaError while a model is gated, in any thread, and where the job takes a model that the caller has changed.
    """
    with in_library():
        if _gated:  # a job would measure its gates, too
            raise WinaError("A model is gated now, which would change what is computed; leave the `with` block first.")
        with session().refusing_changed():
            yield session()


def compute(job: Job, database: str | None) -> ResultValue | None:
    """Compute a job with the models of this process, store its results, and return what is not stored."""
    with in_job() as models, Store(database) as store:
        return run_recorded(job, store, session=models).value
