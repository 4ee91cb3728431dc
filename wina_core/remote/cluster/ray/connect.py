"""The connection of the Ray driver to a cluster, and the nodes that can run engines."""

import os
import re
import socket
from typing import Any

from wina_core.errors import WinaError
from wina_core.files.version import __version__
from wina_core.remote.cluster.ray import actor
from wina_core.specs.machine import split_address

START = "Ray is never started by this program; start a cluster with: ray start --head"
NODE_ID = "ray.io/node-id"
"""Ray's own label of nodes."""
_PROBE_SECONDS = 60.0
"""Time for a node to start a worker and to import the version of the program."""
_REACH_SECONDS = 5.0


def check_address(address: str) -> None:
    """Raise WinaError unless an address is "auto" or HOST:PORT and, for the latter, something listens there."""
    try:
        place = split_address(address)
    except ValueError as error:
        raise WinaError(str(error)) from None
    if place is None:
        return
    try:
        socket.create_connection(place, _REACH_SECONDS).close()
    except OSError as error:
        reason = error.strerror or str(error)
        raise WinaError(f"No Ray cluster can be reached at {address} ({reason}). {START}") from None


def connect(address: str) -> None:
    """Connect this process to a running cluster; raise WinaError for none."""
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
    # An engine's module is sent as code: a node without the program could not import it.
    ray.cloudpickle.register_pickle_by_value(actor)


def explain_refusal(address: str, error: str) -> str:
    """Return the sentence on a cluster that Ray did not connect to."""
    versions = re.findall(r"Ray: (\S+)\s+Python: (\S+)", error)
    if len(versions) == 2:
        (ray, python), (own_ray, own_python) = versions
        return (
            f"The Ray cluster at {address} runs Ray {ray} on Python {python}, this program Ray {own_ray} on Python "
            f"{own_python}; use the same versions on both."
        )
    if "Could not find any running Ray instance" in error:
        return f"No Ray cluster runs on this machine. {START}"
    first = " ".join(error.split())
    return (
        f"The Ray cluster at {address} cannot be joined from here ({first[:300]}). This machine must be one of its "
        f"nodes: ray start --address={address}"
    )


def fit_nodes(ray: Any) -> tuple[dict[str, dict[str, float]], list[str]]:
    """Return the resources of each living node that can run engines by its id, and a sentence on each other one."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy as OnNode

    nodes = living_nodes(ray)
    probe = ray.remote(num_cpus=0, max_retries=0)(actor.describe_node)
    asked = {
        probe.options(scheduling_strategy=OnNode(node_id=name, soft=False)).remote(__version__): name for name in nodes
    }
    done, late = ray.wait(list(asked), num_returns=len(asked), timeout=_PROBE_SECONDS) if asked else ([], [])
    fit, warnings = {}, []
    for ref in done:
        error = _error_of(ray, ref)
        if error:
            warnings.append(error)
        else:
            fit[asked[ref]] = nodes[asked[ref]]["Resources"]
    for ref in late:
        host = nodes[asked[ref]].get("NodeManagerHostname", asked[ref])
        warnings.append(f"Node {host} did not answer within {_PROBE_SECONDS:.0f} s.")
    return fit, warnings


def living_nodes(ray: Any) -> dict[str, dict[str, Any]]:
    """Return Ray's description of each living node with processors by its id."""
    return {node["NodeID"]: node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")}


def _error_of(ray: Any, ref: Any) -> str:
    try:
        return str(ray.get(ref)["error"])
    except ray.exceptions.RayError as error:
        return f"A node of the Ray cluster cannot be used ({' '.join(str(error).split())[-300:]})."
