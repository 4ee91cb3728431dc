"""Settings of an array job of Slurm, as users write them: "partition=gpu,gpus=1,time=2:00:00"."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from wina_core.errors import WinaError

RUNS_PER_ELEMENT = 8
"""Most runs of an element where the user does not choose."""
_COUNTS = {"gpus": "gpus-per-node", "cpus": "cpus-per-task"}
_NAME = re.compile(r"[a-z][a-z0-9-]{0,40}")
_VALUE = re.compile(r"[\w.,:;/@%+=|&*()\[\]! -]{1,200}", re.ASCII)
"""Characters of values; no quote, dollar, backtick, backslash, angle bracket or line end."""
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_MAX_MINUTES = 525_600
_RESERVED = frozenset(
    {"array", "output", "error", "input", "open-mode", "signal", "requeue", "no-requeue", "wrap", "chdir", "job-name"}
    | {"export", "export-file", "uid", "gid", "wait", "parsable", "test-only", "quiet", "help", "usage", "version"}
    | {"clusters", "nodes", "ntasks", "ntasks-per-node", "wckey"}
)
"""Options of sbatch that the workbench sets, or that would change what is run."""


@dataclass(frozen=True)
class SlurmSettings:
    """Settings of an array job; `options` are those of sbatch, by their long names."""

    time: int = 60
    """Limit of an element in minutes, after which it is queued again and continues."""
    parallel: int = 256
    """Most elements that run at the same time."""
    signal: int = 90
    """Seconds before the time limit at which an element stops."""
    options: Mapping[str, str] = field(default_factory=dict)


def parse_settings(texts: Iterable[str]) -> SlurmSettings:
    """Parse settings like "partition=gpu,gpus=1,time=2:00:00"; a part without "=" belongs to the value before it.

    Raises WinaError for a value of another type, for a part that names nothing, and for an option that could change
    what is run.
    """
    values: dict[str, str] = {}
    name = ""
    for piece in (piece for text in texts for piece in text.split(",")):
        left, equals, right = piece.partition("=")
        if equals and _NAME.fullmatch(left.strip()):
            name = left.strip()
            values[name] = right
        elif name and piece:
            values[name] += f",{piece}"
        else:
            raise WinaError(f'The Slurm setting "{piece}" should be NAME=VALUE, for example partition=gpu.')
    usual = SlurmSettings()
    return SlurmSettings(
        time=minutes(values.pop("time")) if "time" in values else usual.time,
        parallel=_count("parallel", values.pop("parallel", str(usual.parallel))),
        signal=_count("signal", values.pop("signal", str(usual.signal))),
        options=dict(_option(*item) for item in values.items()),
    )


def _option(name: str, value: str) -> tuple[str, str]:
    """Return an option of sbatch and its value. Raises WinaError as `parse_settings`."""
    if name in _COUNTS:
        return _COUNTS[name], str(_count(name, value))
    if name == "mem" and not re.fullmatch(r"\d+[KMGT]?B?", value):
        raise WinaError(f'The Slurm setting mem should be a size such as 16G, not "{value}".')
    if any(reserved.startswith(name) for reserved in _RESERVED):  # sbatch takes the beginning of a name, too
        raise WinaError(f"The Slurm setting {name} is set by the workbench; leave it out.")
    if not _VALUE.fullmatch(value):
        raise WinaError(
            f"The Slurm setting {name} is empty, too long or has a character that options of sbatch do not need: "
            f"{value[:200]!r}."
        )
    return name, value


def _count(name: str, value: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,5}", value):
        raise WinaError(f'The Slurm setting {name} should be a whole number from 1 on, not "{value}".')
    return int(value)


def minutes(text: str) -> int:
    """Return Slurm's time in whole minutes: "90", "1:30:00", "90:00", "2-0", "2-12:30"; seconds count up."""
    match = _TIME.fullmatch(text)
    numbers = [] if match is None else [int(number) for number in match.groups()[1:] if number is not None]
    if match is not None and match[1] is not None:
        hours, minute, second = (*numbers, 0, 0)[:3]
        total = int(match[1]) * 1440 + hours * 60 + minute + bool(second)
    elif len(numbers) == 3:
        total = numbers[0] * 60 + numbers[1] + bool(numbers[2])
    else:
        total = sum(numbers[:1]) + any(numbers[1:])
    if not 1 <= total <= _MAX_MINUTES:
        raise WinaError(f'The Slurm setting time should be like 90, 1:30:00 or 2-12 (days-hours), not "{text[:40]}".')
    return total
