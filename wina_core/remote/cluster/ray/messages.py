"""Messages between the clients of engines and the Ray driver: one JSON object per line."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from wina_core.jobs import Message


class Resources(Message):
    """Resources of one engine; None for what suits the cluster: a GPU where there are any, else a node's processor."""

    cpus: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    gpus: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    memory: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Bytes that Ray sets aside."""


class Connect(Message):
    """Connect to a cluster; answered by Connected or Refused."""

    type: Literal["connect"] = "connect"
    address: str
    resources: Resources
    command: tuple[str, ...] | None = None
    """Command that starts an engine on a node; None for the program's own."""


class Open(Message):
    """Start an engine on a node, in a new actor."""

    type: Literal["open"] = "open"
    engine: int
    avoid: str = ""
    """Id of a node where it could not start, which gets no more engines."""


class Write(Message):
    """Write to an engine's standard input."""

    type: Literal["write"] = "write"
    engine: int
    text: str


class Signal(Message):
    """Send SIGTERM to an engine, or end it and its actor at once."""

    type: Literal["signal"] = "signal"
    engine: int
    kill: bool


class Connected(Message):
    """Number of engines for which the cluster has resources, and sentences on nodes that cannot be used."""

    type: Literal["connected"] = "connected"
    engines: int = Field(ge=1)
    warnings: tuple[str, ...] = ()


class Refused(Message):
    """No engine can be started, as one sentence says."""

    type: Literal["refused"] = "refused"
    error: str


class Placed(Message):
    """An engine's process was started on a node."""

    type: Literal["placed"] = "placed"
    engine: int
    node: str
    host: str


class Waits(Message):
    """An engine waits for free resources."""

    type: Literal["waits"] = "waits"
    engine: int
    reason: str


class Output(Message):
    """Lines of an engine's standard output and of its log."""

    type: Literal["output"] = "output"
    engine: int
    out: tuple[str, ...] = ()
    log: tuple[str, ...] = ()


class Exited(Message):
    """An engine ended, or could not be started."""

    type: Literal["exited"] = "exited"
    engine: int
    code: int
    cause: str = ""
    """The cause as the predicate of "the engine", where it is another one than the exit code."""
    refused: str = ""
    """The reason why no other try would succeed, as one sentence."""


Order = Connect | Open | Write | Signal
Report = Connected | Refused | Placed | Waits | Output | Exited

ORDERS: TypeAdapter[Order] = TypeAdapter(
    Annotated[Order, Field(discriminator="type")], config=ConfigDict(defer_build=True)
)
REPORTS: TypeAdapter[Report] = TypeAdapter(
    Annotated[Report, Field(discriminator="type")], config=ConfigDict(defer_build=True)
)
