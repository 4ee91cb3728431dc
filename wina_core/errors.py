"""The one exception type whose message is meant for the user's eyes, and what turns others' into it."""

from pydantic import ValidationError
from pydantic_core import ErrorDetails


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
    reason = _reason(first)
    rest = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{place}: {reason}{rest}." if place else f"{reason[0].upper()}{reason[1:]}{rest}."


def _reason(problem: ErrorDetails) -> str:
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
            tag = _shown(context["tag"])
            return f"its {context['discriminator']} should be one of {context['expected_tags']}, not {tag}"
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"it should be a group of named settings, not {_shown(problem['input'])}"
    return f"it {problem['msg'].removeprefix('Input ')}, not {_shown(problem['input'])}"


def _shown(value: object) -> str:
    try:
        shown = repr(value.decode(errors="replace") if isinstance(value, bytes) else value)
    except ValueError:  # an integer of thousands of digits
        return "such a large number"
    return shown if len(shown) <= 60 else shown[:57] + "..."


def unforeseen(error: BaseException) -> str:
    """The sentence that stands for a defect; its traceback goes beside it."""
    lines = str(error).strip().splitlines()
    what = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return f"Something unforeseen happened ({what}); the details are in the log."
