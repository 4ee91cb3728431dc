"""Members of task groups."""

from collections.abc import Iterator, Mapping
from typing import Any


def members(config: Mapping[str, Any]) -> Iterator[str | Mapping[str, Any]]:
    """Yield the members of a group's configuration: names, and mappings of changed or inlined tasks and groups."""
    listed = config.get("task")
    if isinstance(listed, list):
        yield from (each for each in listed if isinstance(each, (str, Mapping)))


def member_names(config: Mapping[str, Any]) -> list[str]:
    """Return the names of a group's members, those of inlined groups included."""
    names: list[str] = []
    for member in members(config):
        if isinstance(member, str):
            names.append(member)
        else:
            names.append(str(member.get("group") or member.get("task")))
            names += member_names(member)
    return names


def runs_programs(config: Mapping[str, Any]) -> bool:
    """Return whether a task, or one inlined in a group, runs programs that the model writes."""
    if config.get("unsafe_code", False) is not False:
        return True
    return any(isinstance(member, Mapping) and runs_programs(member) for member in members(config))
