"""A job host in this process, over one fake engine."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

from tests.wina_core.engine.engine_events import PATIENCE, Events, evaluate, run
from tests.wina_core.engine.fake_pool import FakeClient
from wina_core.engine.client.pool import EnginePool
from wina_core.engine.host.client import HostClient, _Link
from wina_core.engine.host.host import Host
from wina_core.jobs import Detach, Detached, Event, Submit
from wina_core.specs import Configuration
from wina_core.specs.studies import StudySpec
from wina_core.store import Store

RUNS = (run(0.2), run(0.4))
JOB = evaluate(*RUNS)
STUDY = StudySpec(name="test", models=(RUNS[0].model,), configurations=(Configuration(),))


class Hosted:
    """A host in this process over one fake engine, with the client that started it."""

    def __init__(self, folder: Path) -> None:
        self.database = f"sqlite:///{folder / 'results.sqlite'}"
        self.store = Store(self.database)
        """The store of the client's program."""
        self.engines: list[FakeClient] = []
        self.host = Host(self._pool)
        there, here = os.pipe(), os.pipe()
        self.events = Events()
        requests, events = os.fdopen(there[0], "rb"), os.fdopen(here[1], "wb")
        self.thread = threading.Thread(target=self.host.serve, args=(requests, events))
        self.thread.start()
        self.link = _Link(os.fdopen(here[0], "rb"), os.fdopen(there[1], "wb"))
        """Of the program that started it."""
        self.client = HostClient(self.events, lambda: self.link)

    def _pool(self, on_event: Callable[[Event], None]) -> EnginePool:
        def client(to: Callable[[Event], None], environment: object) -> FakeClient:
            self.engines.append(FakeClient(to, environment, eager=False))  # type: ignore[arg-type]
            return self.engines[-1]

        return EnginePool(on_event, [{}], client)  # type: ignore[arg-type]

    @property
    def engine(self) -> FakeClient:
        return self.engines[0]

    def submit(self, job_id: str = "job") -> None:
        self.store.save_study(STUDY, RUNS)
        self.client.send(Submit(job_id=job_id, job=JOB, title="Evaluate"))
        self.engine.given()

    def detach(self) -> Detached:
        self.client.send(Detach(database=self.database))
        return self.events.wait(Detached)

    def leave(self) -> None:
        """End the client's program."""
        self.client.leave()
        self.store.close()

    def ends(self) -> bool:
        self.thread.join(PATIENCE)
        return not self.thread.is_alive()
