"""Machines over ssh and Ray clusters: how each is reached."""

import re
import shlex
from pathlib import PurePath, PurePosixPath
from typing import Annotated, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

LOCAL = "local"
"""The reserved name of this computer."""
_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{1,63}"
_UNSAFE = re.compile(r"[\s\x00-\x1f\x7f'\"`$\\;&<>|(){}]")
"""Characters that OpenSSH refuses in user and host names, since a user's ProxyCommand passes them to a shell."""
_MOST_WORDS = 30_000
"""Characters of a machine's quoted words: a command line has at most 32,767 on Windows, a word 131,071 on Linux."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ADDRESS = re.compile(r"\[?([\w.:-]+?)\]?:(\d{1,5})")
_HIGHEST_PORT = 65_535


def check_name(name: str) -> str:
    """Return a machine's name; raise ValueError for a name that no machine can have."""
    if not re.fullmatch(_NAME, name):
        raise ValueError(
            f"a machine's name has 2 to 64 letters, digits and _.- and begins with a letter or digit, not {name[:80]!r}"
        )
    if name.casefold() == LOCAL:
        raise ValueError(f'"{LOCAL}" means this computer; choose another name')
    return name


def _check_destination(destination: str) -> str:
    user, _, host = destination.removeprefix("ssh://").rpartition("@")
    if _UNSAFE.search(destination) or not host or host.startswith("-") or user.startswith("-"):
        raise ValueError(
            "it should be an ssh destination, such as an alias of your ~/.ssh/config, user@host or "
            f"ssh://user@host:port, without spaces, quotes and a leading -, not {destination[:80]!r}"
        )
    return destination


def _check_command(command: tuple[str, ...]) -> tuple[str, ...]:
    if not command or not command[0] or command[0].startswith("-") or "=" in command[0]:
        raise ValueError("it should begin with a program, such as wina or /opt/wina/bin/wina")
    return command


def _check_variables(environment: dict[str, str]) -> dict[str, str]:
    for name in environment:
        if not _VARIABLE.fullmatch(name):
            raise ValueError(f"{name[:80]!r} is no name of an environment variable")
    return environment


def _check_here(path: str) -> str:
    if not PurePath(path).is_absolute():
        raise ValueError(f"a folder of this computer is absolute, not {path[:80]!r}")
    return path


def _check_there(path: str) -> str:
    if not path.startswith("/"):
        raise ValueError(f"a folder of the machine is absolute and begins with /, not {path[:80]!r}")
    return path


def _check_text(text: str) -> str:
    if "\0" in text:
        raise ValueError("it should have no zero byte")
    return text


def split_address(address: str) -> tuple[str, int] | None:
    """Return host and port of a Ray cluster's address, None for "auto"; raise ValueError for another text."""
    if address == "auto":
        return None
    found = _ADDRESS.fullmatch(address)
    if found is None or int(found[2]) > _HIGHEST_PORT:
        raise ValueError(
            f'"{address[:80]}" is no address of a Ray cluster; give "auto" on one of its nodes, or HOST:PORT as '
            "printed by: ray start --head"
        )
    return found[1], int(found[2])


def _check_address(address: str) -> str:
    split_address(address)
    return address


Text = Annotated[str, Field(max_length=4096), AfterValidator(_check_text)]
"""A word of a command line, a path or the value of a variable."""


class FolderPair(BaseModel):
    """A folder of this computer and the folder on the machine with the same files."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    here: Annotated[Text, AfterValidator(_check_here)]
    """Absolute path on this computer."""
    there: Annotated[Text, AfterValidator(_check_there)]
    """Absolute path on the machine."""


class Machine(BaseModel):
    """A machine that the user's OpenSSH client reaches, and the program `wina` on it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, AfterValidator(check_name)]
    """Name in commands and in locations: 2 to 64 letters, digits and _.-, not "local"."""
    destination: Annotated[str, Field(max_length=512), AfterValidator(_check_destination)]
    """OpenSSH's destination: an alias of ~/.ssh/config, user@host or ssh://user@host:port."""
    command: Annotated[tuple[Text, ...], Field(max_length=32), AfterValidator(_check_command)] = ("wina",)
    """The program `wina` there, to which subcommands are appended; a leading ~/ is the home folder there."""
    folders: Annotated[tuple[FolderPair, ...], Field(max_length=64)] = ()
    """Folders of models, data and results that correspond."""
    environment: Annotated[dict[str, Text], Field(max_length=64), AfterValidator(_check_variables)] = {}
    """Environment variables of the program there."""
    engines: int = Field(default=1, ge=0, le=64)
    """Most engine processes there; 0 is one for each GPU."""
    ssh_config: Annotated[Text, Field(min_length=1)] | None = None
    """A file for `ssh -F`; None for the user's own configuration."""

    @model_validator(mode="after")
    def _check_length(self) -> Self:
        if len(shlex.join((*self.command, *self.environment, *self.environment.values()))) > _MOST_WORDS:
            raise ValueError(f"its command and environment have more than {_MOST_WORDS:,} characters together")
        return self

    def to_remote(self, path: str) -> str | None:
        """Return the machine's path of a path of this computer; None where no pair of folders has it."""
        pairs = [(PurePath(pair.here), PurePosixPath(pair.there)) for pair in self.folders]
        return _translated(PurePath(path), pairs)

    def to_local(self, path: str) -> str:
        """Return this computer's path of a path of the machine; as it is where no pair of folders has it."""
        pairs = [(PurePosixPath(pair.there), PurePath(pair.here)) for pair in self.folders]
        return _translated(PurePosixPath(path), pairs) or path


class RayCluster(BaseModel):
    """A running Ray cluster, on whose nodes engines find a place, and the resources of one engine there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, AfterValidator(check_name)]
    """Name in commands, as a machine's."""
    address: Annotated[str, Field(max_length=512), AfterValidator(_check_address)]
    """HOST:PORT, or "auto" for the cluster of which this computer is a node."""
    gpus: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] | None = None
    """GPUs of one engine; None for one where there are any."""
    cpus: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] | None = None
    """Processors of one engine; None for a node's, without GPUs."""
    memory: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] | None = None
    """Bytes that Ray sets aside for one engine."""
    engines: int = Field(default=0, ge=0)
    """Number of engines; 0 for as many as the cluster has resources for."""


From = TypeVar("From", bound=PurePath)
To = TypeVar("To", bound=PurePath)


def _translated(path: From, pairs: list[tuple[From, To]]) -> str | None:
    """Return the path below the folder of the longest pair that has it; None where none has."""
    found = [(source, target) for source, target in pairs if path.is_relative_to(source)]
    if not found:
        return None
    source, target = max(found, key=lambda pair: len(pair[0].parts))
    return str(target.joinpath(*path.relative_to(source).parts))
