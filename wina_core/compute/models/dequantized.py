"""Folders of safetensors made of GGUF files: dequantized once into the cache, by transformers."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GgufConfig, modeling_gguf_pytorch_utils
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from wina_core.compute.hooks import attributes
from wina_core.compute.models.describe import describe, reason, without_progress_bars
from wina_core.compute.reporter import Reporter
from wina_core.compute.stages import alone
from wina_core.errors import Cancelled, WinaError
from wina_core.files.hardware import OTHER_DISK, check_room, free_memory, gigabytes
from wina_core.model_info import products
from wina_core.model_info.families import family_of
from wina_core.model_info.gguf_header import GGUF_SIZES, GgufHeader, no_model, read_gguf_header
from wina_core.model_info.model_checks import fault_of_sizes, read_json
from wina_core.model_info.resolve import dequantized_folder
from wina_core.model_info.sizes import fits_memory

_PEAK = 1.2
"""Memory while a file is dequantized over the size of its weights: one tensor's copies, and the reader's objects."""
_UNREAD = ("attention.key_length", "attention.sliding_window", "expert_feed_forward_length")
"""Fields that transformers ignores in favour of its own defaults."""
_ROPE = "rope_freqs.weight"
"""Divisors of the frequencies of rotary positions, which llama.cpp's converter writes for Llama 3.1 and later."""
_LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
"""Parameters that all Llamas with such divisors share; the factor is the largest divisor."""


def dequantized(file: Path, reporter: Reporter) -> Path:
    """Return the folder of the cache with a GGUF file's weights, tokenizer and settings; make it if it is missing.

    The weights are in float32, which holds exactly what a GGUF file means, or in bfloat16 where memory does not allow
    that. Of several engines that need one, the first makes it. Raises WinaError for a file that cannot be opened, if
    possible before anything large is read, and for a lack of memory or disk; and Cancelled between two weights.
    """
    header = read_gguf_header(file)
    folder = dequantized_folder(file)
    if folder.exists():
        return folder
    with alone(folder, "the dequantized weights", reporter):
        if not folder.exists():  # else another engine has made it meanwhile
            _write_folder(file.absolute(), header, folder, reporter)
    return folder


