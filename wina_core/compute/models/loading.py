"""Loading of a ModelSource into a live model: safetensors only, no remote code."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from wina_core.compute.models.architectures import view
from wina_core.compute.models.dequantized import dequantized
from wina_core.compute.models.describe import describe, reason, shortened, without_progress_bars
from wina_core.compute.models.finite import check_weights_finite
from wina_core.compute.models.mapped import MappedWeights, converted_in_files, give_back_unchanged
from wina_core.compute.models.norms import compute_norms_in_float64
from wina_core.compute.models.shortcuts import attach_stored_norms, attach_stored_shortcuts, read_rotation_file
from wina_core.compute.models.text_tokens import first_token
from wina_core.compute.models.view import ModelView
from wina_core.compute.reporter import Reporter
from wina_core.errors import Cancelled, WinaError, ran_out_of_memory
from wina_core.files.hardware import memory_limit
from wina_core.model_info import fetching
from wina_core.model_info.model_checks import check_folder
from wina_core.model_info.resolve import gguf_file, local_folder
from wina_core.model_info.sizes import fits_memory, loaded_bytes, suited, suited_remark
from wina_core.records import QuantizationReport, RotationReport
from wina_core.specs import ModelSource, RotationSpec

SPREAD = "spread"
"""The device of a model too large for one accelerator."""

Placement = dict[str, torch.device] | Literal["auto"] | None


@dataclass
class LoadedModel:
    """A model ready for rotation and gating: in evaluation mode, without gradients, on its device."""

    source: ModelSource
    model: Any
    """transformers' PreTrainedModel."""
    tokenizer: Any
    """transformers' tokenizer."""
    view: ModelView
    folder: Path | None = None
    """Folder of its files; None for a model built in memory."""
    rotation: RotationSpec | None = None
    """The last rotation applied, here or before the model was exported."""
    rotation_report: RotationReport | None = None
    quantization_report: QuantizationReport | None = None

    def __post_init__(self) -> None:
        # The activations of BOS are like no other token's, so that statistics leave it out.
        if first_token(self.tokenizer) is not None:
            self.view = replace(self.view, first_scored=1)

    @property
    def device(self) -> torch.device:
        return self.view.embedding.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.view.embedding.weight.dtype


def load_model(source: ModelSource, reporter: Reporter) -> LoadedModel:
    """Load a model and its tokenizer from a local folder or the Hugging Face hub, with residual shortcuts of an export.

    Raises WinaError for every foreseen bad input, if possible before anything large is read, and Cancelled between the
    stages (files, weights, tokenizer) and between two weights.
    """
    reporter.stage("loading")
    placed = placement(source.device, reporter)
    folder = fetched_folder(source, reporter)
    weights = check_folder(folder).weights
    describe(folder)  # refuses sizes that describe no model before weights are read
    sizes = {name: entry.bytes for name, entry in weights.items()}
    size = sum(sizes.values())
    rotated = read_rotation_file(folder)
    reporter.progress(0, size, "bytes", "reading weights")
    reporter.check()
    chosen = suited(source, folder)
    if chosen is not source:
        reporter.log("info", suited_remark(source, folder))
    # Elsewhere the system alone decides.
    stays = placed is None and sys.platform == "linux" and not fits_memory(loaded_bytes(weights, chosen.dtype))
    with reporting_weights(sizes, reporter), converted_in_files(give_back_unchanged) if stays else nullcontext():
        model = load_weights(folder, chosen, placed)
    model_view = view(model)
    if stays:
        model_view = replace(model_view, mapped=_mapped(model_view, folder, reporter))
    check_finite(model_view, folder)
    reporter.progress(size, size, "bytes", "reading tokenizer")
    reporter.check()
    loaded = LoadedModel(source, model, load_tokenizer(folder), model_view, folder)
    if rotated:
        loaded.rotation, loaded.rotation_report = rotated.rotation, rotated.report
        if rotated.shortcuts:
            attach_stored_shortcuts(loaded.view, folder)
        if rotated.report.folded:
            attach_stored_norms(loaded.view, folder)
    return loaded


def fetched_folder(source: ModelSource, reporter: Reporter, files: tuple[str, ...] = fetching.DOWNLOADED) -> Path:
    """Return the folder of a model's files: for a hub id that of its download, for a GGUF file of its dequantized
    weights; a missing one is made."""
    file = gguf_file(source)
    if file is not None:
        return dequantized(file, reporter)
    return local_folder(source) or download(source, reporter, files)


def placement(name: str, reporter: Reporter) -> Placement:
    """Return transformers' `device_map`: None for main memory, "auto" to spread over all accelerators, or one device.

    "spread" with fewer than two accelerators is "auto", with a warning.
    """
    if name == SPREAD:
        accelerators = torch.cuda.device_count()
        if accelerators > 1:
            return "auto"
        reporter.log(
            "warning", f'"{SPREAD}" needs two accelerators, but there {"is one" if accelerators else "are none"} here.'
        )
    device = torch_device(name)
    return None if device.type == "cpu" else {"": device}


def torch_device(name: str) -> torch.device:
    """Return the device of that name, with "auto" and "spread" the first accelerator; raise WinaError if it does not
    exist."""
    if name in ("auto", SPREAD):
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise WinaError(f'"{name}" is not a device; choose "auto", "cpu" or "cuda".') from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise WinaError('No CUDA device is available here; choose the device "cpu" or "auto".')
    return device


