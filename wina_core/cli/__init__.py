"""The `wina` command, which does the window's jobs in its own process."""

import errno
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from typer.core import TyperGroup

from wina_core import __version__
from wina_core.errors import (
    Cancelled,
    Terminated,
    WinaError,
    explain,
    is_missing_library,
    ran_out_of_memory,
    unforeseen,
    without_controls,
)

FAILED, USAGE = 1, 2
"""Exit codes other than 0: an expected failure, an invalid request; 128 and its number after a signal."""
_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of writing to an open file that are not the program's fault."""

_COMMANDS = {
    "eval": "evaluate.evaluate",
    "import": "worth.import_results",
    "rotate": "model.rotate",
    "calibrate": "planning.calibrate",
    "allocate": "planning.allocate",
    "cost": "model.cost",
    "gate": "gate.gate",
    "tasks": "installed.tasks",
    "synthetic": "evaluate.synthetic",
    "generate": "generate.generate",
    "latency": "latency.latency",
    "worth": "worth.worth",
    "compare": "compare.compare",
    "report": "export.report",
    "export": "export.export",
    "export-model": "export_model.export_model",
    "export-gguf": "export_model.export_gguf",
    "serve": "serve.serve",
    "engine": "serve.engine",
    "plugins": "installed.plugins",
    "model": "model.app",
    "plan": "planning.plans",
    "study": "study.app",
    "results": "results.app",
    "completions": "generate.app",
    "jobs": "jobs.app",
    "machines": "machines.app",
}
"""Module and function, or group, of each command."""


@cache
def _command(name: str) -> Any:
    """Import a command and return it as Typer runs it."""
    module, _, attribute = _COMMANDS[name].rpartition(".")
    command = getattr(import_module(f"{__name__}.{module}"), attribute)
    parent = typer.Typer(rich_markup_mode="markdown")
    if isinstance(command, typer.Typer):
        parent.add_typer(command, name=name)
    else:
        parent.command(name)(command)
    return typer.main.get_group(parent).commands[name]


class _Commands(Mapping[str, Any]):
    """All commands, each imported when it is looked up: importing all of them takes a second."""

    def __getitem__(self, name: str) -> Any:
        return _command(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


class _Wina(TyperGroup):
    """The group of all commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "commands": _Commands()})


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"wina {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="wina",
    cls=_Wina,
    help="Training-free activation sparsity for large language models: rotate, calibrate, evaluate, compare.",
    rich_markup_mode="markdown",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None: ...


def main() -> None:
    """Run the command line; print an expected failure as one sentence on stderr and exit with its code."""
    os.environ.setdefault("TQDM_DISABLE", "1")  # one progress bar is enough; tqdm reads it when it is imported
    try:
        app()
    except WinaError as error:
        _exit(str(error), FAILED)
    except ValidationError as error:
        _exit(explain(error), USAGE)
    except Cancelled as error:
        code = 128 + (error.signal if isinstance(error, Terminated) else signal.SIGINT)
        _exit("Cancelled; finished results are stored, and the same command continues from there.", code)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _UNWRITABLE:
            # Python flushes stdout once more at exit, which would fail again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            _exit(f"The output cannot be written ({error.strerror}); free some space or write it elsewhere.", FAILED)
        if not (ran_out_of_memory(error) or is_missing_library(error)):
            raise
        _exit(unforeseen(error), FAILED)


def _exit(message: str, code: int) -> None:
    print(f"wina: {without_controls(message)}", file=sys.stderr)
    sys.exit(code)
