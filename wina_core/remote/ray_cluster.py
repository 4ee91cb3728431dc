"""The processes of a Ray cluster's engines on this computer: `python -m wina_core.remote.ray_cluster ACTION CLUSTER`.

The action `probe` counts the engines that the cluster has room for. The action `engine` makes one actor, which starts
an engine on a node, and passes lines between that engine's standard streams and its own: an `EngineClient`
(`ray_client`) needs nothing else.
"""

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, BinaryIO, Literal

from wina_core.errors import WinaError
from wina_core.files.version import __version__
from wina_core.jobs import Log, encode
from wina_core.jobs.streams import take_standard_streams
from wina_core.specs.machine import RayCluster, split_address

MAX_ENGINES = 256
"""Engines of one cluster, each of which has a process here."""
LOST = 70
"""Exit code of an engine's process here whose engine was lost with its node or actor."""
KILLED = 128
"""Exit code of an engine that a signal ended, without the signal's number, which is added."""
_START = "Ray is never started by this program; start a cluster with: ray start --head"
_NODE_ID = "ray.io/node-id"
"""Ray's own label of nodes."""
_REACH_SECONDS = 5.0
_PATIENCE_SECONDS = 10.0
"""Time after which an engine that waits for resources says so."""
_READ_SECONDS = 5.0
"""Time that one call waits for lines of an engine."""
_PAUSE_SECONDS = 1.0
"""Pause before an engine whose node was lost while it started is started elsewhere."""
_MOST_FAILURES = 5
"""Failures of Ray to start an engine after which it is given up."""


def check_address(address: str) -> None:
    """Raise WinaError if the address is not "auto" and nothing listens there."""
    host_and_port = split_address(address)
    if host_and_port is None:
        return
    try:
        socket.create_connection(host_and_port, _REACH_SECONDS).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise WinaError(f"No Ray cluster can be reached at {address} ({reason}). {_START}") from None


# ---- actors ----------------------------------------------------------------------------------------------------------
# Ray pickles this module's functions and classes by value, since it runs as __main__: what a node calls uses
# only the standard library until `check_version` has found the same version of the program there.


def check_version(version: str) -> str:
    """Return the reason why this node cannot run an engine of a version of the program; empty if it can."""
    node = f"node {socket.gethostname()}"
    try:
        from wina_core.files.version import __version__ as installed
    except ImportError as error:
        return (
            f"On {node} the program cannot be imported by {sys.executable} ({error}); install wina-workbench {version} "
            "in the Python that Ray runs with there."
        )
    if installed != version:
        return f"On {node} wina-workbench has version {installed}, here {version}; install the same version on both."
    return ""


class NodeEngine:
    """An engine's process on a node. Ray calls the methods on several threads."""

    LONGEST_LINE = 64 * 2**20
    """Bytes; a longer line is passed on in pieces, which are no events."""
    MAX_LINES = 1000
    """Lines that wait; with more, the engine waits."""
    GATHER_SECONDS = 0.002
    """Time for further lines to come along with the first one."""

    def __init__(self) -> None:
        self._lines: queue.Queue[tuple[bool, str] | None] = queue.Queue(self.MAX_LINES)
        self._open_streams = 2

    def start(self, version: str, command: list[str]) -> tuple[str, str, str]:
        """Start the engine; return the node's id and host name, and the reason where none can be started."""
        import ray

        error = check_version(version)
        if not error:
            try:
                self._start(command)
            except OSError as caught:
                error = f"The engine could not be started on node {socket.gethostname()} ({caught})."
        return ray.get_runtime_context().get_node_id(), socket.gethostname(), error

    def _start(self, command: list[str]) -> None:
        if not command:
            from wina_core.files.own_command import own_command

            command = list(own_command("wina_core.engine"))
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        for is_log, stream in ((False, self._process.stdout), (True, self._process.stderr)):
            assert stream is not None
            threading.Thread(target=self._follow, args=(is_log, stream), daemon=True).start()

    def _follow(self, is_log: bool, stream: IO[bytes]) -> None:
        for line in iter(lambda: stream.readline(self.LONGEST_LINE), b""):
            self._lines.put((is_log, line.decode(errors="replace")))
        self._lines.put(None)

    def read(self, seconds: float) -> tuple[str, str, int | None]:
        """Wait for lines, at most so many seconds; return events, log, and once all were read the exit code."""
        lines: list[tuple[bool, str] | None] = []
        with suppress(queue.Empty):
            lines.append(self._lines.get(timeout=seconds))
            time.sleep(self.GATHER_SECONDS)
            while len(lines) < self.MAX_LINES:
                lines.append(self._lines.get_nowait())
        self._open_streams -= lines.count(None)
        out, log = ("".join(line[1] for line in lines if line is not None and line[0] == is_log) for is_log in (0, 1))
        return out, log, None if self._open_streams else self._process.wait()

    def write(self, line: str | None) -> None:
        """Write to the engine's standard input, or close it for None; an engine that has ended reads nothing."""
        assert self._process.stdin is not None
        with suppress(OSError):
            if line is None:
                self._process.stdin.close()
            else:
                self._process.stdin.write(line.encode())
                self._process.stdin.flush()


