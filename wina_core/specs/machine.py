"""Machines over ssh and Ray clusters: how each is reached."""

import re
from collections import Counter
from pathlib import PurePath, PurePosixPath
from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

LOCAL = "local"
"""The reserved name of this computer."""
_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{1,63}"
_HOST = r"([A-Za-z0-9_][A-Za-z0-9_.+-]*@)?[A-Za-z0-9_][A-Za-z0-9_.-]*"
"""A name of the user's ssh configuration or of the network: nothing that ssh or a shell could take for more."""
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


def _check_host(host: str) -> str:
    if not re.fullmatch(_HOST, host):
        raise ValueError(
            "it should be a host of your ~/.ssh/config, which also holds ports and keys, or user@host, not "
            f"{host[:80]!r}"
        )
    # The host is also the machine's name.
    if host.casefold() == LOCAL:
        raise ValueError(f'"{LOCAL}" means this computer; give the host another name in your ~/.ssh/config')
    return host


def _check_command(command: str) -> str:
    if not command.strip() or command.lstrip().startswith("-") or not command.isprintable():
        raise ValueError("it should begin with a program, such as wina or /opt/wina/bin/wina")
    return command.strip()


def _check_folders(folders: dict[str, str]) -> dict[str, str]:
    for local, remote in folders.items():
        if not PurePath(local).is_absolute():
            raise ValueError(f"a folder of this computer is absolute, not {local[:80]!r}")
        if not remote.startswith("/"):
            raise ValueError(f"a folder of the machine is absolute and begins with /, not {remote[:80]!r}")
    repeated = [remote for remote, count in Counter(map(PurePosixPath, folders.values())).items() if count > 1]
    if repeated:
        raise ValueError(
            f"two folders of this computer are mapped to {str(repeated[0])[:80]!r} of the machine; leave one out"
        )
    return folders


def split_address(address: str) -> tuple[str, int] | None:
    """Return host and port of a Ray cluster's address, None for "auto"; raise ValueError for another text."""
    if address == "auto":
        return None
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match[2]) > _HIGHEST_PORT:
        raise ValueError(
            f'"{address[:80]}" is no address of a Ray cluster; give "auto" on one of its nodes, or HOST:PORT as '
            "printed by: ray start --head"
        )
    return match[1], int(match[2])


def _check_address(address: str) -> str:
    split_address(address)
    return address


class Machine(BaseModel):
    """A host that the user's OpenSSH client reaches, and the program `wina` on it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: Annotated[str, Field(max_length=255), AfterValidator(_check_host)]
    """Host of the user's ssh configuration, or user@host; it is also the machine's name in commands."""
    command: Annotated[str, Field(max_length=4096), AfterValidator(_check_command)] = "wina"
    """The program `wina` there with its environment, as a shell there takes it; subcommands are appended."""
    folders: Annotated[dict[str, str], Field(max_length=64), AfterValidator(_check_folders)] = {}
    """Folder there by the folder here that has the same files."""

    @property
    def name(self) -> str:
        return self.host

    def to_remote(self, path: str) -> str | None:
        """Return the machine's path of a path of this computer; None where no mapped folder has it."""
        pairs = [(PurePath(local), PurePosixPath(remote)) for local, remote in self.folders.items()]
        return _translated(PurePath(path), pairs)

    def to_local(self, path: str) -> str:
        """Return this computer's path of a path of the machine; as it is where no mapped folder has it."""
        pairs = [(PurePosixPath(remote), PurePath(local)) for local, remote in self.folders.items()]
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
    """Return the path below the folder of the longest pair that has it; None where none has it, or with ".."."""
    if ".." in path.parts:  # it may leave the folder, and a machine's paths are not trusted
        return None
    matches = [(source, target) for source, target in pairs if path.is_relative_to(source)]
    if not matches:
        return None
    source, target = max(matches, key=lambda pair: len(pair[0].parts))
    return str(target.joinpath(*path.relative_to(source).parts))
