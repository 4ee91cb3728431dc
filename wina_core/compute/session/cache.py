"""Results cached on disk: a damaged file is computed again, and a full disk only loses the cache."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from wina_core.compute.reporter import Reporter
from wina_core.compute.stages import Stages
from wina_core.errors import WinaError, explain
from wina_core.model_info import products

T = TypeVar("T")


def stages_of(file: Path, reporter: Reporter) -> Stages:
    """Return the stages of a file's computation, after removing those of its folder that nobody has continued."""
    products.remove_abandoned(file.parent)
    return Stages(reporter, file.with_suffix(products.STAGES_SUFFIX))


def read_cached(file: Path, what: str, read: Callable[[Path], T], reporter: Reporter) -> T | None:
    """Return what `read` makes of the file; None if it is missing or, with a warning, damaged."""
    if not file.exists():
        return None
    try:
        return read(file)
    except (OSError, ValidationError, WinaError) as error:
        reason = explain(error) if isinstance(error, ValidationError) else error
        reporter.log("warning", f"The {what} is computed again, since {file} cannot be read: {reason}")
        return None


def write_cached(file: Path, what: str, write: Callable[[Path], object], reporter: Reporter) -> bool:
    """Write a file by `write` and return whether that succeeded; a failure is a warning."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file)
    except (OSError, WinaError) as error:
        reporter.log("warning", f"The {what} is not kept for later. {error}")
        return False
    return True
