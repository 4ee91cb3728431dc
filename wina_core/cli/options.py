"""Options that several commands share."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from wina_core import specs
from wina_core.api.arguments import ALLOCATORS as ALLOCATORS
from wina_core.files.hardware import MEMORY_VARIABLE
from wina_core.specs import (
    CalibrationSpec,
    DType,
    Selection,
)
from wina_core.specs.latency import LEAST_REPETITIONS, LEAST_TOKENS
from wina_core.specs.presets import PRESETS

CALIBRATION_TEXT = CalibrationSpec().text

_SHARED = ("data_folder",)
"""Parameters of makers that are not flags of their own but the command's parameters."""


def with_flags_of(**makers: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Replace each parameter named here by all flags of its maker, and pass what the maker returns.

    A maker's parameters become `PARAMETER_FLAG`, so that the flags of two makers never collide. The annotation of each
    must therefore name its option. A maker's `data_folder` is the command's, None without one. The result may be a
    maker itself.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        flags = {name: inspect.signature(maker, eval_str=True).parameters for name, maker in makers.items()}
        parameters: list[inspect.Parameter] = []
        for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
            of_maker = [flag for flag in flags.get(name, {}).values() if flag.name not in _SHARED]
            parameters += [flag.replace(name=f"{name}_{flag.name}") for flag in of_maker] or [parameter]

        def run(**arguments: Any) -> Any:
            made = {}
            for name, maker in makers.items():
                shared = {flag: arguments[flag] for flag in _SHARED if flag in flags[name] and flag in arguments}
                of_maker = [flag for flag in flags[name] if flag not in _SHARED]
                made[name] = maker(**{flag: arguments.pop(f"{name}_{flag}") for flag in of_maker}, **shared)
            return command(**arguments, **made)

        # Keyword-only parameters may follow each other whether or not they have defaults.
        keyword = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
        run.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]  # typer reads it
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in keyword}
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        return run

    return decorate


def panel(title: str) -> Callable[..., Any]:
    """Return a `typer.Option` whose options `--help` shows in the panel of this title."""

    def option(*names: str, **settings: Any) -> Any:
        return typer.Option(*names, rich_help_panel=title, **settings)

    return option


in_model, in_rotation, in_gate = panel("Model"), panel("Rotation"), panel("Gate")
in_evaluation, in_output = panel("Evaluation"), panel("Output")
in_allocation, in_timing, in_sampling = panel("Allocation"), panel("Timing"), panel("Sampling")

_LOCATION = 'A folder in Hugging Face format, a GGUF file, a Hugging Face id, "demo", or a name of `wina model fetch`.'
Model = Annotated[str, typer.Argument(metavar="MODEL", help=_LOCATION)]
ModelOption = Annotated[str, in_model("--model", help=_LOCATION)]
Dtype = Annotated[DType, in_model("--dtype", help="Data type of the weights; auto is what suits the processor.")]
Device = Annotated[str, in_model("--device", help='"auto", "cpu", "cuda", "cuda:1", or "spread" over all GPUs.')]
Memory = Annotated[
    str | None,
    in_model(
        "--memory",
        metavar="SIZE",
        help=f"Memory to take, such as 8GB; a larger model is read from its files layer by layer, as where memory is "
        f"short. {MEMORY_VARIABLE} sets it for all commands and for the window.",
    ),
]
Roles = Annotated[
    list[str] | None, in_model("--role", help="Repeatable: NAME=FOLDER, the model for a role, this once.")
]

FoldNorms = Annotated[
    specs.FoldNorms | None,
    in_rotation(
        "--fold-norms",
        help="Scale inputs by WINA's column norms, so that none are read: where shared masks stay the same and "
        "quantization loses nothing (exact, the default with any rotation), or everywhere.",
    ),
]

