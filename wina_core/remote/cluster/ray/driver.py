"""The Ray driver: orders on stdin, reports on stdout, an actor for each engine.

It ends when its stdin does; Ray then ends its actors, and these their engines.
"""

import queue
import signal
import sys
import threading
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO

from wina_core.errors import WinaError, unforeseen
from wina_core.files.version import __version__
from wina_core.jobs import encode
from wina_core.jobs.streams import take_standard_streams
from wina_core.remote.cluster.ray.actor import NodeEngine
from wina_core.remote.cluster.ray.capacity import choose, count_engines
from wina_core.remote.cluster.ray.connect import NODE_ID, connect, fit_nodes, living_nodes
from wina_core.remote.cluster.ray.messages import (
    ORDERS,
    Connect,
    Connected,
    Exited,
    Open,
    Output,
    Placed,
    Refused,
    Report,
    Resources,
    Signal,
    Waits,
    Write,
)

_READ_SECONDS = 5.0
"""Time that one call waits for lines of an engine."""
_PATIENCE_SECONDS = 10.0
"""Time after which an engine that waits for resources says so."""
LOST = -signal.SIGTERM
"""Exit code of an engine that was lost with its actor or node."""


def main() -> int:
    """Serve the client on the standard streams until it is gone; return the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what a terminal sends to its whole group is for the client
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    requests, wire = take_standard_streams()
    driver = Driver(wire)
    for line in requests:
        driver.take(ORDERS.validate_json(line))
    sys.stdout.flush()
    return 0


@dataclass(eq=False)
class _Held:
    """An actor and what is to be done with it, in order: text to write, or None for SIGTERM."""

    actor: Any
    orders: "queue.SimpleQueue[str | None]" = field(default_factory=queue.SimpleQueue)
    killed: bool = False


class Driver:
    """The actors of one client. `take` is called on one thread, which also connects."""

    def __init__(self, wire: BinaryIO) -> None:
        self._wire = wire
        self._writing = threading.Lock()
        self._engines: dict[int, _Held] = {}
        self._unfit: set[str] = set()
        self._command: list[str] | None = None
        self._resources = Resources()
        self._ray: Any = None

    def report(self, report: Report) -> None:
        """Put one report on the wire."""
        with self._writing:
            self._wire.write(encode(report).encode())
            self._wire.flush()

    def take(self, order: Connect | Open | Write | Signal) -> None:
        """Carry out an order."""
        if isinstance(order, Connect):
            try:
                self.report(self._connect(order))
            except WinaError as error:
                self.report(Refused(error=str(error)))
        elif isinstance(order, Open):
            self._unfit |= {order.avoid} - {""}
            self._open(order.engine)
        elif (held := self._engines.get(order.engine)) is not None:
            if isinstance(order, Write):
                held.orders.put(order.text)
            elif order.kill:
                held.killed = True
                self._ray.kill(held.actor)
            else:
                held.orders.put(None)

    def _connect(self, order: Connect) -> Connected:
        connect(order.address)
        import ray

        self._ray, self._command = ray, None if order.command is None else list(order.command)
        nodes, warnings = fit_nodes(ray)
        if not nodes and warnings:
            raise WinaError(f"No node of the Ray cluster can run an engine. {' '.join(dict.fromkeys(warnings))}")
        self._resources = choose(order.resources, list(nodes.values()))
        self._unfit = set(living_nodes(ray)) - set(nodes)
        count = count_engines(self._resources, list(nodes.values()))
        return Connected(engines=count, warnings=tuple(dict.fromkeys(warnings)))

    # ---- one engine ----------------------------------------------------------------------------------------------

    def _open(self, engine: int) -> None:
        """Make an actor on a node that is fit, and follow it on threads of its own."""
        chosen = self._resources
        living = set(living_nodes(self._ray))
        if living and living <= self._unfit:
            self.report(Exited(engine=engine, code=1, refused="No living node of the Ray cluster can start an engine."))
            return
        away = {NODE_ID: f"!in({','.join(sorted(self._unfit))})"} if self._unfit else None
        actor = (
            self._ray.remote(NodeEngine)
            .options(
                num_cpus=chosen.cpus,
                num_gpus=chosen.gpus,
                memory=None if chosen.memory is None else int(chosen.memory),
                max_restarts=0,
                max_concurrency=4,
                label_selector=away,
            )
            .remote()
        )
        held = self._engines[engine] = _Held(actor)
        threading.Thread(target=self._follow, args=(engine, held), name=f"engine {engine}", daemon=True).start()

    def _follow(self, engine: int, held: _Held) -> None:
        """Report an engine's life until it ends."""
        try:
            self.report(self._live(engine, held))
        except Exception as error:
            lost = isinstance(error, self._ray.exceptions.RayError)
            cause = "was lost with its node or Ray actor" if lost else f"could not be reached: {unforeseen(error)}"
            self.report(Exited(engine=engine, code=LOST, cause="" if held.killed else cause))
        self._engines.pop(engine, None)
        self._ray.kill(held.actor)

    def _live(self, engine: int, held: _Held) -> Exited:
        ray, actor = self._ray, held.actor
        started = actor.start.remote(__version__, self._command)
        if not ray.wait([started], timeout=_PATIENCE_SECONDS)[0]:
            self.report(Waits(engine=engine, reason="no node of the Ray cluster has free resources for this engine"))
        answer = ray.get(started)
        self.report(Placed(engine=engine, node=answer["node"], host=answer["host"]))
        if answer["error"]:
            self.report(Output(engine=engine, log=(answer["error"],)))
            return Exited(engine=engine, code=1)
        threading.Thread(target=partial(self._write, held), name=f"requests {engine}", daemon=True).start()
        while True:
            out, log, code = ray.get(actor.read.remote(_READ_SECONDS))
            if out or log:
                self.report(Output(engine=engine, out=tuple(out), log=tuple(log)))
            if code is not None:
                return Exited(engine=engine, code=code)

    def _write(self, held: _Held) -> None:
        """Write an engine's requests in order."""
        try:
            while True:
                text = held.orders.get()
                call = held.actor.terminate.remote() if text is None else held.actor.write.remote(text)
                self._ray.get(call)
        except self._ray.exceptions.RayError:
            return  # its reader reports the end
