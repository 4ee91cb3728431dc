"""Specs made of the flags that several commands share, machines among them, and the question before a long job."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import typer

from wina_core import specs
from wina_core.api.arguments import rotation_spec as api_rotation_spec
from wina_core.api.running import announce_products, run_recorded
from wina_core.cli import options
from wina_core.cli.options import in_gate, in_model, in_rotation, with_flags_of
from wina_core.errors import WinaError
from wina_core.files.hardware import allow_memory
from wina_core.jobs import Job
from wina_core.model_info.resolve import resolve, resolve_quantization
from wina_core.remote.registry import find_place
from wina_core.specs import (
    MATRICES_FILE,
    AttentionBasis,
    Configuration,
    MethodSpec,
    MlpBasis,
    ModelSource,
    RotationMode,
    RotationSpec,
    TextSpec,
    load_bits_plan,
)
from wina_core.specs.machine import LOCAL
from wina_core.specs.methods import method_names
from wina_core.specs.plans import SparsityPlan, UniformSparsity
from wina_core.specs.presets import preset as named_preset
from wina_core.specs.presets import with_text_source
from wina_core.specs.quantization import check_made, load_pair, quantizer_names
from wina_core.store import Store

_REPLACED = {"selection", "correction"}
"""Fields of a preset's method that flags replace."""
IN_MEMORY = "sqlite://"
"""The database of jobs of which nothing is stored."""
Value = TypeVar("Value")
_BASIS = "Sources of the {} basis, comma-separated and summed: {}."


def quantization_of(
    *,
    name: Annotated[
        specs.NamedQuantization,
        in_model("--quantization", help="Quantize the gated matrices (torchao, HQQ), after rotating."),
    ] = "none",
    bits: Annotated[
        str | None,
        in_model(
            "--bits",
            metavar="BITS|FILE",
            help="Instead of --quantization: 8, 6, 4, 3 or 2 bits, in planes 12, 10, 8, 6, 4 or 2; with --by-energy "
            "any mean; or a plan's file.",
        ),
    ] = None,
    quantizer: Annotated[
        str | None,
        in_model(
            "--quantizer",
            metavar=f"[{'|'.join(quantizer_names())}]",
            help="With --bits: round to nearest, half-quadratic, error compensation (default), or planes of 2 bits, of "
            "which gates read the first ones alone for inputs of low scores.",
        ),
    ] = None,
    by_energy: Annotated[
        bool,
        in_model(
            "--by-energy",
            help="With --bits: more bits for the inputs with more energy, fewer for the others; bits in planes then "
            "include scales.",
        ),
    ] = False,
    group: Annotated[
        int | None,
        in_model("--group", help="With --bits, but not in planes: inputs that share a scale; 64 by default."),
    ] = None,
    head_bits: Annotated[
        int | None, in_model("--head-bits", help="With --bits: bits of the output head, 16 (default), 8, 6 or 4.")
    ] = None,
    text: Annotated[
        str | None, in_model("--bits-text", help="With --bits: text for the energies and second moments.")
    ] = None,
    tokens: Annotated[int | None, in_model("--bits-tokens", help="With --bits: tokens to read of that text.")] = None,
    data_folder: str | None = None,
) -> specs.Quantization:
    """Make a quantization: a named one, or a spec of `--bits` and its flags."""
    flags = {"quantizer": quantizer, "group": group, "head_bits": head_bits}
    settings: dict[str, Any] = {field: value for field, value in flags.items() if value is not None}
    if bits is None:
        if settings or by_energy or text is not None or tokens is not None:
            raise WinaError("The other flags of quantization need --bits; add for example --bits 4.")
        return name
    if name != "none":
        raise WinaError(f"Give either --quantization {name} or --bits {bits}.")
    if quantizer == "planes" and group is not None:
        raise WinaError("Weights in planes have one scale for each input; leave out --group.")
    usual = TextSpec()
    settings["text"] = TextSpec(source=text or usual.source, tokens=usual.tokens if tokens is None else tokens)
    spec = specs.QuantizationSpec(
        **{"quantizer": "gptq", **settings}, bits=_number(bits) or load_bits_plan(Path(bits)), by_energy=by_energy
    )
    return resolve_quantization(spec, data_folder)


def plans_of(files: Iterable[Path], quantization: specs.Quantization) -> tuple[list[SparsityPlan], specs.Quantization]:
    """Return the plans in files, and the quantization that they bring or else the given one. Raises WinaError where
    flags and files, or several files, have different bits, and for a quantizer that is no longer made."""
    pairs = {file: load_pair(file) for file in files}
    quantizations = {file: pair.quantization for file, pair in pairs.items() if pair.quantization is not None}
    for file, brought in quantizations.items():
        if quantization != "none":
            raise WinaError(f"The plan {file} has bits of its own; leave out --quantization and --bits.")
        other = next((other_file for other_file, pair in pairs.items() if pair.quantization != brought), None)
        if other is not None:
            raise WinaError(f"The plans {file} and {other} have different bits; run them one at a time.")
        check_made(brought)
        return [pair.plan for pair in pairs.values()], resolve_quantization(brought)
    return [pair.plan for pair in pairs.values()], quantization