def _write_folder(file: Path, header: GgufHeader, folder: Path, reporter: Reporter) -> None:
    """Write the folder under a hidden name, and rename it once it is whole."""
    products.remove_unfinished(folder.parent, folder)
    dtype, size = _storage(file, header, reporter)
    check_room(folder.parent, size, "The dequantized weights take", OTHER_DISK)
    draft_folder = Path(tempfile.mkdtemp(prefix=".", dir=folder.parent))
    try:
        with _reporting(len(header.tensors), reporter):
            _write(file, header, dtype, draft_folder)
        draft_folder.rename(folder)
    except (Cancelled, WinaError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # any kind for fields that do not fit; a panic of tokenizers is no Exception
        raise WinaError(
            f"The GGUF file {file} cannot be opened ({reason(error)}); download it again, or open the model's "
            "safetensors folder instead."
        ) from error
    finally:
        shutil.rmtree(draft_folder, ignore_errors=True)
    name = str(dtype).removeprefix("torch.")
    reporter.log("info", f"The weights of {file} were dequantized to {name}; they stay in {folder}.")


def _storage(file: Path, header: GgufHeader, reporter: Reporter) -> tuple[torch.dtype, float]:
    """Return the data type of the dequantized weights and their bytes."""
    if fits_memory(4.0 * header.elements):
        return torch.float32, 4.0 * header.elements
    size, free = 2.0 * header.elements, free_memory()
    if _PEAK * size > free:
        raise WinaError(
            f"Dequantizing {file} takes {gigabytes(_PEAK * size)} of memory, but {gigabytes(free)} are free; free "
            "some, or open a smaller model."
        )
    reporter.log("warning", f"Memory does not hold {file} in float32: its weights are rounded to bfloat16.")
    return torch.bfloat16, size


def _write(file: Path, header: GgufHeader, dtype: torch.dtype, folder: Path) -> None:
    """Write weights, tokenizer, chat template and settings.

    transformers is given a folder without files: beside the GGUF file may lie those of another model.
    """
    options: dict[str, Any] = {"gguf_file": str(file), "local_files_only": True, "trust_remote_code": False}
    config = AutoConfig.from_pretrained(folder, **options)
    config.dtype, config.architectures = dtype, [header.family.model_class]
    config.name_or_path = ""
    for field in _UNREAD:
        name, value = GGUF_SIZES[field], header.metadata.get(f"{header.architecture}.{field}")
        if value is not None and hasattr(config, name):
            setattr(config, name, value)
    if _ROPE in header.tensors:
        _scale_positions(file, header, config)
    family_of(config.model_type, header.family.model_class)
    config.save_pretrained(folder)
    weight_count = _weight_count(file, folder)
    held = header.elements - (header.tensors[_ROPE].elements if _ROPE in header.tensors else 0)
    if weight_count != held:
        raise WinaError(
            f"The GGUF file {file} holds {held:,} weights, but transformers' model of its architecture has "
            f"{weight_count:,}; open the model's safetensors folder instead."
        )
    (folder / "config.json").unlink()  # else the tokenizer is looked for beside it
    tokenizer = AutoTokenizer.from_pretrained(folder, **options)
    model, info = AutoModelForCausalLM.from_pretrained(
        folder,
        config=config,
        quantization_config=GgufConfig(dequantize=True),
        dtype=dtype,
        output_loading_info=True,
        **options,
    )
    if info["missing_keys"]:
        raise WinaError(f"The GGUF file {file} lacks the weight {min(info['missing_keys'])}; download it again.")
    for name in ("quantization_config", "_pre_quantization_dtype", "_model_name_or_path"):
        with suppress(AttributeError):
            delattr(model.config, name)
    model.config.name_or_path = ""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _weight_count(file: Path, folder: Path) -> int:
    """Return the number of weights that the folder's config.json describes; WinaError about the GGUF file for none."""
    try:
        fault = fault_of_sizes(read_json(folder / "config.json"))
        if not fault:
            return sum(parameter.numel() for parameter in describe(folder).parameters())
    except WinaError as error:  # it names the folder, which is a hidden one
        fault = reason(error.__cause__ or error)
    raise no_model(file, fault)


def _scale_positions(file: Path, header: GgufHeader, config: Any) -> None:
    """Set the scaling of rotary positions by their divisors, which transformers leaves out; WinaError for others than
    Llama 3's."""
    entry = header.tensors[_ROPE]
    divisors = torch.from_numpy(np.fromfile(file, np.float32, entry.elements, offset=entry.start))
    theta = config.rope_parameters["rope_theta"]
    config.rope_parameters = {"rope_type": "llama3", "rope_theta": theta, "factor": divisors.max().item(), **_LLAMA3}
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    plain = theta ** -torch.arange(0, 1, 1 / len(divisors))
    if entry.type != "F32" or divisors.shape != scaled.shape or not torch.allclose(plain / divisors, scaled, rtol=1e-3):
        raise WinaError(
            f"{file} scales its rotary positions in a way that is not read from GGUF files; "
            "open the model's safetensors folder instead."
        )


@contextmanager
def _reporting(tensors: int, reporter: Reporter) -> Iterator[None]:
    """Report progress and raise Cancelled before each tensor that is dequantized; show no bars; read the header once.

    transformers reads it for each of the three, with objects of every token.
    """
    done = 0
    dequantize, reader = gguf.dequantize, gguf.GGUFReader
    readers: dict[str, Any] = {}

    def dequantize_next(*args: Any) -> Any:
        nonlocal done
        reporter.check()
        weights = dequantize(*args)
        done += 1
        reporter.progress(done, tensors, "tensors", "dequantizing")
        return weights

    def reader_of(path: Any) -> Any:
        reporter.check()
        if str(path) not in readers:
            readers[str(path)] = reader(path)
        return readers[str(path)]

    reporter.stage("loading")
    reporter.progress(0, tensors, "tensors", "dequantizing")
    with (
        without_progress_bars(),
        attributes(modeling_gguf_pytorch_utils, tqdm=lambda tensors, **_: tensors),
        attributes(gguf, dequantize=dequantize_next, GGUFReader=reader_of),
    ):
        yield
