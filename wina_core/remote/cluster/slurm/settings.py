"""Settings of an array job, as `--slurm partition=gpu,gpus=1,time=2:00:00` gives them."""

import re
from collections.abc import Iterable
from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from wina_core.errors import WinaError
from wina_core.jobs.message import Message

Option = Annotated[str, StringConstraints(min_length=1, max_length=200)]

RUNS_PER_ELEMENT = 8
"""Most runs of an element where the user does not choose."""

_TEXTS = {name: name for name in ("partition", "account", "qos", "constraint", "nodelist", "exclude", "reservation")}
_TEXTS |= {"gres": "gres", "comment": "comment", "mem": "mem", "exclusive": "exclusive"}
_COUNTS = {"gpus": "gpus-per-node", "cpus": "cpus-per-task"}
_OWN = ("time", "parallel", "signal")
_NAME = re.compile(r"[a-z][a-z0-9-]{0,40}")
_VALUE = re.compile(r"[\w.,:;/@%+=|&*()\[\]! -]+", re.ASCII)
"""Characters of values; no quote, dollar, backtick, backslash, angle bracket or line end."""
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_TAKEN = frozenset(
    {"array", "output", "error", "input", "open-mode", "signal", "requeue", "no-requeue", "wrap", "chdir", "job-name"}
    | {"export", "export-file", "uid", "gid", "wait", "parsable", "test-only", "quiet", "help", "usage", "version"}
    | {"clusters", "nodes", "ntasks", "ntasks-per-node", "wckey"}
)
"""Options of sbatch that the workbench sets, or that would change what is run."""


class SlurmSettings(Message):
    """Settings of an array job; `options` are those of sbatch, by their long names."""

    time: int = Field(default=60, ge=1, le=525_600)
    """Limit of an element in minutes, after which it is queued again and continues."""
    parallel: int = Field(default=256, ge=1, le=100_000)
    """Most elements that run at the same time."""
    signal: int = Field(default=90, ge=1, le=65_535)
    """Seconds before the time limit at which an element stops."""
    options: dict[str, Option] = Field(default_factory=dict, max_length=50)

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name, value in self.options.items():
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not the name of an option of sbatch")
            if any(taken.startswith(name) for taken in _TAKEN):  # sbatch takes the beginning of a name, too
                raise ValueError(f"the option {name} is set by the workbench; leave it out")
            if not _VALUE.fullmatch(value):
                raise ValueError(f"the option {name} has a character that options of sbatch do not need: {value!r}")
        return self


def parse_settings(given: Iterable[str]) -> SlurmSettings:
    """Parse settings like "partition=gpu,gpus=1,time=2:00:00"; a part without "=" belongs to the value before it.

    Raises WinaError for a value of another type and for a part that names nothing.
    """
    found: dict[str, str] = {}
    name = ""
    for part in (part for text in given for part in text.split(",")):
        left, equals, right = part.partition("=")
        if equals and _NAME.fullmatch(left.strip()):
            name = left.strip()
            found[name] = right
        elif name and part:
            found[name] += f",{part}"
        else:
            raise WinaError(f'The Slurm setting "{part}" should be NAME=VALUE, for example partition=gpu.')
    own = {name: _own(name, found.pop(name)) for name in _OWN if name in found}
    options = {}
    for name, value in found.items():
        if name in _COUNTS:
            options[_COUNTS[name]] = str(_count(name, value))
        elif name == "mem" and not re.fullmatch(r"\d+[KMGT]?B?", value):
            raise WinaError(f'The Slurm setting mem should be a size such as 16G, not "{value}".')
        else:
            options[_TEXTS.get(name, name)] = value
    return SlurmSettings.model_validate({**own, "options": options})


def _own(name: str, value: str) -> int:
    return minutes(value) if name == "time" else _count(name, value)


def _count(name: str, value: str) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", value):
        raise WinaError(f'The Slurm setting {name} should be a whole number, not "{value}".')
    return int(value)


def minutes(text: str) -> int:
    """Return Slurm's time in whole minutes: "90", "1:30:00", "90:00", "2-0", "2-12:30"; seconds count up."""
    found = _TIME.fullmatch(text)
    if found is None or len(text) > 20:
        raise WinaError(f'The Slurm setting time should be like 90, 1:30:00 or 2-12 (days-hours), not "{text}".')
    days, *parts = found.groups()
    numbers = [int(part) for part in parts if part is not None]
    if days is not None:
        hours, minute, second = (*numbers, 0, 0)[:3]
        return int(days) * 1440 + hours * 60 + minute + bool(second)
    if len(numbers) == 3:
        return numbers[0] * 60 + numbers[1] + bool(numbers[2])
    return numbers[0] + bool(len(numbers) == 2 and numbers[1])
