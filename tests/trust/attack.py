"""The command of an attack: its options, its calls of the program's own command line, and its verdict."""

import argparse
import io
import json
import logging
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any


def options(doc: str | None, **defaults: float | str) -> argparse.Namespace:
    """Parse the command line: an option for each default, of its type."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    return parser.parse_args()


def verdict(attack: str, report: Mapping[str, Any], faults: Collection[str]) -> int:
    """Print the report as JSON and one line of verdict; return the exit status, 1 if there are `faults`."""
    print(json.dumps(report, indent=1))
    print(f"{attack}: {'FAILED, ' + ', '.join(faults) if faults else 'passed'}")
    return int(bool(faults))


def counted(faults: Mapping[str, int]) -> list[str]:
    """Return the faults that were counted, for `verdict`."""
    return [f"{count} {name}" for name, count in faults.items() if count]


def called(command: str | Sequence[str]) -> tuple[int, str, str]:
    """Run a command line, or its words, in this process and return exit code, stdout and stderr."""
    from wina_core import cli  # an attack sets the environment before anything is imported

    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    words = command.split() if isinstance(command, str) else command
    before = sys.argv, sys.stdout, sys.stderr
    sys.argv, sys.stdout, sys.stderr = ["wina", *words], out, err
    code: object = 0
    try:
        cli.main()
    except SystemExit as end:
        code = end.code
    finally:
        sys.argv, sys.stdout, sys.stderr = before
        logging.getLogger().handlers.clear()
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode(errors="replace"))  # type: ignore[attr-defined]
    return int(code or 0) if isinstance(code, int | None) else 1, texts[0], texts[1]