def download(source: ModelSource, reporter: Reporter, files: tuple[str, ...] = fetching.DOWNLOADED) -> Path:
    """Return the hub's snapshot of a model in the local cache; missing `files` (patterns) are downloaded."""

    def report(done: float, total: float | None) -> None:
        reporter.check()
        reporter.progress(done, total, "bytes", f"fetching {source.location}")

    reporter.stage("loading")
    report(0, None)
    return fetching.download(source.location, source.revision, report, files)


@without_progress_bars()
def load_weights(folder: Path, source: ModelSource, placed: Placement) -> Any:
    """Return transformers' model of a folder, whole; raise WinaError for files that do not fit each other."""
    try:
        model, info = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=source.dtype if source.dtype == "auto" else getattr(torch, source.dtype),
            device_map=placed,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
        )
    except (Cancelled, WinaError):  # of a sparse model's section
        raise
    except Exception as error:  # the libraries raise many kinds for files that do not fit each other
        if ran_out_of_memory(error):
            raise WinaError(_does_not_fit(source)) from error
        # For other shapes the library suggests this option, which users of this program cannot set.
        shapes_differ = "ignore_mismatched_sizes" in str(error)
        cause = "they have other shapes than it asks for; copy both anew" if shapes_differ else reason(error)
        raise WinaError(f"The weights in {folder} do not fit its config.json: {cause}.") from error
    if {"cpu", "disk"} & set(map(str, getattr(model, "hf_device_map", {}).values())):  # left there for want of room
        raise WinaError(_does_not_fit(source))
    if info["missing_keys"]:
        first, *rest = sorted(info["missing_keys"])
        more = f" and {len(rest)} more" if rest else ""
        raise WinaError(
            f"The weights in {folder} lack {first}{more}, for which its config.json asks; download or copy the model "
            "again."
        )
    if model.dtype == torch.float64:
        compute_norms_in_float64(model)
    return model.eval().requires_grad_(False)


def _mapped(view: ModelView, folder: Path, reporter: Reporter) -> MappedWeights:
    """Return the weights as pages of their files, for a model that memory does not hold.

    Raises WinaError if the memory that the user allows does not hold a layer.
    """
    layer = max(sum(parameter.nbytes for parameter in layer.module.parameters()) for layer in view.layers)
    limit = memory_limit()
    if limit is not None and limit < layer:
        raise WinaError(
            f"A layer's weights take {layer / 1e9:.3g} GB, but only {limit / 1e9:.3g} GB of memory are allowed; allow "
            "at least three times as much as the layer."
        )
    mapped = MappedWeights(view.model, folder.glob("*.safetensors"))
    mapped.give_back_behind(view.model, (layer.module for layer in view.layers))
    reporter.log("info", f"{mapped.size / 1e9:.1f} GB of weights stay in their files and are read layer by layer.")
    return mapped


def check_finite(view: ModelView, folder: Path) -> None:
    """Raise WinaError for weights that are not finite; mapped ones are given back once they were read."""
    for name, module in view.model.named_modules():
        named_weights = (
            (f"{name}.{weight_name}".strip("."), weight)
            for weight_name, weight in module.named_parameters(recurse=False)
        )
        check_weights_finite(named_weights, f"the weight files in {folder}")
        if not list(module.children()):
            view.give_back(module)


def _does_not_fit(source: ModelSource) -> str:
    where = "all accelerators together" if source.device == SPREAD else f'the device "{source.device}"'
    return (
        f"{source.location} does not fit into the memory of {where}; choose a smaller dtype or the cpu, or lower the "
        "number of engines."
    )


def load_tokenizer(folder: Path) -> Any:
    """Return a folder's tokenizer, tried on a short text; raise WinaError for a broken one."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        _try(tokenizer)
    except (Cancelled, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # any kind for a broken file; a panic of the tokenizers library is no Exception
        raise WinaError(
            f"The tokenizer in {folder} cannot be opened ({reason(error)}); restore it from the model's source."
        ) from error
    return tokenizer


def _try(tokenizer: Any) -> None:
    """Raise ValueError or the library's error for a tokenizer that cannot read a short text."""
    longest = tokenizer.model_max_length
    if isinstance(longest, bool) or not isinstance(longest, int | float) or longest <= 0:
        raise ValueError(f"its model_max_length is {longest!r} instead of a positive number")
    ids = tokenizer("The quick brown fox, 1 of 2.\n").input_ids
    if not all(isinstance(token_id, int) for token_id in ids):
        raise ValueError("its tokens have no numbers")
    tokenizer.decode(ids)


def first_line(error: BaseException) -> str:
    return shortened((str(error).strip() or type(error).__name__).splitlines()[0])


# ---- progress and cancellation while transformers reads a model's weights --------------------------------------------

_LOADING = "Loading weights"
"""transformers' name of its bar over the weights."""


@contextmanager
def reporting_weights(sizes: Mapping[str, int], reporter: Reporter) -> Iterator[None]:
    """Report bytes after every weight that transformers loads within the block, and raise Cancelled before the next.

    `sizes` are the bytes of each weight by its name. Weights made from several others count as nothing.
    """

    def hook(bar: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return _reported(args[0], sizes, reporter) if kwargs.get("desc") == _LOADING else bar(*args, **kwargs)

    before = transformers_logging.set_tqdm_hook(hook)
    try:
        yield
    finally:
        transformers_logging.set_tqdm_hook(before)


def _reported(weights: Iterable[tuple[str, Any]], sizes: Mapping[str, int], reporter: Reporter) -> Iterator[Any]:
    total, done = sum(sizes.values()), 0
    for name, weight in weights:
        reporter.check()
        yield name, weight
        done += sizes.get(name, 0)
        reporter.progress(done, total, "bytes", "reading weights")
