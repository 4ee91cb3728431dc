"""The `wina` command, which does the window's jobs in its own process."""

import errno
import os
import signal
import sys
from typing import Annotated

import typer
from pydantic import ValidationError

from wina_core import __version__
from wina_core.cli import (
    allocate,
    annotating,
    calibrate,
    cluster,
    compare,
    completions,
    cost,
    database,
    desktop,
    engine,
    estimate,
    evaluate,
    experts,
    export,
    export_gguf,
    export_model,
    frontier,
    gate,
    generate,
    jobs,
    latency,
    machines,
    model,
    plan,
    plugins,
    remote,
    report,
    results,
    rotate,
    serve,
    study,
    synthetic,
    tasks,
)
from wina_core.cli.arguments.renamed import with_current_names
from wina_core.cli.worth import imports, table
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


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"wina {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="wina",
    help="Training-free activation sparsity for large language models: rotate, calibrate, evaluate, compare.",
    rich_markup_mode="markdown",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
groups = {
    "model": model,
    "plan": plan,
    "study": study,
    "results": results,
    "completions": completions,
    "jobs": jobs,
    "machines": machines,
    "database": database,
    "desktop": desktop,
}
for name, group in groups.items():
    app.add_typer(group.app, name=name)
app.add_typer(cluster.app, name="cluster", hidden=True)
app.add_typer(remote.app, name="remote", hidden=True)
app.command("eval")(evaluate.evaluate)
app.command("import")(imports.import_results)


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None: ...


for command in (
    *(rotate.rotate, calibrate.calibrate, allocate.allocate, cost.cost, gate.gate),
    *(tasks.tasks, synthetic.synthetic, generate.generate, latency.latency, table.worth),
    *(compare.compare, report.report, export.export, export_model.export_model),
    *(export_gguf.export_gguf, serve.serve, engine.engine, plugins.plugins),
):
    app.command()(command)
study.app.command()(estimate.estimate)
for command in (*annotating.COMMANDS, frontier.frontier, experts.experts):
    results.app.command()(command)


def main() -> None:
    """Run the command line; print an expected failure as one sentence on stderr and exit with its code."""
    arguments, replaced = with_current_names(sys.argv[1:])
    for old, new in replaced.items():
        print(f"wina: {old} is now {new}; the old name will stop working in the next release.", file=sys.stderr)
    try:
        app(arguments)
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
