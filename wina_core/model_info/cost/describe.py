"""Summary of a model from its config and the headers of its weights, before any weight is read."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from wina_core.model_info.cost.matrices import held_weights
from wina_core.model_info.cost.terms import Storage, held_bytes
from wina_core.model_info.families import (
    EXPERT_PROJECTIONS,
    FURTHER_BIASES,
    PROJECTIONS,
    ROTATED,
    Family,
    refused_rotations,
    rotation_reason,
)
from wina_core.model_info.gguf_header import read_gguf_header
from wina_core.model_info.model_checks import (
    ACTIVE,
    FURTHER_TOKENS,
    ModelFolder,
    check_folder,
    held_experts,
    read_json,
    separate,
    stated,
)
from wina_core.model_info.resolve import dequantized_folder, gguf_file, local_folder, resolve, with_location
from wina_core.model_info.safetensors_header import FLOATS, TensorEntry
from wina_core.model_info.sizes import stored_dtype, suited, suited_remark
from wina_core.records import ModelShape, ModelSummary
from wina_core.specs import ROTATION_MODES, ModelSource, RotationMode
from wina_core.specs.plans import PlanLayout

_ROTATION_FILE = "wina_rotation.json"
_WINDOW_OFF = ("qwen2", "qwen3", "qwen2_moe", "qwen3_moe")
"""Families that ignore the window of their config unless it says otherwise."""


def check_source(source: ModelSource) -> tuple[ModelSource, ModelSummary | None]:
    """Return the resolved source of a model and its summary from headers; None where these are not here or unusual.

    They are not here for a hub id, and for a GGUF file that was not dequantized yet.

    Raises WinaError for a folder that cannot be loaded, as `check_folder`.
    """
    source = with_location(source)
    file = gguf_file(source)
    if file is not None and not dequantized_folder(file).exists():
        read_gguf_header(file)
        return resolve(source), None
    folder = local_folder(source)
    if folder is None:
        return source, None
    checked = check_folder(folder)
    resolved = resolve(source)
    return resolved, describe_folder(resolved, checked)


def describe_folder(source: ModelSource, folder: ModelFolder) -> ModelSummary | None:
    """Return the summary of a checked folder; None where its config or the names of its weights are unusual.

    The engine's own summary, after loading, differs at most by the bytes of tables that are no weights, and of routers
    that stay in float32.
    """
    try:
        return _Description(source, folder).summary()
    except (KeyError, TypeError, ValueError, AttributeError):  # the engine reports what is wrong with it, if anything
        return None


def remarks(source: ModelSource, folder: Path) -> tuple[str, ...]:
    """Return what to know about the weights of a model in `folder`, as sentences: a GGUF file that they come from, and
    another data type than that of the files."""
    file = gguf_file(source)
    quantized = "" if file is None else read_gguf_header(file).remark
    return tuple(filter(None, (quantized, suited_remark(source, folder))))


class _Description:
    """The sizes of a model by its tensors' names."""

    def __init__(self, source: ModelSource, folder: ModelFolder) -> None:
        self._source, self._folder = source, folder
        self._config, self._family = folder.config, folder.family
        family = self._family
        self._layers = int(self._config["num_hidden_layers"])
        self._weights = {
            name: entry
            for name, entry in separate(folder.weights, int(self._config["hidden_size"])).items()
            if entry.dtype in FLOATS and name.endswith((".weight", ".bias", *FURTHER_BIASES)) and self._is_read(name)
        }
        held = held_experts(self._weights, self._layers) if family.experts else {}
        self._experts = tuple(held.get(layer, 0) for layer in range(self._layers)) if held else ()
        self._active = stated(self._config, ACTIVE) if held else 1
        self._heads = int(self._config["num_attention_heads"])
        self._kv_heads = int(self._config.get("num_key_value_heads") or self._heads)
        self._projections = tuple(name for name in PROJECTIONS if name in family.projections)
        self._embedding = self._tensor(family.embedding)
        self._head = self._weights.get(f"{family.stored_head}.weight")
        self._tied = self._head is None or self._config.get("tie_word_embeddings") is True
        self._head_dim = self._rows("q", 0) // self._heads
        self._norms = [name for name, entry in self._weights.items() if _is_norm(name, entry)]
        chosen = suited(source, folder.path).dtype
        self._dtype = stored_dtype(folder.path, self._weights.values()) if chosen == "auto" else chosen

    def summary(self) -> ModelSummary:
        config, layout, (shortcuts, folded) = self._config, self._layout(), self._rotation()
        shape = self._shape(layout, shortcuts).model_copy(update={"folded": folded})
        refused = refused_rotations(
            self._family.obstacle(_attributes(config)),
            parallel=bool(config.get("use_parallel_residual", self._family.parallel)),
        )
        modes = ROTATION_MODES if shortcuts == "none" else ("none",)
        gated = round(held_weights(shape))
        parameters = sum(entry.elements for entry in self._weights.values())
        if self._tied and self._head is not None:
            parameters -= self._head.elements
        storage = Storage(self._dtype, self._source.quantization)
        return ModelSummary(
            location=self._source.location,
            fingerprint=self._source.fingerprint,
            architecture=self._family.model_class,
            family=self._folder.family_name,
            layout=layout,
            hidden_size=int(config["hidden_size"]),
            intermediate_size=shape.inputs[0][self._projections.index("down")],
            heads=self._heads,
            kv_heads=self._kv_heads,
            head_dim=self._head_dim,
            vocabulary=int(config["vocab_size"]),
            context=int(config["max_position_embeddings"]),
            tied_embeddings=self._tied,
            dtype=self._dtype,
            parameters=parameters,
            gated_parameters=gated,
            memory_bytes=round(held_bytes(shape, parameters, storage, tied=self._tied)),
            rotations=tuple(mode for mode in modes if mode not in refused),
            rotation_reason=rotation_reason(refused) if shortcuts == "none" else ROTATED,
            chat_template=self._has_chat_template(),
            shape=shape,
            remarks=remarks(self._source, self._folder.path),
        )

    def _is_read(self, name: str) -> bool:
        """Return whether a tensor is the model's, not one of the layers after its own that predict further tokens."""
        layer = name.removeprefix(f"{self._family.layers}.").partition(".")[0]
        return FURTHER_TOKENS not in name and not (layer.isdecimal() and int(layer) >= self._layers)

    # ---- sizes ---------------------------------------------------------------------------------------------------

    def _tensor(self, path: str) -> TensorEntry:
        return self._weights[f"{path}.weight"]

    def _linear(self, name: str, layer: int) -> str:
        """Return the path of a projection, that of the first expert where the layer has some."""
        family = self._family
        path = family.projections[name]
        if self._reads_experts(name, layer):
            path = f"{family.experts}.0.{EXPERT_PROJECTIONS[name]}"
        return f"{family.layers}.{layer}.{path}"

    def _reads_experts(self, name: str, layer: int) -> bool:
        return name in EXPERT_PROJECTIONS and bool(self._experts and self._experts[layer])

    def _rows(self, name: str, layer: int) -> int:
        """Return the rows of a projection, which may share a tensor with others."""
        rows = self._tensor(self._linear(name, layer)).shape[0]
        paths = list(self._family.projections.values())
        shared = paths.count(self._family.projections[name])
        if shared == 1:
            return rows
        if shared == 2:
            return rows // 2
        all_heads = self._heads + 2 * self._kv_heads
        return rows * (self._heads if name == "q" else self._kv_heads) // all_heads

    def _layout(self) -> PlanLayout:
        return PlanLayout(
            projections=self._projections,
            parameters=tuple(
                tuple(
                    self._rows(name, layer)
                    * self._tensor(self._linear(name, layer)).shape[1]
                    * (self._active if self._reads_experts(name, layer) else 1)
                    for name in self._projections
                )
                for layer in range(self._layers)
            ),
        )

    def _shape(self, layout: PlanLayout, shortcuts: RotationMode) -> ModelShape:
        family, names = self._family, self._projections
        linears = {self._linear(name, layer) for name in names for layer in range(self._layers)}
        embeddings = [path for path in (family.embedding, family.positions) if path is not None]
        matrices_ = {
            name.removesuffix(".weight"): entry
            for name, entry in self._weights.items()
            if name.endswith(".weight") and len(entry.shape) == 2
        }
        other_weights = [
            entry.elements
            for name, entry in matrices_.items()
            if name not in linears
            and name not in embeddings
            and name != family.stored_head
            and not (family.experts and f".{family.experts}." in name)
        ]
        norms = {name.removesuffix(".weight") for name in self._norms}
        biases = [
            entry
            for name, entry in self._weights.items()
            if name.endswith((".bias", *FURTHER_BIASES)) and name.removesuffix(".bias") not in norms
        ]
        idle = sum(
            (experts - self._active) * self._bias(name, layer)
            for layer, experts in enumerate(self._experts)
            for name in EXPERT_PROJECTIONS
            if experts
        )
        centred = any(f"{name}.bias" in self._weights for name in norms)
        inputs = sum(map(self._norm_inputs, self._norms))
        return ModelShape(
            layout=layout,
            inputs=tuple(
                tuple(self._tensor(self._linear(name, layer)).shape[1] for name in names)
                for layer in range(self._layers)
            ),
            fused=self._linear("q", 0) == self._linear("k", 0),
            hidden_size=int(self._config["hidden_size"]),
            heads=self._heads,
            kv_heads=self._kv_heads,
            head_dim=self._head_dim,
            rotary_dim=_rotary_dim(self._config, family, self._head_dim),
            windows=_windows(self._config, self._folder.family_name, family, self._layers),
            head_weights=(self._head or self._embedding).elements,
            further_weights=sum(other_weights),
            embedding_row=sum(self._tensor(path).shape[1] for path in embeddings),
            embedding_weights=sum(self._tensor(path).elements for path in embeddings),
            tied_head=self._tied,
            rms_norm_inputs=0 if centred else inputs,
            layer_norm_inputs=inputs if centred else 0,
            norm_weights=sum(
                self._weights[f"{name}.{kind}"].elements
                for name in norms
                for kind in ("weight", "bias")
                if f"{name}.{kind}" in self._weights
            ),
            biases=sum(entry.elements for entry in biases) - idle,
            stream_gains=self._has_stream_gains(),
            biased=tuple(name for name in names if f"{self._linear(name, 0)}.bias" in self._weights),
            experts=self._experts,
            active_experts=self._active,
            idle_biases=idle,
            dtype=self._dtype,
            shortcuts=shortcuts,
        )

    def _bias(self, name: str, layer: int) -> int:
        entry = self._weights.get(f"{self._linear(name, layer)}.bias")
        return entry.elements if entry else 0

    def _norm_inputs(self, name: str) -> int:
        """Return the inputs of a norm for one token: one as wide as a head that is the attention's own is called for
        each head."""
        width = self._weights[name].elements
        components = name.split(".")
        is_of_attention = ".".join(components[:-2]).endswith(f".{self._family.attention}")
        if not is_of_attention or width != self._head_dim:
            return width
        return width * (self._heads if components[-2].startswith("q") else self._kv_heads)

    # ---- files ---------------------------------------------------------------------------------------------------

    def _rotation(self) -> tuple[RotationMode, tuple[str, ...]]:
        """Return the mode of the rotation of an exported folder if it left residual shortcuts, else "none", and the
        projections whose norms are folded."""
        path = self._folder.path / _ROTATION_FILE
        if not path.exists():
            return "none", ()
        content = read_json(path)
        mode: RotationMode = content["rotation"]["mode"]
        return mode if content["shortcuts"] else "none", tuple(content["report"].get("folded", ()))

    def _has_stream_gains(self) -> bool:
        family = self._family
        norms = {f"{family.layers}.0.{name}.weight" for name in (family.attention_norm, family.mlp_norm) if name}
        return len(norms & self._weights.keys()) == 2

    def _has_chat_template(self) -> bool:
        folder = self._folder.path
        settings = folder / "tokenizer_config.json"
        if (folder / "chat_template.jinja").exists():
            return True
        return settings.exists() and bool(read_json(settings).get("chat_template"))


