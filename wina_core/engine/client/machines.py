"""Clients of the engines on another machine."""

from collections.abc import Callable, Sequence
from functools import partial

from wina_core.engine.client.client import EngineClient
from wina_core.engine.protocol import Event
from wina_core.files.own_command import own_command
from wina_core.files.paths import log_folder
from wina_core.machines.registry import find_machine


def open_machine(name: str) -> Sequence[Callable[[Callable[[Event], None]], EngineClient]]:
    """Return makers of the clients of a machine's engines. Raises WinaError for a machine that is not known."""
    machine = find_machine(name)
    command = [*own_command("wina_core.engine.remote.bridge"), name]
    log = log_folder() / f"engine-{name}.log"
    return [partial(EngineClient, command=command, log_file=log) for _ in range(max(1, machine.engines))]
