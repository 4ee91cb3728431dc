"""Clients of the engines on another machine."""

from collections.abc import Callable, Sequence
from functools import partial

from wina_core.engine.client.client import EngineClient
from wina_core.engine.protocol import Event
from wina_core.files.own_command import own_command
from wina_core.files.paths import log_folder
from wina_core.machines.ask import ask
from wina_core.machines.messages import MachineFacts, Nothing
from wina_core.machines.registry import find_machine


def open_machine(name: str) -> Sequence[Callable[[Callable[[Event], None]], EngineClient]]:
    """Return makers of the clients of a machine's engines.

    Raises WinaError for a machine that is not known, and for one of an engine for each GPU that cannot be asked.
    """
    machine = find_machine(name)
    count = machine.engines or max(1, len(ask(machine, "describe", Nothing(), MachineFacts).devices))
    bridge = own_command("wina_core.engine.remote.bridge")
    log = log_folder() / f"engine-{name}.log"
    return [
        partial(EngineClient, command=[*bridge, name, str(place), str(count)], log_file=log) for place in range(count)
    ]