def gate_plans(
    files: Iterable[Path], sparsities: Iterable[float] | None, quantization: specs.Quantization
) -> tuple[list[UniformSparsity | SparsityPlan], specs.Quantization]:
    """Return the plans in files and of sparsities, by default one of 0.5, and the quantization as `plans_of`."""
    tables, brought = plans_of(files, quantization)
    uniform = [UniformSparsity(sparsity=fraction) for fraction in sparsities or (() if tables else (0.5,))]
    return [*tables, *uniform], brought


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def resolved_source(
    location: options.Model,
    dtype: options.Dtype = "auto",
    device: options.Device = "auto",
    memory: options.Memory = None,
    *,
    quantization: specs.Quantization,
    data_folder: str | None = None,  # noqa: ARG001 - of the quantization's text
) -> ModelSource:
    """Resolve the model as it is on disk now, and limit the memory for it."""
    allow_memory(memory)
    return resolve(ModelSource(location=location, dtype=dtype, device=device, quantization=quantization))


model_source = with_flags_of(quantization=quantization_of)(resolved_source)
"""`resolved_source` of the flags of both."""


def rotation_spec(
    mode: Annotated[
        Literal["auto", "free", RotationMode],
        in_rotation(
            "--rotation",
            help='Rotation of the residual stream; "auto" measures candidates and takes the best, or none where none '
            'is better; "free" is global, with refined bases.',
        ),
    ] = "none",
    *,
    heads: Annotated[
        bool | None,
        in_rotation("--rotate-heads/--no-rotate-heads", help="Also rotate within heads; on unless --rotation is none."),
    ] = None,
    attention: Annotated[
        str | None,
        in_rotation("--attention-basis", help=_BASIS.format("attention's", ", ".join(get_args(AttentionBasis)))),
    ] = None,
    mlp: Annotated[
        str | None, in_rotation("--mlp-basis", help=_BASIS.format("MLP's", ", ".join(get_args(MlpBasis))))
    ] = None,
    weighting: Annotated[
        specs.Weighting | None, in_rotation("--weighting", help="Weight of each input in a shared basis.")
    ] = None,
    objective: Annotated[
        specs.Objective | None,
        in_rotation("--objective", help="Eigenvectors, refined on the error of gating, or also on the KL divergence."),
    ] = None,
    steps: Annotated[int | None, in_rotation("--rotation-steps", help="Steps of refinement.")] = None,
    text: Annotated[
        str | None,
        in_rotation(
            "--rotation-text", help="Text for activations and refinement; the default depends on the objective."
        ),
    ] = None,
    tokens: Annotated[int | None, in_rotation("--rotation-tokens", help="Tokens to read of that text.")] = None,
    matrices: Annotated[
        str | None, in_rotation("--matrices", help=f"Orthogonal matrices to use, such as a model's {MATRICES_FILE}.")
    ] = None,
    fold_norms: options.FoldNorms = None,
    noise_bits: Annotated[
        int | None,
        in_rotation(
            "--rotation-bits", help="Refine on the error of gating and of rounding weights to 8, 6, 4, 3 or 2 bits."
        ),
    ] = None,
    spectrum: Annotated[
        specs.Spectrum | None,
        in_rotation("--spectrum", help="Eigenvalues of the activations' second moments, or their logarithms."),
    ] = None,
    drop_directions: Annotated[
        int | None,
        in_rotation(
            "--drop-directions", help="Leading directions of each input's activations to leave out of the bases."
        ),
    ] = None,
    sparsity: Annotated[
        float | None,
        in_rotation("--rotation-sparsity", help="Sparsity at which rotations are compared with none; 0.5 by default."),
    ] = None,
    data_folder: str | None = None,
) -> RotationSpec:
    """Make a rotation's spec; None takes the default of the mode and the objective."""
    return api_rotation_spec(
        mode,
        heads=heads,
        attention_basis=None if attention is None else _names(attention),
        mlp_basis=None if mlp is None else _names(mlp),
        weighting=weighting,
        objective=objective,
        steps=steps,
        text=text,
        tokens=tokens,
        matrices=matrices,
        fold_norms=fold_norms,
        noise_bits=noise_bits,
        spectrum=spectrum,
        drop_directions=drop_directions,
        sparsity=sparsity,
        data_folder=data_folder,
    )


def _names(text: str) -> list[str]:
    """Return the names between commas; none of an empty text."""
    return text.split(",") if text else []