def _is_norm(name: str, entry: TensorEntry) -> bool:
    return name.endswith(".weight") and len(entry.shape) == 1 and "norm" in name


def _attributes(config: Mapping[str, Any]) -> Any:
    """Return a config as attributes, with the defaults of transformers that a family's obstacle reads."""
    defaults = {"do_layer_norm_before": True, "_remove_final_layer_norm": False}
    defaults["word_embed_proj_dim"] = config["hidden_size"]
    return SimpleNamespace(**{**defaults, **config})


def _rotary_dim(config: Mapping[str, Any], family: Family, head_dim: int) -> int:
    if family.positions is not None:
        return 0
    parameters = config.get("rope_parameters") or config.get("rope_scaling") or {}
    named = (config.get("partial_rotary_factor"), parameters.get("partial_rotary_factor"), config.get("rotary_pct"))
    share = next((float(fraction) for fraction in named if fraction is not None), family.rotary_share)
    return 2 * (int(head_dim * share) // 2)


def _windows(config: Mapping[str, Any], name: str, family: Family, layers: int) -> tuple[int | None, ...]:
    """Return the positions that each layer attends to; None for all."""
    window = config.get("sliding_window")
    if not config.get("use_sliding_window", name not in _WINDOW_OFF):
        window = None
    types = config.get("layer_types")
    if not types:
        pattern = int(config.get("sliding_window_pattern") or family.window_pattern)
        full = range(family.full_layer % pattern, layers, pattern) if pattern else ()
        types = ["full_attention" if layer in full else "sliding_attention" for layer in range(layers)]
    return tuple(window if kind == "sliding_attention" else None for kind in types)
