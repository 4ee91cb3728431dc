"""The command that makes a sparse model again, for readers without its author's database and folders."""

from collections.abc import Iterator, Mapping

from wina_core.model_info.names import is_folder, last_part
from wina_core.model_info.plan_file import PLAN_FILE, needs_plan_file, one_target
from wina_core.specs import (
    AUTO_ROTATION,
    USUAL_EFFORT,
    CalibrationSpec,
    ModelSource,
    QuantizationSpec,
    RotationSpec,
    RunSpec,
    TextSpec,
)

_Flags = Mapping[str, tuple[object, object]]
"""Value and default by flag."""


def export_command(spec: RunSpec, folder: str) -> tuple[str, ...]:
    """Return the words of `wina export-model` with a flag for all of a run's sparse model that is not the default.

    Files of the author's are named as in the working folder, and PLAN_FILE stands for plans that no flag names.
    """
    method = spec.method
    plan = ("--plan", PLAN_FILE) if needs_plan_file(spec) else ("--sparsity", one_target(spec.plan))
    words = (
        *("--model", _file(spec.model.location), "--method", method.name, *plan),
        *_words({"--dtype": (spec.model.dtype, "auto"), "--device": (spec.model.device, "auto")}),
        *_quantization(spec.model),
        *_words(
            {
                "--variant": (method.variant, "paper"),
                "--selection": (method.selection, "topk"),
                "--masks": (method.masks, "separate"),
                "--correction": (method.correction, "none"),
                "--rho": (method.rho, None),
            }
        ),
        *_rotation(spec.rotation),
        *_calibration(spec.calibration or CalibrationSpec()),
        *_words({"--dense-prefix": (spec.evaluation.dense_prefix, 0.0)}),
    )
    return "wina", "export-model", folder, *map(str, words)


def command_notes(spec: RunSpec) -> tuple[str, ...]:
    """Return sentences on what the command reads, and on what it cannot name."""
    texts = _texts(spec)
    files = [spec.model.location, *(text.source for text in texts.values()), spec.rotation.matrices or ""]
    named = ", ".join(dict.fromkeys(last_part(each) for each in files if is_folder(each)))
    lacking = [f"revision {spec.model.revision} of the model"] if spec.model.revision else []
    lacking += [
        f"rows of {text.sequence} tokens of the {of} text" for of, text in texts.items() if text.sequence != 512
    ]
    return (
        *((f"The plan is the file {PLAN_FILE} of this folder; run the command where it is.",) * needs_plan_file(spec)),
        *((f"It reads files of the author, to be put in the working folder: {named}.",) if named else ()),
        *((f"No flag names {' and '.join(lacking)}; without them the model differs.",) if lacking else ()),
    )


def _texts(spec: RunSpec) -> dict[str, TextSpec]:
    """Return the texts that the model depends on, by what reads them."""
    bits, found = spec.model.quantization, {}
    if isinstance(bits, QuantizationSpec) and bits.reads_text:
        found["bits"] = bits.text
    if spec.rotation.reads_text:
        found["rotation"] = spec.rotation.text
    if spec.method.needs_calibration and spec.calibration:
        found["calibration"] = spec.calibration.text
    return found


def _quantization(source: ModelSource) -> Iterator[object]:
    bits = source.quantization
    if not isinstance(bits, QuantizationSpec):
        yield from _words({"--quantization": (bits, "none")})
    elif isinstance(bits.bits, float):
        yield from ("--bits", int(bits.bits) if bits.bits.is_integer() else bits.bits, "--quantizer", bits.quantizer)
        if bits.by_energy:
            yield "--by-energy"
        if bits.quantizer != "planes":  # which read no group
            yield from _words({"--group": (bits.group, 64)})
        yield from _words({"--head-bits": (bits.head_bits, 16), **_text("bits", bits.text, TextSpec())})


def _rotation(rotation: RotationSpec) -> Iterator[object]:
    if not rotation.turns:
        yield from _words({"--fold-norms": (rotation.fold_norms, "none")})
        return
    free = rotation.mode == "global" and rotation.weighting == "sensitivity"
    steps, text = USUAL_EFFORT[rotation.objective]
    if rotation.is_auto and rotation.objective == "eigen":
        text = AUTO_ROTATION.text
    usual = RotationSpec()
    yield from _words(
        {
            "--rotation": ("free" if free else rotation.mode, "none"),
            "--attention-basis": (",".join(rotation.attention_basis), ",".join(usual.attention_basis)),
            "--mlp-basis": (",".join(rotation.mlp_basis), ",".join(usual.mlp_basis)),
            "--weighting": (rotation.weighting, "sensitivity" if free else "trace"),
            "--objective": (rotation.objective, "error" if free else "eigen"),
            "--rotation-steps": (rotation.steps, steps),
            "--spectrum": (rotation.spectrum, "linear"),
            "--drop-directions": (rotation.drop_directions, 0),
            "--rotation-sparsity": (rotation.sparsity, AUTO_ROTATION.sparsity),
            "--rotation-bits": (rotation.noise_bits, 16),
            "--fold-norms": (rotation.fold_norms, "exact"),
            **_text("rotation", rotation.text, text),
            "--matrices": (rotation.matrices and _file(rotation.matrices), None),
        }
    )
    if rotation.per_head != (rotation.mode != "none"):
        yield "--rotate-heads" if rotation.per_head else "--no-rotate-heads"


def _calibration(spec: CalibrationSpec) -> Iterator[object]:
    usual = CalibrationSpec()
    return _words({**_text("calibration", spec.text, usual.text), "--thresholds": (spec.thresholds, usual.thresholds)})


def _text(of: str, text: TextSpec, usual: TextSpec) -> _Flags:
    return {f"--{of}-text": (_file(text.source), usual.source), f"--{of}-tokens": (text.tokens, usual.tokens)}


def _words(flags: _Flags) -> Iterator[object]:
    """Yield the flags whose value is not the default."""
    for flag, (value, usual) in flags.items():
        if value != usual:
            yield from (flag, value)


def _file(name: str) -> str:
    """Return a path as one in the working folder, so that it is taken for no name; any other name as it is."""
    return f"./{last_part(name)}" if is_folder(name) else name