def method_spec(
    *,
    name: Annotated[str, in_gate("--method", help=f"One of {', '.join(method_names())}.")] = "wina",
    variant: Annotated[
        specs.Variant, in_gate("--variant", help="The paper's text, the released code, or our own variant.")
    ] = "paper",
    selection: options.Select = "topk",
    masks: options.Masks = "separate",
    correction: Annotated[
        specs.Correction,
        in_gate(
            "--correction",
            help="none: dropped inputs count as 0; mean: as their calibrated means; tuned: a bias is tuned for each "
            "gated matrix, which takes minutes.",
        ),
    ] = "none",
    rho: Annotated[float | None, in_gate("--rho", help="R-Sparse: the mask's share of the budget, (0, 1].")] = None,
) -> MethodSpec:
    """Make a method's spec."""
    return MethodSpec(name=name, variant=variant, selection=selection, masks=masks, correction=correction, rho=rho)


def combine(
    context: typer.Context, method: MethodSpec, rotation: RotationSpec, preset: options.Preset = None
) -> Configuration:
    """Combine rotation and method; a preset brings its own rotation, and the flags complete its method.

    The flags may also replace a preset's selection and correction, and set the sparsity of its rotation `auto`. Raises
    WinaError for the other flags of a rotation beside a preset, and for flags of the method that contradict it.
    """
    if preset is None:
        return Configuration(rotation=rotation, method=method)
    configuration = named_preset(preset)
    of_method, of_rotation = _flags_on_command_line(context, "method"), _flags_on_command_line(context, "rotation")
    fields = configuration.method.model_fields_set - _REPLACED | {"variant"}
    refused = [
        flag
        for field, (flag, _) in of_method.items()
        if field in fields and getattr(method, field) != getattr(configuration.method, field)
    ]
    accepted = {"sparsity"} if configuration.rotation.is_auto else set()
    if configuration.rotation.is_identity and rotation.is_identity:
        accepted |= {"mode", "heads"}
    refused += [flag for field, (flag, _) in of_rotation.items() if field not in accepted]
    if refused:
        raise WinaError(
            f'The preset "{preset}" brings its own method and rotation; leave out {", ".join(refused)}, or --preset.'
        )
    method_fields = method.model_dump(exclude={"name", "variant"}) | configuration.method.model_dump(exclude_unset=True)
    method_fields |= {field: getattr(method, field) for field in _REPLACED & of_method.keys()}
    changes: dict[str, object] = {"method": MethodSpec.model_validate(method_fields)}
    if "sparsity" in of_rotation:
        compared = configuration.rotation.model_dump() | {"sparsity": of_rotation["sparsity"][1]}
        changes["rotation"] = RotationSpec.model_validate(compared)
    return configuration.model_copy(update=changes)


def combine_on(
    text: str, context: typer.Context, method: MethodSpec, rotation: RotationSpec, preset: str | None
) -> Configuration:
    """Combine method and rotation like `combine`; a preset chooses its rotation and its allocation on the text."""
    configuration = combine(context, method, rotation, preset)
    return with_text_source(configuration, text) if preset else configuration


def _flags_on_command_line(context: typer.Context, maker: str) -> dict[str, tuple[str, Any]]:
    """Return the flags on the command line that a maker takes, with their values, by the maker's parameters."""
    flags = {}
    for parameter in context.command.params:
        name = parameter.name or ""
        source, prefix = context.get_parameter_source(name), f"{maker}_"
        of_maker = name.removeprefix("configuration_")  # where `configuration_of` takes the maker's flags
        if of_maker.startswith(prefix) and source is not None and source.name == "COMMANDLINE":
            flags[of_maker.removeprefix(prefix)] = (parameter.opts[0], context.params[name])
    return flags


configuration_of = with_flags_of(method=method_spec, rotation=rotation_spec)(combine)
"""`combine` of the flags of both."""


# ---- where a job is computed, and whether ----------------------------------------------------------------------------


def machines_of(names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the machines of `--machine`; none for this computer alone. Raises WinaError for an unknown machine."""
    chosen = tuple(dict.fromkeys(names or ()))
    for name in chosen:
        if name != LOCAL:
            find_place(name)
    return () if chosen == (LOCAL,) else chosen


def confirm_products(job: Job, machines: tuple[str, ...], yes: bool) -> None:
    """Name on stderr what a job computes first; ask on a terminal if that takes long, without `--yes`.

    Raises WinaError if the answer is no.
    """
    missing = announce_products(job, machines)
    if yes or not any(product.is_long for product in missing):
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    if not typer.confirm("Compute this first?", default=True, err=True):
        raise WinaError("Nothing was computed.")


def confirm_and_run(
    job: Job, kind: type[Value], machine: Sequence[str] | None, yes: bool, database: str | None
) -> Value:
    """Run a job after `confirm_products`, here or on the machines of `--machine`; store its results, and return what is
    not stored, a value of this kind."""
    machines = machines_of(machine)
    confirm_products(job, machines, yes)
    with Store(database) as store:
        value = run_recorded(job, store, machines=machines).result
    assert isinstance(value, kind)
    return value
