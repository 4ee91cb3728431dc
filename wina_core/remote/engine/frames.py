"""Lines between the bridge and the keeper: numbered in each direction, kept until they are acknowledged."""

from collections.abc import Iterator
from typing import IO, Literal, TypeVar

from pydantic import Field, ValidationError

from wina_core.errors import WinaError
from wina_core.files.version import PROTOCOL, __version__
from wina_core.jobs.message import Message

LARGEST_LINE = 64 * 2**20
"""Bytes of the longest line that is read: an evaluation's unit with all of its documents takes some megabytes."""
SESSION = r"[0-9a-z-]{1,64}"
"""Pattern of a session's name, which is part of paths."""
_VERSION = r"^[0-9A-Za-z.+!-]{1,40}$"


class Breach(WinaError):  # noqa: N818 - read with "raises"
    """A rule that the other side broke. Its message is the object of "sent"."""


class Hello(Message, extra="ignore"):
    """First line of a bridge; a newer one may say more."""

    client: str = Field(pattern=f"^{SESSION}$")
    """Name of this bridge process."""
    protocol: int = PROTOCOL
    version: str = Field(default=__version__, pattern=_VERSION)
    received: int = Field(default=0, ge=0)
    """Number of the last event that it has; 0 before its first."""


class Welcome(Message, extra="ignore"):
    """First line of a keeper; a newer one may say more."""

    protocol: int = PROTOCOL
    version: str = Field(default=__version__, pattern=_VERSION)
    requests: int = Field(default=0, ge=0)
    """Number of this bridge's last request that has arrived."""
    first: int = Field(default=1, ge=1)
    """Number of the first event that is kept."""
    before: int = Field(default=0, ge=0)
    """Number of the last event that was left of earlier bridges when this one came."""
    ready: str = ""
    """The engine's Ready, where its frame is not among the kept ones."""
    job: str = ""
    """Id of the engine's job; empty where it is idle."""
    job_kind: str = ""


class Frame(Message):
    """One numbered line, or a word between bridge and keeper: an acknowledgement, or the end of the engine by force."""

    kind: Literal["request", "event", "log", "exit", "ack", "kill"]
    n: int = Field(ge=0)
    text: str = ""
    """The line without its newline; the exit code for "exit"."""


def read_lines(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield whole lines until the stream ends; one that the end cuts off is left out.

    Raises Breach for one over LARGEST_LINE.
    """
    while (line := stream.readline(LARGEST_LINE + 1)).endswith(b"\n"):
        yield line
    if len(line) > LARGEST_LINE:
        raise Breach(f"a line of over {LARGEST_LINE >> 20} MiB")


M = TypeVar("M", Hello, Welcome, Frame)


def parse(kind: type[M], line: bytes) -> M:
    """Return the message of a line. Raises Breach for a line that is none."""
    try:
        return kind.model_validate_json(line)
    except (ValidationError, RecursionError) as error:
        raise Breach(f"a line that is no {kind.__name__.lower()}: {show(line)}") from error


def show(line: bytes) -> str:
    """Return the beginning of a foreign line, printable."""
    return ascii(line[:100].decode(errors="replace").strip())


def check_protocol(theirs: Hello | Welcome, where: str) -> None:
    """Raise WinaError for a program of another protocol version."""
    if theirs.protocol != PROTOCOL:
        raise WinaError(
            f"WINA Workbench {theirs.version} {where} speaks version {theirs.protocol} of the engine protocol, version "
            f"{__version__} here speaks {PROTOCOL}; install the same version on both machines."
        )
