"""Options that several commands share, and the specs they stand for."""

from typing import Annotated, Any, Literal, get_args

import typer

from wina_core import specs
from wina_core.errors import WinaError
from wina_core.masks.presets import PRESETS
from wina_core.masks.presets import preset as named_preset
from wina_core.methods import method_names
from wina_core.sources.resolve import resolve, resolve_rotation, resolve_text
from wina_core.specs import (
    FREE_ROTATION,
    MATRICES_FILE,
    NO_ROTATION,
    USUAL_EFFORT,
    AllocatorSpec,
    Arm,
    AttentionBasis,
    CalibrationSpec,
    DType,
    MethodSpec,
    MlpBasis,
    ModelSource,
    RotationMode,
    RotationSpec,
    Selection,
    TextSpec,
)

CALIBRATION_TEXT = CalibrationSpec().text

Mode = Literal["free", RotationMode]

Model = Annotated[str, typer.Argument(help='A folder in the Hugging Face format, a hub id, or "demo".')]
ModelOption = Annotated[str, typer.Option("--model", help='A folder in the Hugging Face format, a hub id, or "demo".')]
Dtype = Annotated[DType, typer.Option(help="How weights are held.")]
Device = Annotated[str, typer.Option(help='"auto", "cpu", "cuda", "cuda:1", or "spread" over all GPUs.')]
Quantization = Annotated[
    specs.Quantization,
    typer.Option(help="Hold the gated matrices in 8 bits (torchao) or 4 bits (HQQ), after rotating."),
]
Rotation = Annotated[
    Mode,
    typer.Option(
        "--rotation", help='How the residual stream is rotated before gating; "free": globally, by refined bases.'
    ),
]
Heads = Annotated[
    bool | None,
    typer.Option("--heads/--no-heads", help="Rotate V's outputs and O's inputs per head; on unless --rotation none."),
]
Attention = Annotated[
    str | None,
    typer.Option("--attention-basis", help=f"Comma-separated, summed: {', '.join(get_args(AttentionBasis))}."),
]
Mlp = Annotated[
    str | None, typer.Option("--mlp-basis", help=f"Comma-separated, summed: {', '.join(get_args(MlpBasis))}.")
]
Weighting = Annotated[
    specs.Weighting | None,
    typer.Option(
        "--weighting", help="How much each input counts in a shared basis: all alike, or by its measured sensitivity."
    ),
]
Objective = Annotated[
    specs.Objective | None,
    typer.Option(
        "--objective", help="Eigenvectors, or those refined on the calibrated error of gating, or further on the KL."
    ),
]
Steps = Annotated[int | None, typer.Option("--rotation-steps", help="Steps of refining.")]
Matrices = Annotated[
    str | None,
    typer.Option(
        "--matrices",
        help=f"A safetensors file of orthogonal matrices to rotate by, as {MATRICES_FILE} of an exported folder.",
    ),
]
_ROTATION_TEXT = "What activations and refinement read, as demo:training or a file; by default as the objective needs."
RotationText = Annotated[str | None, typer.Option("--rotation-text", help=_ROTATION_TEXT)]
RotationTokens = Annotated[int | None, typer.Option("--rotation-tokens", help="Tokens of that text to read.")]
Preset = Annotated[
    str | None,
    typer.Option(help=f"A method with its published rotation, instead of the two: {', '.join(PRESETS)}."),
]
Method = Annotated[str, typer.Option("--method", help=f"One of {', '.join(method_names())}.")]
Variant = Annotated[
    specs.Variant, typer.Option("--variant", help="The paper's text, the authors' code, or a reading of our own.")
]
Text = Annotated[str, typer.Option(help="demo:calibration, demo:training, demo:heldout or a UTF-8 file.")]
Tokens = Annotated[int, typer.Option(help="Tokens of the text to read.")]
Again = Annotated[bool, typer.Option("--again", help="Compute everything anew, also what is stored.")]
Samples = Annotated[bool, typer.Option("--samples", help="Also store every document's own scores and answers.")]
RunModelCode = Annotated[
    bool,
    typer.Option(
        "--run-model-code",
        help="Consent, for this once, to run programs that the model writes for tasks such as humaneval: in a process "
        "of their own with limited time, memory and files and without a network, but nobody knows what they do.",
    ),
]
Engines = Annotated[int, typer.Option(min=0, help="Engine processes to share the runs; 0 for one on each GPU.")]
Roles = Annotated[
    list[str] | None,
    typer.Option("--role", help="Repeatable: NAME=FOLDER, the model that stands for a role of the study this once."),
]
DataFolder = Annotated[
    str | None,
    typer.Option(help='Local data in place of the hub\'s: a folder with one for each task, or "demo".'),
]
StudyName = Annotated[str, typer.Argument(help="A study's name in the gallery, or a file in TOML or JSON.")]
Masks = Annotated[specs.Masks, typer.Option("--masks", help="Whether q, k, v share one mask, and gate, up another.")]
Select = Annotated[
    Selection,
    typer.Option(
        "--selection", help="Exactly the top k, or what exceeds a calibrated threshold, deviation or share of the mass."
    ),
]
Correction = Annotated[
    specs.Correction, typer.Option("--correction", help="What a dropped input counts as: 0, or its calibrated mean.")
]
Rho = Annotated[float | None, typer.Option("--rho", help="R-Sparse: the mask's share of the budget, (0, 1].")]
AllocatorName = Literal[specs.AllocatorName, "greedy_wina_released", "greedy_teal_released"]
Database = Annotated[str | None, typer.Option(help="SQLAlchemy URL or SQLite file of the results.", metavar="URL")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def model_source(location: str, dtype: DType, device: str, quantization: Quantization = "none") -> ModelSource:
    """The model as it is on disk now."""
    return resolve(ModelSource(location=location, dtype=dtype, device=device, quantization=quantization))


def allocator_spec(name: str, **settings: object) -> AllocatorSpec:
    """The allocator of that name, its text as it is on disk now."""
    if name not in get_args(AllocatorName):
        raise WinaError(f'There is no allocator "{name}"; choose one of {", ".join(get_args(AllocatorName))}.')
    base, _, variant = name.partition("_")
    spec = AllocatorSpec.model_validate({"name": base, "variant": variant or "corrected", **settings})
    return spec.model_copy(update={"text": resolve_text(spec.text)})


def rotation_spec(
    mode: Rotation = "none",
    *,
    heads: Heads = None,
    attention: Attention = None,
    mlp: Mlp = None,
    weighting: Weighting = None,
    objective: Objective = None,
    steps: Steps = None,
    text: RotationText = None,
    tokens: RotationTokens = None,
    matrices: Matrices = None,
) -> RotationSpec:
    """The rotation of the flags, None standing for what is usual with the mode and the objective; heads are on for
    every mode but "none"."""
    per_head = mode != "none" if heads is None else heads
    if mode == "none" and not per_head:
        return NO_ROTATION
    base = FREE_ROTATION if mode == "free" else RotationSpec(mode=mode)
    usual_steps, usual_text = USUAL_EFFORT[objective or base.objective]
    flags: dict[str, Any] = {
        "attention_basis": None if attention is None else attention.split(","),
        "mlp_basis": None if mlp is None else mlp.split(","),
        "matrices": matrices,
        "weighting": weighting,
        "objective": objective,
        "steps": usual_steps if steps is None else steps,
        "text": TextSpec(source=text or usual_text.source, tokens=usual_text.tokens if tokens is None else tokens),
    }
    given = {name: value for name, value in flags.items() if value is not None}
    return resolve_rotation(RotationSpec.model_validate({**base.model_dump(), **given, "per_head": per_head}))


def method_spec(
    *,
    name: Method = "wina",
    variant: Variant = "paper",
    selection: Select = "topk",
    masks: Masks = "separate",
    correction: Correction = "none",
    rho: Rho = None,
) -> MethodSpec:
    """The method of the flags."""
    return MethodSpec(name=name, variant=variant, selection=selection, masks=masks, correction=correction, rho=rho)


def arm(preset: str | None, rotation: RotationSpec, method: MethodSpec) -> Arm:
    """The rotation and the method of the flags; with a preset, its own, completed by the flags that it leaves open."""
    if preset is None:
        return Arm(rotation=rotation, method=method)
    if not rotation.is_identity:
        raise WinaError("A preset brings its own rotation; leave --rotation and --heads out, or --preset.")
    own = named_preset(preset)
    given = method.model_dump(exclude={"name", "variant"})
    return Arm(
        rotation=own.rotation, method=MethodSpec.model_validate(given | own.method.model_dump(exclude_unset=True))
    )