Preset = Annotated[
    str | None, in_gate("--preset", help=f"A method with its rotation, instead of both: {', '.join(PRESETS)}.")
]
Select = Annotated[
    Selection,
    in_gate(
        "--selection",
        help="Keep the top k, scores over a calibrated threshold or deviation, or a share of the mass; mixed: "
        "thresholds for gate and up, top k elsewhere.",
    ),
]
Masks = Annotated[specs.Masks, in_gate("--masks", help="Share one mask among q, k, v and one between gate, up.")]
CalibrationText = Annotated[
    str,
    in_gate(
        "--calibration-text",
        help="Text to calibrate thresholds on: demo:training, a file or data:NAME. --preset wina-auto also chooses its "
        "rotation on it, and in wina eval its allocation.",
    ),
]
CalibrationTokens = Annotated[int, in_gate("--calibration-tokens", help="Tokens of that text to read.")]
Thresholds = Annotated[
    specs.Thresholds,
    in_gate("--thresholds", help="Corrected in the gated model, or the dense model's as released."),
]
DensePrefix = Annotated[float, in_gate("--dense-prefix", help="Fraction of each sequence's first tokens left dense.")]
Sparsities = Annotated[
    list[float] | None, in_gate("--sparsity", help="Repeatable: fraction to drop, [0, 1); 0.5 is 50 %.")
]
Plans = Annotated[
    list[Path] | None, in_gate("--plan", help="Repeatable: a sparsity plan's JSON file, with bits or without.")
]

Text = Annotated[str, in_evaluation("--text", help="demo:calibration, demo:training, demo:heldout or a UTF-8 file.")]
Tokens = Annotated[int, in_evaluation("--tokens", help="Tokens of the text to read.")]
DataFolder = Annotated[
    str | None,
    in_evaluation(
        "--data-folder",
        help='Local data instead of the Hub\'s: a folder with one for each task, or "demo".',
    ),
]
TextFolder = Annotated[
    str | None,
    in_evaluation(
        "--data-folder",
        help='The folder of texts such as data:wikitext or data:lambada_openai[0:2500], or "demo".',
    ),
]
RunModelCode = Annotated[
    bool,
    in_evaluation(
        "--confirm-run-unsafe-code",
        help="Allow, this once, running programs that the model writes (humaneval, mbpp), each in a sandbox with "
        "limited time, memory and files and without a network.",
    ),
]
TrustTaskCode = Annotated[
    bool,
    in_evaluation(
        "--trust-task-code",
        help="Allow, this once, the code that the task folders ask for: Python functions, metrics and readers of data. "
        "It runs with all of your rights.",
    ),
]
Engines = Annotated[
    int | None,
    in_evaluation(
        "--engines",
        min=0,
        help="Engine processes that share the runs; 0 for one on each GPU.",
    ),
]
Machines = Annotated[
    list[str] | None,
    in_output(
        "--machine",
        metavar="NAME",
        help="Machine that computes instead of this computer, as in `wina machines list`. Several share the runs; "
        '"local" is this computer.',
    ),
]
Yes = Annotated[
    bool,
    in_output("--yes", help="Do not ask before a rotation, calibration or allocation that takes minutes."),
]
Background = Annotated[
    bool, in_evaluation("--background", help="Return at once; `wina jobs` shows, follows and cancels the runs.")
]
StudyName = Annotated[str, typer.Argument(help="A study's name in the gallery, or a TOML or JSON file.")]

Budget = Annotated[
    float,
    in_timing(
        "--budget",
        min=0.0,
        help=f"Seconds of a decoded point, dense included: fewer repetitions, at least {LEAST_REPETITIONS}, then fewer "
        f"new tokens, at least {LEAST_TOKENS}; 0 for no limit.",
    ),
]
Again = Annotated[bool, in_output("--recompute", help="Compute everything again, stored results included.")]
Samples = Annotated[bool, in_output("--log-samples", help="Also store the scores and completions of every document.")]
Database = Annotated[str | None, in_output("--database", help="An SQLite file or a PostgreSQL address.", metavar="URL")]
Json = Annotated[bool, in_output("--json", help="Print JSON instead of a table.")]
