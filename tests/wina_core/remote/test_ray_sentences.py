"""Sentences on clusters, nodes and options that cannot be used, without a cluster."""

import socket
import subprocess
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from wina_core.errors import WinaError
from wina_core.files.version import __version__
from wina_core.remote.ray_client import ray_clients
from wina_core.remote.ray_cluster import MAX_ENGINES, check_version, size_engines
from wina_core.specs.machine import RayCluster

GPU_NODE = {"CPU": 16.0, "GPU": 4.0, "memory": 64e9}
SMALL, LARGE = {"CPU": 4.0, "memory": 8e9}, {"CPU": 64.0, "memory": 256e9}


def asked(**fields: Any) -> RayCluster:
    return RayCluster.model_validate({"name": "grid", "address": "auto"} | fields)


def test_ray_is_imported_by_the_processes_of_engines_alone() -> None:
    program = "import sys, wina_core.cli, wina_core.remote.machine_client; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_a_cluster_that_does_not_run_is_never_started() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(WinaError, match=rf"{address} \(Connection refused\).*ray start --head"):
            ray_clients(asked(address=address))


@pytest.mark.parametrize("address", ["local", "ray://head:10001", "head", "head:99999", "head:6379; rm", ""])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ValidationError, match="is no address of a Ray cluster"):
        asked(address=address)


def test_a_node_must_have_the_same_version_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not check_version(__version__)
    assert f"has version {__version__}, here 99.0" in check_version("99.0")
    monkeypatch.setitem(sys.modules, "wina_core.files.version", None)
    assert f"install wina-workbench {__version__} in the Python" in check_version(__version__)


@pytest.mark.parametrize(
    ("cluster", "nodes", "engines"),
    [
        (asked(), [GPU_NODE, SMALL], 4),  # one for each GPU
        (asked(gpus=0.5), [GPU_NODE], 8),
        (asked(gpus=0.5, memory=32e9), [GPU_NODE], 2),
        (asked(), [SMALL, SMALL], 2),  # one for each node
        (asked(cpus=1), [SMALL, LARGE], 68),
        (asked(cpus=0.1), [LARGE], MAX_ENGINES),
    ],
)
def test_engines_are_counted_by_the_resources_of_each_node(
    cluster: RayCluster, nodes: list[dict[str, float]], engines: int
) -> None:
    assert size_engines(cluster, nodes)[0] == engines


def test_an_engine_for_which_no_node_has_room_is_refused() -> None:
    with pytest.raises(WinaError, match="needs CPU 1, GPU 8"):
        size_engines(asked(gpus=8), [GPU_NODE])
