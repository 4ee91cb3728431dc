"""Content of another machine's events: what no database holds is refused, what controls a terminal is taken out."""

import math
from collections.abc import Iterable
from typing import TypeVar

from wina_core.errors import WinaError, printable
from wina_core.jobs import (
    CompletionFinished,
    Failed,
    Log,
    Measured,
    Message,
    Partial,
    Progress,
    Ready,
    Result,
    RunFailed,
)

_LONGEST_WORD, _LONGEST_SENTENCE, _LONGEST_TEXT = 1000, 3000, 2**16
_MOST = 1e15
"""Largest amount of progress, and of seconds."""
M = TypeVar("M", bound=Message)


class Breach(WinaError):  # noqa: N818 - read with "raises"
    """A rule that another machine broke. Its message is the object of "sent"."""


def safe(message: M) -> M:
    """Return a message whose texts can be shown and whose numbers can be stored.

    Raises Breach for a number that is none or too large, and for a name that cannot be shown; longer texts are cut.
    """
    return message.model_copy(update=_readable(message))


def _readable(event: Message) -> dict[str, str]:
    """Return the texts of an event without what would control a terminal; Breach as `safe`."""
    match event:
        case Log():
            return {"text": _readable_lines(event.text)}
        case Progress():
            amounts = [each for each in (event.done, event.total, event.eta_seconds) if each is not None]
            if not all(0.0 <= each <= _MOST for each in amounts):
                raise Breach("progress that is no amount")
            texts = ("unit", "metric", "stage", "changed")
            return {name: printable(getattr(event, name))[:_LONGEST_WORD] for name in texts}
        case Failed() | RunFailed():
            error = printable(event.error[:_LONGEST_SENTENCE])
            return {"error": error, "detail": _readable_lines(event.detail)}
        case Ready():
            for each in (event.environment, *event.timing):
                _check_names((each.device, each.hardware, *each.versions, *each.versions.values()))
        case Partial():
            if not 0.0 <= event.unit.seconds <= _MOST:
                raise Breach("a time that is none")
            _check_names(name for each in event.unit.metrics for name in (each.task, each.metric))
            _check_names(name for each in event.unit.layers for name in (each.projection, each.metric))
            _check_numbers(event)
        case Measured():
            _check_numbers(event, nan=False)
        case CompletionFinished() | Result():
            _check_numbers(event)
    return {}


def _check_names(names: Iterable[str]) -> None:
    if not all(name.isprintable() and len(name) <= _LONGEST_WORD for name in names):
        raise Breach("a name that cannot be shown")


def _check_numbers(event: Message, *, nan: bool = True) -> None:
    """Raise Breach for numbers that no database holds, where it takes NaN or not."""
    if not _is_storable(event.model_dump(), nan):
        raise Breach("a number that is none, or too large")


def _is_storable(value: object, nan: bool) -> bool:
    match value:
        case dict():
            return all(_is_storable(each, nan) for each in value.values())
        case list() | tuple():
            return all(_is_storable(each, nan) for each in value)
        case float():
            return nan or not math.isnan(value)
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def _readable_lines(text: str) -> str:
    return "\n".join(map(printable, text[-_LONGEST_TEXT:].split("\n")))
