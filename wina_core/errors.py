"""The one exception whose message users see, and sentences made of pydantic's errors."""

import re
import signal as signals
import sys
from collections.abc import Iterable, Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails

_LONGEST_MESSAGE = 3000


class WinaError(Exception):
    """A foreseen failure. Its message says what happened, with which value, and what to do.

    The command line prints it without a traceback, the engine sends it as a `Failed` message, and the window shows it
    on its page. Any other exception is a defect and keeps its traceback.
    """

    def __init__(self, message: str) -> None:
        # The value that a message names may be a whole file: the middle of a long one is left out.
        half = _LONGEST_MESSAGE // 2
        super().__init__(message if len(message) <= 2 * half else f"{message[:half]} ... {message[-half:]}")


class Cancelled(Exception):  # noqa: N818 - a request that was honoured, not an error
    """A requested end of a job, raised between two batches."""


class Terminated(Cancelled):
    """A cancellation by a signal that ends programs: SIGTERM or SIGHUP."""

    def __init__(self, signal: int) -> None:
        super().__init__()
        self.signal = signal


def ending_signals() -> list[int]:
    """Return the signals that end a program; not SIGHUP under nohup, which ignores it, nor on Windows."""
    ending: list[int] = [signals.SIGINT, signals.SIGTERM]
    if sys.platform != "win32" and signals.getsignal(signals.SIGHUP) is not signals.SIG_IGN:
        ending.append(signals.SIGHUP)
    return ending


def near_matches(name: str, names: Iterable[str]) -> str:
    """Return "did you mean arc_easy?", which ends a sentence on an unknown name; empty if no name is close."""
    from rapidfuzz import fuzz, process  # needed only to report an error

    close = [match for match, _, _ in process.extract(name, list(names), limit=3, score_cutoff=60, scorer=fuzz.ratio)]
    return f"did you mean {' or '.join(close)}?" if close else ""


Location = tuple[str | int, ...]
"""The names and numbers that lead to a field."""


def explain(error: ValidationError, *, with_classes: bool = False) -> str:
    """Return one sentence that names the faulty field: "sparsities[2]: it should be less than 1, not 1.5.".

    `with_classes`, for callers in Python, a spec is an instance of its class, not a group of named settings.
    """
    (location, reason), *further = problems(error, with_classes=with_classes)
    rest = f" (and {len(further)} more)" if further else ""
    field = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in location).lstrip(".")
    return f"{field}: {reason}{rest}." if field else f"{reason[0].upper()}{reason[1:]}{rest}."


def problems(error: ValidationError, *, with_classes: bool = False) -> list[tuple[Location, str]]:
    """Return each faulty place and its fault as a part of a sentence, in order; `with_classes` as in `explain`.

    pydantic reports a field of several possible kinds once for each kind. Only the kinds nearest to the value count.
    """
    faults = error.errors(include_url=False)
    # A list with a bad item is also reported as too short; the item matters.
    faults = [problem for problem in faults if problem["type"] != "too_short"] or faults
    depths: dict[Location, int] = {}
    for problem in faults:
        kind = _kind(problem["loc"])
        depths[kind] = max(depths.get(kind, 0), len(_field(problem["loc"])))
    nearest: dict[Location, int] = {}
    for kind, depth in depths.items():
        nearest[_field(kind)] = max(nearest.get(_field(kind), 0), depth)
    alternatives: dict[Location, list[ErrorDetails]] = {}
    for problem in faults:
        kind = _kind(problem["loc"])
        if depths[kind] == nearest[_field(kind)]:
            alternatives.setdefault(_field(problem["loc"]), []).append(problem)
    return [(field, _reason(reported, with_classes)) for field, reported in alternatives.items()]


def _kind(location: Location) -> Location:
    """Return a location up to the first name of a kind; all of it without one."""
    return next((location[: end + 1] for end, key in enumerate(location) if _names_kind(key)), location)


# pydantic puts the name of each kind that it tried into the location, as in ("tasks", 0, "TaskSpec", "limit").
def _field(location: Location) -> Location:
    return tuple(key for key in location if not _names_kind(key))


def _names_kind(key: str | int) -> bool:
    return isinstance(key, str) and (key in ("str", "int", "float", "bool", "none") or not _FIELD.fullmatch(key))


_FIELD = re.compile(r"[a-z][a-z0-9_]*")


