"""Client of an engine in a Ray actor, and the pool of them."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from pydantic import ValidationError

from wina_core.engine.client.client import Engine, EngineClient
from wina_core.engine.client.engine_end import describe_end
from wina_core.engine.client.pool import EnginePool
from wina_core.errors import WinaError, explain
from wina_core.jobs import EngineRequest, EvaluateJob, Event, Failed, Log, Submit
from wina_core.remote.cluster.ray.messages import Resources
from wina_core.remote.cluster.ray.options import RayOptions
from wina_core.remote.cluster.ray.process import RayDriver, RayProcess

_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 30.0
"""Pause before an engine that could not start is started elsewhere, doubled each time."""
_LOST = "was lost before it began"
_OnEvent = Callable[[Event], None]


class RayClients:
    """The clients of one pool, and the driver that they share."""

    def __init__(self, driver: RayDriver, count: int) -> None:
        """`count` is the number of clients that will be made."""
        self.driver = driver
        self._count = count
        self.clients: list[RayEngineClient] = []
        self._lock = threading.Lock()
        self.fault = ""
        """The reason why an engine could not start, the last one."""
        self._retired = 0
        self._stopped = 0

    def retire(self, reason: str) -> None:
        """Count a client whose engine cannot be started; once all are, they refuse every job for this reason."""
        with self._lock:
            self._retired += 1
            if self._retired < self._count:
                return
        for client in self.clients:
            client.refuse(f"{reason} {self.fault}".rstrip())

    def leave(self) -> None:
        """Count a client that has stopped; the last one ends the driver."""
        with self._lock:
            self._stopped += 1
            if self._stopped != self._count:
                return
        self.driver.stop()


class RayEngineClient(EngineClient):
    """Client of an engine in a Ray actor, on whatever node has the resources.

    A lost engine starts again elsewhere, while the runs that it had go back to the pool. The client is `available`
    while its engine is ready, so that no work waits for resources. `stop` is final.
    """

    gives_back = True

    def __init__(self, on_event: _OnEvent, cluster: RayClients, log_file: Path | None = None) -> None:
        super().__init__(on_event, log_file=log_file)
        self._cluster = cluster
        self._unready = 0
        """Engines in a row that ended before they were ready."""
        self._avoid = ""
        self._refusal = ""
        self._closed = False
        cluster.clients.append(self)

    @property
    def available(self) -> bool:
        """True while its engine is ready; or if every job is refused, so that none waits for ever."""
        with self._lock:
            return bool(self._refusal) or (self._engine is not None and self._engine.ready)

    def send(self, request: EngineRequest) -> None:
        """Submit, cancel, pause, resume or release the job; see `EngineClient.send`."""
        if isinstance(request, Submit) and self._refusal:
            self._on_event(Failed(job_id=request.job_id, error=self._refusal))
        elif isinstance(request, Submit) and isinstance(request.job, EvaluateJob) and not self.available:
            failed = Failed(job_id=request.job_id, error=f"The engine {_LOST}.", engine_end=_LOST, not_begun=True)
            self._on_event(failed)  # it was lost after the pool had chosen it
        else:
            super().send(request)

    def stop(self) -> None:
        """End the engine, at once if it is not ready yet, and with the last client the driver."""
        with self._lock:
            first, self._closed = not self._closed, True
            engine = self._engine
            if engine is not None and not engine.ready:
                engine.stopping = True
                engine.process.kill()
        super().stop()
        if first:
            self._cluster.leave()

    def refuse(self, reason: str) -> None:
        """Fail every job from now on for this reason."""
        self._refusal = reason
        self._on_event(Log(level="error", text=reason))

    def open_process(self) -> RayProcess:
        """Start an engine on some node."""
        return self._cluster.driver.open(self._avoid, self._on_wait)

    def describe_end(self, engine: Engine, code: int) -> str:
        """Return the cause of an engine's end as the predicate of "the engine"."""
        end = cast(RayProcess, engine.process).end
        return end.cause if end is not None and end.cause else describe_end(code, engine.log.tail, None)

    def _on_wait(self, reason: str) -> None:
        self._on_event(Log(level="info", text=f"An engine waits: {reason}."))

    def _on_engine_exit(self, engine: Engine, code: int) -> None:
        """End the job, then start another engine, later and elsewhere if this one was never ready."""
        process = cast(RayProcess, engine.process)
        lost = process.end is not None and bool(process.end.cause)
        engine.stopping |= lost and not engine.ready and self._job is None  # nothing to report: it starts elsewhere
        super()._on_engine_exit(engine, code)
        self._avoid = "" if engine.ready or lost else process.node
        self._unready = 0 if engine.ready else self._unready + 1
        if not engine.ready and engine.log.tail:
            self._cluster.fault = self._cause(engine, code)
        if process.end is not None and process.end.refused:
            self._cluster.retire(process.end.refused)
        else:
            pause = 0.0 if engine.ready else min(_PAUSE_SECONDS * 2.0**self._unready, _LONGEST_PAUSE_SECONDS)
            timer = threading.Timer(pause, self._restart)
            timer.daemon = True
            timer.start()

    def _restart(self) -> None:
        with self._lock:
            if not self._closed and self._engine is None:
                self.start()


def open_ray_engines(
    on_event: _OnEvent, options: RayOptions, engines: int = 0, *, command: tuple[str, ...] | None = None
) -> EnginePool:
    """Return a pool of engines on the nodes of a running Ray cluster, which start at once.

    `engines` is 0 for as many as the cluster has resources for. `command` starts an engine on a node.

    Raises WinaError if no cluster runs there, or no node of it can run an engine; waits for the nodes' answers.
    """
    cluster, count = _connect(options, engines, command)
    pool = EnginePool(on_event, [{}] * count, lambda to, _: RayEngineClient(to, cluster))
    for warning in cluster.driver.connected.warnings:
        on_event(Log(level="warning", text=warning))
    for client in cluster.clients:
        client.start()
    return pool


def ray_clients(options: RayOptions, engines: int = 0) -> Sequence[Callable[[_OnEvent], RayEngineClient]]:
    """Return makers of the clients of engines on a running Ray cluster, which start when they are made.

    Raises WinaError as `open_ray_engines`.
    """
    cluster, count = _connect(options, engines)

    def make(on_event: _OnEvent) -> RayEngineClient:
        client = RayEngineClient(on_event, cluster)
        client.start()
        return client

    return [make] * count


def _connect(options: RayOptions, engines: int, command: tuple[str, ...] | None = None) -> tuple[RayClients, int]:
    """Return a cluster, and the number of its clients."""
    try:
        resources = Resources(cpus=options.cpus, gpus=options.gpus, memory=options.memory)
    except ValidationError as error:
        raise WinaError(f"The resources of an engine on Ray: {explain(error)}") from None
    driver = RayDriver(options.address, resources, command)
    count = engines or driver.connected.engines
    return RayClients(driver, count), count
