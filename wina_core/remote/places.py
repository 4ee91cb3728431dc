"""Engines of the machines and clusters that the user has added."""

from collections.abc import Callable, Sequence
from functools import partial

from wina_core.engine.client.client import EngineClient
from wina_core.jobs import Event
from wina_core.remote.machine_client import MachineClient
from wina_core.remote.ray_cluster import ray_clients
from wina_core.remote.registry import find_machine, find_place
from wina_core.specs.machine import RayCluster


def open_place(name: str) -> Sequence[Callable[[Callable[[Event], None]], EngineClient]]:
    """Return makers of the clients of a place's engines. Raises WinaError for one that is not known or not reached."""
    place = find_place(name)
    if isinstance(place, RayCluster):
        return ray_clients(place)
    return [partial(MachineClient, machine=place, find_machine=find_machine)]
