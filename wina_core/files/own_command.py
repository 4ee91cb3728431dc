"""The command that starts another process of this program."""

import sys
from pathlib import Path


def own_command(module: str) -> tuple[str, ...]:
    """Return the command that runs a module of the program.

    In a bundle there is no interpreter: its program `wina`, which has standard streams on Windows too, takes the
    interpreter's `-m`.
    """
    if is_bundle():
        program = Path(sys.executable)
        return str(program.with_name(f"wina{program.suffix}")), "-m", module
    # With -P, a module of the same name in the working folder is not run instead.
    return sys.executable, "-P", "-m", module


def is_bundle() -> bool:
    return bool(getattr(sys, "frozen", False))  # set by PyInstaller