# ---- the process of one engine here ----------------------------------------------------------------------------------


def connect(address: str) -> Any:
    """Connect this process to a running cluster and return Ray; raise WinaError for none."""
    # Ray sends usage statistics to its makers otherwise.
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    check_address(address)
    try:
        import ray
    except ImportError:
        raise WinaError('Ray is not installed; install it with: pip install "wina-workbench[cluster]"') from None
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False, namespace="wina")
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise WinaError(explain_refusal(address, str(error))) from error
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # Ray's handler would wait for the call that is under way
    return ray


def explain_refusal(address: str, error: str) -> str:
    """Return the sentence on a cluster that Ray did not connect to."""
    if "Could not find any running Ray instance" in error:
        return f"No Ray cluster runs on this machine. {_START}"
    return (
        f"The Ray cluster at {address} cannot be joined from here ({' '.join(error.split())[:300]}). This machine must "
        f"be one of its nodes, with the same versions of Ray and Python: ray start --address={address}"
    )


def _living_nodes(ray: Any) -> dict[str, dict[str, Any]]:
    return {node["NodeID"]: node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")}


def size_engines(cluster: RayCluster, nodes: Sequence[Mapping[str, float]]) -> tuple[int, dict[str, float]]:
    """Return how many engines fit on nodes with these resources, at most MAX_ENGINES, and the resources of one.

    By default an engine takes a GPU where there are any, else as many processors as the smallest node has, so that
    each node gets an engine. Raises WinaError if no node has room for one.
    """
    gpus = cluster.gpus if cluster.gpus is not None else float(any(node.get("GPU", 0.0) >= 1.0 for node in nodes))
    cpus = cluster.cpus
    if cpus is None:
        cpus = 1.0 if gpus else min((count for node in nodes if (count := node.get("CPU", 0.0))), default=1.0)
    needs = {name: amount for name, amount in (("CPU", cpus), ("GPU", gpus), ("memory", cluster.memory)) if amount}
    # 1e-9: 0.3 / 0.1 is less than 3.
    fitting = [int(min(node.get(name, 0.0) / amount + 1e-9 for name, amount in needs.items())) for node in nodes]
    if not any(fitting):
        needed = ", ".join(f"{name} {amount:g}" for name, amount in needs.items())
        raise WinaError(
            f"No node of the Ray cluster has room for an engine, which needs {needed}. Give it less, or start nodes "
            "that have more."
        )
    return min(sum(fitting), MAX_ENGINES), {"cpus": cpus, "gpus": gpus}


class Relay:
    """The lines between a client's streams and an engine on a node."""

    def __init__(self, ray: Any, cluster: RayCluster, command: list[str], requests: Iterable[bytes], wire: BinaryIO):
        self._ray, self._cluster, self._command = ray, cluster, command
        self._wire = wire
        self._requests: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._is_ready = False
        threading.Thread(target=self._take, args=(requests,), name="requests", daemon=True).start()

    def run(self) -> int:
        """Start the engine on one node after another until it speaks, and relay until its end; return the exit code."""
        unfit: set[str] = set()
        cause, failures = "", 0
        while not (nodes := _living_nodes(self._ray)) or not nodes.keys() <= unfit:
            actor = self._make_actor(unfit)
            try:
                node, code, cause = self._relay(actor)
            except self._ray.exceptions.RayError as error:
                if self._is_ready:
                    return LOST
                failures += 1
                if failures == _MOST_FAILURES:
                    cause = " ".join(str(error).split())[-300:]
                    break
                time.sleep(_PAUSE_SECONDS)
                continue
            if self._is_ready:
                return code if code >= 0 else KILLED - code
            self._log("warning", cause)
            unfit.add(node)
            self._ray.kill(actor)
        print(f"No node of the Ray cluster can start an engine. {cause}", file=sys.stderr)
        return 1

    def _make_actor(self, unfit: Iterable[str]) -> Any:
        cluster = self._cluster
        away = {_NODE_ID: f"!in({','.join(sorted(unfit))})"} if unfit else None
        return (
            self._ray.remote(NodeEngine)
            .options(
                num_cpus=cluster.cpus,
                num_gpus=cluster.gpus,
                memory=None if cluster.memory is None else int(cluster.memory),
                max_restarts=0,  # a restarted actor has no engine: `run` makes another actor
                max_concurrency=4,  # a read that waits for lines must not keep a write waiting
                label_selector=away,
            )
            .remote()
        )

    def _relay(self, actor: Any) -> tuple[str, int, str]:
        """Relay an engine's lines until its end; return its node, its exit code and the last line of its log."""
        ray, cause = self._ray, ""
        started = actor.start.remote(__version__, self._command)
        if not ray.wait([started], timeout=_PATIENCE_SECONDS)[0]:
            self._log("info", "An engine waits: no node of the Ray cluster has free resources for this engine.")
        node, host, error = ray.get(started)
        if error:
            return node, 1, error
        print(f"The engine runs on node {host}.", file=sys.stderr, flush=True)
        while True:
            out, log, code = ray.get(actor.read.remote(_READ_SECONDS))
            if out and not self._is_ready:
                self._is_ready = True
                threading.Thread(target=self._pass_on, args=(actor,), name="writer", daemon=True).start()
            self._write(out)
            sys.stderr.write(log)
            sys.stderr.flush()
            cause = log.strip().rpartition("\n")[2] or cause
            if code is not None:
                return node, code, cause

    def _log(self, level: Literal["info", "warning"], text: str) -> None:
        self._write(encode(Log(level=level, text=text)))

    def _write(self, lines: str) -> None:
        self._wire.write(lines.encode())
        self._wire.flush()

    def _take(self, requests: Iterable[bytes]) -> None:
        """Take requests until they end, which ends the engine, too."""
        for line in requests:
            self._requests.put(line.decode())
        self._requests.put(None)
        if not self._is_ready:  # nothing else ends an engine that waits for resources
            os._exit(1)

    def _pass_on(self, actor: Any) -> None:
        with suppress(self._ray.exceptions.RayError):  # `_relay` meets the same end
            line: str | None = ""
            while line is not None:
                line = self._requests.get()
                self._ray.get(actor.write.remote(line))


def main(action: str, cluster_json: str, *command: str) -> int:
    """Count the engines that a cluster has room for, or relay the lines of one engine; return the exit code."""
    requests, wire = take_standard_streams()
    cluster = RayCluster.model_validate_json(cluster_json)
    try:
        ray = connect(cluster.address)
        if action == "probe":
            nodes = [node["Resources"] for node in _living_nodes(ray).values()]
            engines, resources = size_engines(cluster, nodes)
            wire.write(json.dumps({"engines": engines, **resources}).encode())
            wire.flush()
            return 0
        return Relay(ray, cluster, list(command), requests, wire).run()
    except WinaError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    exit_code = main(*sys.argv[1:])
    sys.stderr.flush()
    os._exit(exit_code)  # at once: Ray's threads must not keep it alive
