"""The one exception type whose message is meant for the user's eyes, and what turns others' into it."""

from pydantic import ValidationError


class WinaError(Exception):
    """A foreseen failure. Its message is one sentence: what is wrong and how to mend it.

    The command line prints it without a traceback, the engine sends it as a `Failed` message, and the window
    shows it on the page it concerns. Anything else that is raised is a defect and keeps its traceback.
    """


class Cancelled(Exception):  # noqa: N818 - a request that was honoured, not an error
    """Raised inside a job, between two batches, once its cancellation was asked for."""


def explain(error: ValidationError) -> str:
    """What is wrong with a spec, as one sentence that names the field, for a WinaError or a field's tooltip.

    For example: "sparsities[2]: it should be less than 1, not 1.5."
    """
    found = error.errors(include_url=False)
    # A list with a bad item is also reported as too short: the item is the news.
    problems = [problem for problem in found if problem["type"] != "too_short"] or found
    first = problems[0]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    reason = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
    if first["type"] == "extra_forbidden":
        reason = "there is no such setting"
    elif first["type"] == "missing":
        reason = "it is missing"
    elif first["type"] != "value_error":
        shown = repr(first["input"])
        reason = f"it {reason}, not {shown if len(shown) <= 60 else shown[:57] + '...'}"
    rest = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{place}: {reason}{rest}." if place else f"{reason[0].upper()}{reason[1:]}{rest}."


def unforeseen(error: BaseException) -> str:
    """The sentence that stands for a defect; its traceback goes beside it."""
    lines = str(error).strip().splitlines()
    what = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return f"Something unforeseen happened ({what}); the details are in the log."
