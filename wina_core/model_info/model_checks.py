"""Checks of a model folder as far as its config and the headers of its weights tell: no engine, no large read."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from wina_core.errors import WinaError, explain
from wina_core.files.user_file import check_file, read_file
from wina_core.model_info.families import Family, family_of
from wina_core.model_info.safetensors_header import FLOATS, TensorEntry, read_safetensors_header

TOTAL = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
"""Names in a config for the experts of a layer."""
ACTIVE = ("num_experts_per_tok", "moe_k")
"""Names in a config for the experts that a token reads."""
MOST = 4096
"""Several times the experts of published models."""
FURTHER_TOKENS = "mtp"
"""Part of the names of weights that predict further tokens, beside the decoder's layers; they are not loaded."""


def stated(config: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """Return the value that a config has under the first of these names; None without one."""
    return next((config[name] for name in names if config.get(name) is not None), None)


_PICKLE_SUFFIXES = {".bin", ".pt", ".pth", ".ckpt", ".pkl"}
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")
_READ_BY_LIBRARIES = ("*.json", "*.jinja", "*.txt", "*.model", "additional_chat_templates/*")
_MODEL_FILE = "file of a model"
_MOST_LAYERS = 1000
"""Several times the deepest published models; every layer takes time to build."""
_INNER = ("intermediate_size", "ffn_dim", "moe_intermediate_size")
_NEEDED = (
    ("hidden_size",),
    ("num_hidden_layers",),
    ("num_attention_heads",),
    _INNER,
    ("vocab_size",),
)
"""Sizes that a config must state, each in one of these names: the library's defaults are another model's."""
SPARSE_METHOD = "wina"
"""The quantization method of exported sparse models, as their config.json names it."""
_ATTENTIONS = ("eager", "sdpa")
"""Attentions that are part of transformers and torch."""
_POSITIVE = (
    *(name for names in _NEEDED for name in names),
    "num_key_value_heads",
    "head_dim",
    "sliding_window",
    *TOTAL,
)


_TokenId = Annotated[int, Field(ge=-1, lt=2**31, strict=True)]


class _TokenIds(BaseModel):
    """The tokens that config.json and generation_config.json name."""

    bos_token_id: _TokenId | list[_TokenId] | None = None
    eos_token_id: _TokenId | list[_TokenId] | None = None
    pad_token_id: _TokenId | None = None


class _Index(BaseModel):
    """The fields of model.safetensors.index.json that are read, here and by transformers."""

    metadata: dict[str, Any]
    weight_map: dict[str, str] = Field(min_length=1)


def read_config(folder: Path, quantized_by: str | None = None) -> dict[str, Any]:
    """Return the folder's config.json; raise WinaError if it cannot be used, as for weights quantized by others."""
    path = folder / "config.json"
    if not path.exists():
        raise WinaError(f"{folder} has no config.json; choose a folder saved in the Hugging Face format.")
    config = read_json(path)
    section = config.get("quantization_config", {})
    if not isinstance(section, dict):
        raise _faulty(path, f"has the quantization_config {_shown(section)} instead of a JSON object")
    method = section.get("quant_method")
    if "quantization_config" in config and (method is None or method != quantized_by):
        if method == SPARSE_METHOD:
            raise WinaError(
                f"{folder} is an exported sparse model, for use outside of the workbench; open the model that it was "
                f"made from ({_shown(section.get('source'))})."
            )
        raise WinaError(f"The weights in {folder} are quantized; open the model's unquantized weights.")
    for name in ("attn_implementation", "_attn_implementation"):
        if config.get(name) not in (None, *_ATTENTIONS):  # the library fetches others from the Hub and runs them
            raise WinaError(
                f"The config.json in {folder} asks for the attention {config[name]!r}, which may be code of others; "
                f"remove {name} from it."
            )
    return config


def check_sizes(folder: Path, config: Mapping[str, Any]) -> None:
    """Raise WinaError for a config.json without the sizes of a model, or with sizes that cannot be one's."""
    if fault := fault_of_sizes(config):
        raise _faulty(folder / "config.json", f"describes no model ({fault})")


def check_described(folder: Path, config: Mapping[str, Any], weights: Mapping[str, TensorEntry]) -> None:
    """Raise WinaError for a config.json that describes a model with more weights than the folder holds.

    Only the embedding and two matrices of every layer, or of every expert of one layer, are counted, so that this holds
    for every family. Loading compares the rest.
    """
    hidden, inner = config["hidden_size"], stated(config, _INNER)
    embedding = config["vocab_size"] * min(hidden, config.get("word_embed_proj_dim") or hidden)
    of_experts = (stated(config, TOTAL) or 0) * (config.get("moe_intermediate_size") or inner)
    described = embedding + 2 * hidden * max(inner * config["num_hidden_layers"], of_experts)
    held = sum(entry.elements for entry in weights.values())
    if described > held:
        raise WinaError(
            f"The config.json in {folder} describes a model of at least {described:,} weights, but its files hold "
            f"{held:,}; copy both anew."
        )


def fault_of_sizes(config: Mapping[str, Any]) -> str:
    """Return a clause on the size that a config lacks or states wrongly; empty if there is none."""
    for names in _NEEDED:
        if stated(config, names) is None:
            return f"it has no {names[0]}"
    return fault_of_limits(config)


def fault_of_limits(config: Mapping[str, Any]) -> str:
    """Return a clause on the stated size that cannot be a model's; empty if there is none."""
    for name in _POSITIVE:
        value = config.get(name)
        if name == "sliding_window" and value == 0 and not config.get("use_sliding_window"):
            continue  # as qwen2_moe writes that it has none
        # type() refuses true, which isinstance counts as an integer.
        if value is not None and (type(value) is not int or value < 1):
            return f"its {name} is {_shown(value)} instead of a positive integer"
    heads, layers = config.get("num_attention_heads"), config.get("num_hidden_layers")
    if heads and heads % (config.get("num_key_value_heads") or heads):
        return f"its {heads} heads cannot share {config['num_key_value_heads']} key-value heads evenly"
    if layers and layers > _MOST_LAYERS:
        return f"its {layers} layers are more than the {_MOST_LAYERS} that any model may have"
    experts, active = stated(config, TOTAL), stated(config, ACTIVE)
    if experts and experts > MOST:
        return f"its {experts} experts are more than the {MOST} that any layer may have"
    if experts and (type(active) is not int or not 1 <= active <= experts):
        return f"its router chooses {_shown(active)} of {experts} experts for a token"
    kinds = config.get("layer_types")
    if isinstance(kinds, list) and len(kinds) != layers:
        return f"its layer_types are {len(kinds)} for {layers} layers"
    return ""


def _faulty(path: Path, fault: str) -> WinaError:
    return WinaError(f"{path} {fault}; restore it from the model's source.")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file of a model folder; WinaError for any other content."""
    text = read_file(path, _MODEL_FILE)
    try:
        content = json.loads(text.decode("utf-8"), parse_constant=_refuse_constant)
        json.dumps(content, ensure_ascii=False).encode()  # a surrogate is no text
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise _faulty(path, f"cannot be read ({reason})") from error
    if not isinstance(content, dict):
        raise _faulty(path, "does not hold a JSON object")
    return content


def _refuse_constant(name: str) -> float:
    # Python reads NaN and Infinity, which JSON does not have.
    raise ValueError(f"it has the value {name}, which is no number")


def check_files(folder: Path) -> None:
    """Raise WinaError for a file in a model folder that the libraries would open by its name, but that is too large, no
    regular file or, named as JSON, does not hold a JSON object."""
    for pattern in _READ_BY_LIBRARIES:
        for path in sorted(folder.glob(pattern)):
            check_file(path, _MODEL_FILE)
            if pattern == "*.json":
                content = read_json(path)
                try:
                    if path.name in ("config.json", "generation_config.json"):
                        _TokenIds.model_validate(content)
                except ValidationError as error:
                    raise _faulty(path, f"is invalid ({explain(error).rstrip('.')})") from error


def check_weights(folder: Path) -> dict[str, TensorEntry]:
    """Return the weights in the folder's safetensors files.

    Raises WinaError for pickle-only folders, shards outside of the folder, missing shards, truncated and damaged files,
    and integers in place of weights.
    """
    index = folder / "model.safetensors.index.json"
    if index.exists():
        placed = _weight_map(index)
    else:
        file = folder / "model.safetensors"
        if not file.exists():
            _refuse_other_weights(folder)
        placed = dict.fromkeys(read_safetensors_header(file).tensors, file.name)
    weights: dict[str, TensorEntry] = {}
    for name in sorted(set(placed.values())):
        file = folder / name
        if not file.exists():
            raise WinaError(f"The weight file {file} is missing; download or copy it again.")
        weights |= read_safetensors_header(file).tensors
    if missing := placed.keys() - weights.keys():
        raise WinaError(
            f"The weight files in {folder} lack {min(missing)}, which their index names; download or copy them again."
        )
    for name, entry in weights.items():
        if name.endswith("weight") and entry.dtype not in FLOATS:
            raise WinaError(
                f"The weight {name} in {folder} has the dtype {entry.dtype}; open weights in one of "
                f"{', '.join(sorted(FLOATS))}."
            )
    return weights


def _weight_map(index: Path) -> dict[str, str]:
    """Return the file of each weight; WinaError for an index without them, and for files outside of the folder."""
    try:
        placed = _Index.model_validate(read_json(index)).weight_map
    except ValidationError as error:
        raise _faulty(index, f"has no valid weight map ({explain(error).rstrip('.')})") from error
    for name in placed.values():
        if Path(name).name != name or not name.endswith(".safetensors") or "\0" in name or "\\" in name:
            elsewhere = "but weights are read only from safetensors files in the model's own folder"
            raise _faulty(index, f"names the weight file {_shown(name)}, {elsewhere}")
    return placed


def _refuse_other_weights(folder: Path) -> None:
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in _PICKLE_SUFFIXES)
    if pickles:
        raise WinaError(
            f"{folder} has its weights only as pickle ({pickles[0]}), which can run code when it is opened; "
            "convert them to safetensors first."
        )
    raise WinaError(f"{folder} has no model.safetensors; choose a folder that holds the model's weights.")


def check_tokenizer(folder: Path) -> None:
    if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        raise WinaError(
            f"{folder} has no tokenizer; copy tokenizer.json and tokenizer_config.json from the model's source into it."
        )


@dataclass(frozen=True)
class ModelFolder:
    """The config of a supported model and the headers of its weights."""

    path: Path
    config: Mapping[str, Any]
    family: Family
    weights: Mapping[str, TensorEntry]

    @property
    def family_name(self) -> str:
        return str(self.config["model_type"])


def read_supported(folder: Path, quantized_by: str | None = None) -> tuple[dict[str, Any], Family]:
    """Return the config.json of a supported architecture and its family; raise WinaError for others and for impossible
    sizes."""
    content = read_config(folder, quantized_by)
    named = content.get("architectures") or [None]
    family = family_of(str(content.get("model_type")), named[0] if isinstance(named, list) else str(named))
    check_sizes(folder, content)
    return content, family


def check_folder(folder: Path, quantized_by: str | None = None) -> ModelFolder:
    """Return a folder that can be loaded as far as its small files and headers tell.

    A folder quantized by the method `quantized_by` is compared with its config.json when it is loaded. Raises WinaError
    for a missing config or tokenizer, an architecture that is not supported, weights in pickle only, missing or
    truncated weight files, and sizes that do not go together.
    """
    config, family = read_supported(folder, quantized_by)
    weights = check_weights(folder)
    if "quantization_config" not in config:
        check_described(folder, config, weights)
    check_tokenizer(folder)
    check_files(folder)
    return ModelFolder(folder, config, family, weights)
