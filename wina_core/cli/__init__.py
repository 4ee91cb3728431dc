"""The `wina` command: the same jobs as in the window, done in this process. Light until a job begins."""

import errno
import os
import sys

import typer
from pydantic import ValidationError

from wina_core.cli import (
    allocate,
    calibrate,
    compare,
    cost,
    engine,
    estimate,
    evaluate,
    export,
    gate,
    generate,
    latency,
    marking,
    model,
    plan,
    report,
    results,
    rotate,
    study,
    synthetic,
    tasks,
)
from wina_core.errors import Cancelled, WinaError, explain

FAILED, USAGE, CANCELLED = 1, 2, 130
"""Exit codes beside 0: a foreseen failure, a request that makes no sense, Ctrl-C."""
_UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""What writing to an open file fails with when the fault is not the program's."""

app = typer.Typer(
    name="wina",
    help="Training-free activation sparsity in large language models: rotate, calibrate, evaluate, compare.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.add_typer(model.app, name="model")
app.add_typer(plan.app, name="plan")
app.command("rotate")(rotate.rotate)
app.command("calibrate")(calibrate.calibrate)
app.command("allocate")(allocate.allocate)
app.command("cost")(cost.cost)
app.command("gate")(gate.gate)
app.command("eval")(evaluate.evaluate)
app.add_typer(study.app, name="study")
study.app.command("estimate")(estimate.estimate)
app.command("tasks")(tasks.tasks)
app.command("synthetic")(synthetic.synthetic)
app.command("generate")(generate.generate)
app.command("latency")(latency.latency)
app.add_typer(results.app, name="results")
for command in marking.COMMANDS:
    results.app.command()(command)
app.command("compare")(compare.compare)
app.command("report")(report.report)
app.command("export")(export.export)
app.command("engine")(engine.engine)


def main() -> None:
    """Run the command line; foreseen failures become one sentence on stderr and an exit code, never a traceback."""
    try:
        app()
    except WinaError as error:
        _exit(str(error), FAILED)
    except ValidationError as error:
        _exit(explain(error), USAGE)
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        # What is left to write would fail once more when the program ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _exit(f"The output cannot be written ({error.strerror}); free some space or send it elsewhere.", FAILED)
    except Cancelled:
        _exit("Cancelled; what was finished is kept, and the same command goes on from there.", CANCELLED)


def _exit(message: str, code: int) -> None:
    print(f"wina: {message}", file=sys.stderr)
    sys.exit(code)
