"""Options that several commands share."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer

from wina_core import specs
from wina_core.api.arguments import ALLOCATORS as ALLOCATORS
from wina_core.files.hardware import MEMORY_VARIABLE
from wina_core.specs import (
    MATRICES_FILE,
    AttentionBasis,
    CalibrationSpec,
    DType,
    MlpBasis,
    RotationMode,
    Selection,
)
from wina_core.specs.latency import LEAST_REPETITIONS, LEAST_TOKENS
from wina_core.specs.methods import method_names
from wina_core.specs.presets import PRESETS
from wina_core.specs.quantization import quantizer_names

CALIBRATION_TEXT = CalibrationSpec().text

Mode = Literal["auto", "free", RotationMode]


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
Named = Annotated[
    specs.NamedQuantization,
    in_model("--quantization", help="Quantize the gated matrices (torchao, HQQ), after rotating."),
]
WeightBits = Annotated[
    str | None,
    in_model(
        "--bits",
        metavar="BITS|FILE",
        help="Instead of --quantization: 8, 6, 4, 3 or 2 bits, in planes 12, 10, 8, 6, 4 or 2; with --by-energy any "
        "mean; or a plan's file.",
    ),
]
WeightQuantizer = Annotated[
    str | None,
    in_model(
        "--quantizer",
        metavar=f"[{'|'.join(quantizer_names())}]",
        help="With --bits: round to nearest, half-quadratic, error compensation (default), or planes of 2 bits, of "
        "which gates read the first ones alone for inputs of low scores.",
    ),
]
ByEnergy = Annotated[
    bool,
    in_model(
        "--by-energy",
        help="With --bits: more bits for the inputs with more energy, fewer for the others; bits in planes then "
        "include scales.",
    ),
]
Group = Annotated[
    int | None, in_model("--group", help="With --bits, but not in planes: inputs that share a scale; 64 by default.")
]
HeadBits = Annotated[
    int | None, in_model("--head-bits", help="With --bits: bits of the output head, 16 (default), 8, 6 or 4.")
]
BitsText = Annotated[str | None, in_model("--bits-text", help="With --bits: text for the energies and second moments.")]
BitsTokens = Annotated[int | None, in_model("--bits-tokens", help="With --bits: tokens to read of that text.")]
Roles = Annotated[
    list[str] | None, in_model("--role", help="Repeatable: NAME=FOLDER, the model for a role, this once.")
]

Rotation = Annotated[
    Mode,
    in_rotation(
        "--rotation",
        help='Rotation of the residual stream; "auto" measures candidates and takes the best, or none where none is '
        'better; "free" is global, with refined bases.',
    ),
]
Heads = Annotated[
    bool | None,
    in_rotation("--rotate-heads/--no-rotate-heads", help="Also rotate within heads; on unless --rotation is none."),
]
_BASIS = "Sources of the {} basis, comma-separated and summed: {}."
Attention = Annotated[
    str | None, in_rotation("--attention-basis", help=_BASIS.format("attention's", ", ".join(get_args(AttentionBasis))))
]
Mlp = Annotated[str | None, in_rotation("--mlp-basis", help=_BASIS.format("MLP's", ", ".join(get_args(MlpBasis))))]
SpectrumOption = Annotated[
    specs.Spectrum | None,
    in_rotation("--spectrum", help="Eigenvalues of the activations' second moments, or their logarithms."),
]
DropDirections = Annotated[
    int | None,
    in_rotation("--drop-directions", help="Leading directions of each input's activations to leave out of the bases."),
]
ComparedAt = Annotated[
    float | None,
    in_rotation("--rotation-sparsity", help="Sparsity at which rotations are compared with none; 0.5 by default."),
]
Weighting = Annotated[
    specs.Weighting | None, in_rotation("--weighting", help="Weight of each input in a shared basis.")
]
Objective = Annotated[
    specs.Objective | None,
    in_rotation("--objective", help="Eigenvectors, refined on the error of gating, or also on the KL divergence."),
]
Steps = Annotated[int | None, in_rotation("--rotation-steps", help="Steps of refinement.")]
NoiseBits = Annotated[
    int | None,
    in_rotation(
        "--rotation-bits", help="Refine on the error of gating and of rounding weights to 8, 6, 4, 3 or 2 bits."
    ),
]
FoldNorms = Annotated[
    specs.FoldNorms | None,
    in_rotation(
        "--fold-norms",
        help="Scale inputs by WINA's column norms, so that none are read: where shared masks stay the same and "
        "quantization loses nothing (exact, the default with any rotation), or everywhere.",
    ),
]
RotationText = Annotated[
    str | None,
    in_rotation("--rotation-text", help="Text for activations and refinement; the default depends on the objective."),
]
RotationTokens = Annotated[int | None, in_rotation("--rotation-tokens", help="Tokens to read of that text.")]
Matrices = Annotated[
    str | None, in_rotation("--matrices", help=f"Orthogonal matrices to use, such as a model's {MATRICES_FILE}.")
]

Preset = Annotated[
    str | None, in_gate("--preset", help=f"A method with its rotation, instead of both: {', '.join(PRESETS)}.")
]
Method = Annotated[str, in_gate("--method", help=f"One of {', '.join(method_names())}.")]
Variant = Annotated[
    specs.Variant, in_gate("--variant", help="The paper's text, the released code, or our own variant.")
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
Correction = Annotated[
    specs.Correction,
    in_gate(
        "--correction",
        help="none: dropped inputs count as 0; mean: as their calibrated means; tuned: a bias is tuned for each gated "
        "matrix, which takes minutes.",
    ),
]
Rho = Annotated[float | None, in_gate("--rho", help="R-Sparse: the mask's share of the budget, (0, 1].")]
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
        help="Engine processes that share the runs; 0 for one on each GPU, or with --ray, there by default, for all "
        "that fit.",
    ),
]
RayAddress = Annotated[
    str | None,
    in_evaluation(
        "--ray", metavar="ADDRESS", help='Compute on a running Ray cluster: HOST:PORT, or "auto" on one of its nodes.'
    ),
]
RayGpus = Annotated[
    float | None, in_evaluation("--ray-gpus", help="GPUs of one engine, such as 0.5; 1 where there are any.")
]
RayCpus = Annotated[
    float | None, in_evaluation("--ray-cpus", help="Processors of one engine; without GPUs a node's by default.")
]
RayMemory = Annotated[
    str | None, in_evaluation("--ray-memory", metavar="SIZE", help="Memory of one engine, such as 8GB.")
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