def _reason(alternatives: Sequence[ErrorDetails], with_classes: bool) -> str:
    """Return the fault at one place: for fields of several kinds, "it should be this or that, not what it is"."""
    reasons = list(dict.fromkeys(_one_reason(problem, with_classes) for problem in alternatives))
    ending = f", not {_quoted(alternatives[0]['input'])}"
    if len(reasons) > 1 and all(reason.startswith(_SHOULD) and reason.endswith(ending) for reason in reasons):
        kinds = [reason.removeprefix(_SHOULD).removesuffix(ending) for reason in reasons]
        return f"{_SHOULD}{' or '.join(kinds)}{ending}"
    return reasons[0]


_SHOULD = "it should be "


def _one_reason(problem: ErrorDetails, with_classes: bool) -> str:
    context = problem.get("ctx", {})
    match problem["type"]:
        case "extra_forbidden":
            return "there is no such setting"
        case "missing":
            return "it is missing"
        case "value_error":
            return problem["msg"].removeprefix("Value error, ")
        case "json_invalid":
            return f"it is not valid JSON ({context['error']})"
        case "union_tag_not_found":
            return f"its {context['discriminator']} is missing"
        case "union_tag_invalid":
            tag = _quoted(context["tag"])
            return f"its {context['discriminator']} should be one of {context['expected_tags']}, not {tag}"
        case "model_type" | "model_attributes_type" | "dict_type":
            is_class = with_classes and "class_name" in context
            kind = f"an instance of {context['class_name']}" if is_class else "a group of named settings"
            return f"it should be {kind}, not {_quoted(problem['input'])}"
        case "int_parsing_size":
            return f"it should be a smaller number, not {_quoted(problem['input'])}"
        case "too_short" | "too_long":
            requirement = _SUBJECT.sub("", problem["msg"]).partition(" after validation")[0]
            return f"it {requirement}, not {len(problem['input'])}"
    return f"it {_SUBJECT.sub('', problem['msg'])}, not {_quoted(problem['input'])}"


_SUBJECT = re.compile(r"^(Input|String|List|Tuple|Dictionary|Value) ")
"""The subject of pydantic's sentences."""


def _quoted(value: object) -> str:
    try:
        text = repr(value.decode(errors="replace") if isinstance(value, bytes) else value)
    except ValueError:  # an integer of thousands of digits
        return "such a large number"
    return text if len(text) <= 60 else text[:57] + "..."


LOWER_MEMORY = (
    "lower the batch size, the tokens of a text or the number of engines, "
    "or choose a smaller dtype or quantized weights"
)
"""Advice for a computation that needs too much memory, as the end of a sentence."""
_NO_MEMORY = (
    *("out of memory", "defaultcpuallocator", "can't allocate memory", "cannot allocate memory"),
    *("not enough memory", "bad_alloc", "status_alloc_failed", "memoryerror"),
    *("failed to map segment", "memory allocation still failed"),  # the loader's, OpenBLAS's
)
"""Texts of errors of torch, its libraries and the operating system that mean out of memory, in small letters."""


def ran_out_of_memory(error: BaseException) -> bool:
    # The errors of torch's allocators, of C++ and of the system have no common type.
    return isinstance(error, MemoryError) or says_no_memory(str(error))


def says_no_memory(text: str) -> bool:
    return any(sign in text.lower() for sign in _NO_MEMORY)


LIBRARY_FAULT = "cannot be loaded"
"""Predicate of the sentence on a library that is missing or damaged."""


def is_missing_library(error: BaseException) -> bool:
    """Return whether an error is a library's, not this program's, that is missing or cannot be loaded."""
    if isinstance(error, ImportError):
        return not (error.name or "").startswith("wina_")
    return isinstance(error, OSError) and "shared object file" in str(error)  # from ctypes


def unforeseen(error: BaseException) -> str:
    """Return the sentence for an error that is no WinaError.

    It is about memory that ran out, a library that cannot be loaded, or a defect, whose traceback the log has.
    """
    if ran_out_of_memory(error):
        device = "The GPU's memory" if re.search(r"CUDA|HIP|CUBLAS|CUDNN", str(error)) else "Memory"
        return f"{device} ran out; {LOWER_MEMORY}."
    lines = str(error).strip().splitlines()
    if is_missing_library(error):
        name = (getattr(error, "name", None) or "").partition(".")[0]
        library = f"The library {name}" if name else "A library"
        cause = lines[0].partition(". ")[0] if lines else type(error).__name__
        return f"{library} {LIBRARY_FAULT} ({cause}); install the workbench again, by packaging/start.py or pip."
    fault = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return f"Something unforeseen happened ({fault}); the details are in the log."


def without_controls(text: str) -> str:
    """Return text of others without characters that would control a terminal; line ends and tabs stay."""
    return "".join(character if character.isprintable() or character in "\n\t" else " " for character in text)


def printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
