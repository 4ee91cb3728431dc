"""Clients of engines on the nodes of a Ray cluster that runs already.

This process never imports Ray, which installs signal handlers and threads, and aborts its process once the head node is
lost. Only the processes of `ray_cluster` do: one counts the engines, and one for each engine passes its lines on.
"""

import json
import signal
import subprocess
import time
from collections.abc import Callable, Sequence

from wina_core.engine.client.client import Engine, EngineClient
from wina_core.engine.client.end_texts import describe_end
from wina_core.errors import WinaError
from wina_core.files.own_command import own_command
from wina_core.jobs import EngineRequest, Event, Failed, Log, Submit
from wina_core.remote.ray_cluster import KILLED, LOST
from wina_core.specs.machine import RayCluster

REFUSAL_SECONDS = 60.0
"""Time for which jobs are refused at once after no engine could be started."""
_CONNECT_SECONDS = 180.0
"""Time for everything until the engines are counted."""
_PROCESS = "wina_core.remote.ray_cluster"
_OnEvent = Callable[[Event], None]


class RayEngineClient(EngineClient):
    """Client of an engine on whatever node has the resources.

    A lost engine starts again elsewhere, while the runs that it had go back to the pool. The client is `available`
    while its engine is ready, so that no work waits for resources; once no engine of the cluster can be started, each
    is, and refuses every job for a while. `stop` is final.
    """

    def __init__(self, on_event: _OnEvent, command: Sequence[str], cluster: "list[RayEngineClient]") -> None:
        """Join the other clients of the cluster."""
        super().__init__(on_event, command=command)
        self._cluster = cluster
        self._refusal, self._refused = "", 0.0
        self._is_lost = self._is_closed = False
        cluster.append(self)

    @property
    def available(self) -> bool:
        """True while its engine is ready; or if every job is refused, so that none waits for ever."""
        return self._is_ready or all(client._refusal for client in self._cluster)

    @property
    def _is_ready(self) -> bool:
        with self._lock:
            return self._engine is not None and self._engine.ready

    def send(self, request: EngineRequest) -> None:
        """Submit, cancel, pause or resume the job; see `EngineClient.send`."""
        if not isinstance(request, Submit):
            super().send(request)
            return
        if self._refusal and time.monotonic() - self._refused > REFUSAL_SECONDS:
            for client in self._cluster:
                client.start_again()
        if self._refusal:
            self._on_event(Failed(job_id=request.job_id, error=self._refusal))
        elif self._is_ready:
            super().send(request)
        else:  # it was lost after the pool had chosen it, or starts again
            lost = "was lost before it began"
            failed = Failed(job_id=request.job_id, error=f"The engine {lost}.", engine_end=lost, not_begun=True)
            self._on_event(failed)

    def stop(self) -> None:
        """End the engine, at once if it is not ready yet."""
        with self._lock:
            self._is_closed = True
            if self._engine is not None and not self._engine.ready:
                self._engine.stopping = True
                self._engine.process.kill()
        super().stop()

    def start_again(self) -> None:
        """Start an engine where there is none, and take jobs once it is ready."""
        with self._lock:
            self._refusal = ""
            if not self._is_closed and self._engine is None:
                self.start()

    def describe_end(self, engine: Engine, code: int) -> str:
        # None: this computer counts no processes that a node's kernel kills.
        return "was lost with its node or Ray actor" if self._is_lost else describe_end(code, engine.log.tail, None)

    def _on_engine_exit(self, engine: Engine, code: int) -> None:
        """End the job, and start another engine; one that never was ready had tried all nodes."""
        self._is_lost = code == LOST
        if self._is_lost:
            code = -signal.SIGTERM  # it says nothing about the work
        elif code > KILLED:
            code = KILLED - code
        super()._on_engine_exit(engine, code)
        if engine.ready or engine.stopping:
            self.start_again()
        else:
            self._refusal, self._refused = self._cause(engine, code), time.monotonic()
            self._on_event(Log(level="error", text=self._refusal))


def ray_clients(cluster: RayCluster, command: Sequence[str] = ()) -> Sequence[Callable[[_OnEvent], RayEngineClient]]:
    """Return makers of the clients of a running cluster's engines, which start when they are made.

    `command` starts an engine on a node, by default the program's own. Raises WinaError if no cluster runs there or no
    node has room for an engine.
    """
    sizes = _probe_cluster(cluster)
    sized = cluster.model_copy(update={name: sizes[name] for name in ("cpus", "gpus")})
    relay = (*own_command(_PROCESS), "engine", sized.model_dump_json(), *command)
    clients: list[RayEngineClient] = []

    def make(on_event: _OnEvent) -> RayEngineClient:
        client = RayEngineClient(on_event, relay, clients)
        client.start()
        return client

    return [make] * (cluster.engines or int(sizes["engines"]))


def _probe_cluster(cluster: RayCluster) -> dict[str, float]:
    """Return the number of engines and the resources of one."""
    command = (*own_command(_PROCESS), "probe", cluster.model_dump_json())
    advice = f"Check the cluster with: ray status --address={cluster.address}"
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_CONNECT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise WinaError(f"The Ray cluster at {cluster.address} does not answer. {advice}") from error
    if done.returncode == 0:
        answer: dict[str, float] = json.loads(done.stdout)
        return answer
    cause = done.stderr.strip().rpartition("\n")[2]
    if done.returncode == 1 and cause:
        raise WinaError(cause)
    raise WinaError(f"Ray did not connect to the cluster at {cluster.address} ({cause[:300]}). {advice}")
