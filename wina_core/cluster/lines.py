"""Whole lines of a file that another process appends to."""

from pathlib import Path

from wina_core.errors import WinaError

LONGEST_LINE = 2**26
"""Most bytes of a line."""


def read_lines(path: Path, offset: int, budget: int) -> bytes:
    """Return whole lines from an offset on: as many as the budget of bytes takes, but at least one if there is one.

    Raises WinaError for a line of more than LONGEST_LINE bytes.
    """
    try:
        with path.open("rb") as file:
            file.seek(offset)
            content = file.read(budget)
            if content and b"\n" not in content:
                content += file.readline(LONGEST_LINE - len(content))
                if len(content) >= LONGEST_LINE:
                    raise WinaError(f"a result has more than {LONGEST_LINE // 2**20} MiB")
    except FileNotFoundError:
        return b""
    return content[: content.rfind(b"\n") + 1]
