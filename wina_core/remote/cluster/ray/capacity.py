"""The engines that fit on the nodes of a cluster."""

from collections.abc import Mapping, Sequence

from wina_core.errors import WinaError
from wina_core.remote.cluster.ray.messages import Resources

MOST_ENGINES = 256
"""Engines of one pool, each of which has some threads here."""
Node = Mapping[str, float]
"""The resources of a node, by Ray's names."""


def choose(asked: Resources, nodes: Sequence[Node]) -> Resources:
    """Return the resources of one engine with what was not given: a GPU where there are any, else a whole node.

    A whole node has as many processors as the smallest one, so that each gets an engine.
    """
    gpus = asked.gpus if asked.gpus is not None else float(any(node.get("GPU", 0.0) >= 1.0 for node in nodes))
    cpus = asked.cpus
    if cpus is None:
        cpus = 1.0 if gpus else min((count for node in nodes if (count := node.get("CPU", 0.0))), default=1.0)
    return Resources(cpus=cpus, gpus=gpus, memory=asked.memory)


def count_engines(chosen: Resources, nodes: Sequence[Node]) -> int:
    """Return the number of engines that fit, at most MOST_ENGINES; raise WinaError if no node has room for one."""
    wanted = {"CPU": chosen.cpus or 0.0, "GPU": chosen.gpus or 0.0, "memory": chosen.memory or 0.0}
    wanted = {name: amount for name, amount in wanted.items() if amount}
    found = sum(int(min(node.get(name, 0.0) / amount + 1e-9 for name, amount in wanted.items())) for node in nodes)
    if not found:
        largest = [_describe({name: node.get(name, 0.0) for name in wanted}) for node in nodes]
        raise WinaError(
            f"No node of the Ray cluster has room for an engine, which needs {_describe(wanted)}; its nodes have "
            f"{'; '.join(dict.fromkeys(largest)) or 'nothing'}. Give it less, or start nodes that have more."
        )
    return min(found, MOST_ENGINES)


def _describe(amounts: Node) -> str:
    units = {"CPU": "processors", "GPU": "GPUs"}
    words = [
        f"{amount / 1e9:.3g} GB of memory" if name == "memory" else f"{amount:g} {units[name]}"
        for name, amount in amounts.items()
    ]
    return ", ".join(words)
