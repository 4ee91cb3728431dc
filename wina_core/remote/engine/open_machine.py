"""Clients of the engines on another machine."""

from collections.abc import Callable, Sequence
from functools import partial

from wina_core.engine.client.client import EngineClient
from wina_core.files.own_command import own_command
from wina_core.files.paths import log_folder
from wina_core.jobs import Event
from wina_core.remote.machines.ask import ask
from wina_core.remote.machines.messages import MachineFacts, Nothing
from wina_core.specs.machine import Machine


def open_machine(machine: Machine) -> Sequence[Callable[[Callable[[Event], None]], EngineClient]]:
    """Return makers of the clients of a machine's engines.

    Raises WinaError for a machine with an engine for each GPU that cannot be asked for them.
    """
    count = machine.engines or max(1, len(ask(machine, "describe", Nothing(), MachineFacts).devices))
    bridge = own_command("wina_core.remote.engine.bridge")
    log = log_folder() / f"engine-{machine.name}.log"
    commands = ([*bridge, machine.name, str(place), str(count)] for place in range(count))
    return [partial(EngineClient, command=command, log_file=log) for command in commands]
