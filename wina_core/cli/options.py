"""Options that several commands share, and the specs they stand for."""

from typing import Annotated, Literal, get_args

import typer

from wina_core.methods import method_names
from wina_core.sources import resolve, resolve_rotation
from wina_core.specs import (
    MATRICES_FILE,
    NO_ROTATION,
    AttentionBasis,
    CalibrationSpec,
    DType,
    MlpBasis,
    ModelSource,
    RotationSpec,
    TextSpec,
)

ROTATION_TEXT = RotationSpec().text
CALIBRATION_TEXT = CalibrationSpec().text

Mode = Literal["none", "global", "per_layer", "per_site"]

Model = Annotated[str, typer.Argument(help='A folder in the Hugging Face format, a hub id, or "demo".')]
ModelOption = Annotated[str, typer.Option("--model", help='A folder in the Hugging Face format, a hub id, or "demo".')]
Dtype = Annotated[DType, typer.Option(help="How weights are held.")]
Device = Annotated[str, typer.Option(help='"auto", "cpu", "cuda" or "cuda:1".')]
Rotation = Annotated[Mode, typer.Option("--rotation", help="How the residual stream is rotated before gating.")]
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
Matrices = Annotated[
    str | None,
    typer.Option(
        help=f"A safetensors file of orthogonal matrices to rotate by, as {MATRICES_FILE} of an exported folder."
    ),
]
RotationText = Annotated[
    str, typer.Option("--rotation-text", help="The text of the rotation's activations, as demo:calibration or a file.")
]
Method = Annotated[str, typer.Option(help=f"One of {', '.join(method_names())}.")]
Variant = Annotated[Literal["paper", "as_released"], typer.Option(help="The paper's text, or the authors' code.")]
Text = Annotated[str, typer.Option(help="demo:calibration, demo:heldout or a UTF-8 file.")]
Tokens = Annotated[int, typer.Option(help="Tokens of the text to read.")]
Again = Annotated[bool, typer.Option("--again", help="Compute everything anew, also what is stored.")]
Database = Annotated[str | None, typer.Option(help="SQLAlchemy URL or SQLite file of the results.", metavar="URL")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def model_source(location: str, dtype: DType, device: str) -> ModelSource:
    """The model as it is on disk now."""
    return resolve(ModelSource(location=location, dtype=dtype, device=device))


def rotation_spec(
    mode: Mode,
    heads: bool | None,
    attention: str | None,
    mlp: str | None,
    matrices: str | None,
    text: str = ROTATION_TEXT.source,
) -> RotationSpec:
    """The rotation of the flags; `heads` None is on for every mode but "none"."""
    per_head = mode != "none" if heads is None else heads
    if mode == "none" and not per_head:
        return NO_ROTATION
    bases = {"attention_basis": attention, "mlp_basis": mlp}
    given = {name: basis.split(",") for name, basis in bases.items() if basis is not None}
    spec = RotationSpec.model_validate(
        {"mode": mode, "per_head": per_head, "matrices": matrices, "text": TextSpec(source=text), **given}
    )
    return resolve_rotation(spec)
