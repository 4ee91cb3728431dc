"""Facts of a model from its config and the headers of its weights, before any weight is read."""

from dataclasses import dataclass
from pathlib import Path

from wina_core.model_info.gguf_header import read_gguf_header
from wina_core.model_info.model_checks import FURTHER_TOKENS, ModelFolder, check_folder
from wina_core.model_info.resolve import dequantized_folder, gguf_file, local_folder, resolve, with_location
from wina_core.model_info.safetensors_header import FLOATS
from wina_core.model_info.sizes import suited_remark
from wina_core.specs import ModelSource


@dataclass(frozen=True)
class ModelFacts:
    """Facts that tell whether numbers of other programs are a model's; a `ModelSummary` has them, too."""

    family: str
    parameters: int
    vocabulary: int
    hidden_size: int
    tied_embeddings: bool

    @classmethod
    def of(cls, folder: ModelFolder) -> "ModelFacts":
        config = folder.config
        head = folder.weights.get(f"{folder.family.stored_head}.weight")
        tied = head is None or config.get("tie_word_embeddings") is True
        entries = (entry for name, entry in folder.weights.items() if FURTHER_TOKENS not in name)
        parameters = sum(entry.elements for entry in entries if entry.dtype in FLOATS)
        return cls(
            family=folder.family_name,
            parameters=parameters - (head.elements if tied and head is not None else 0),
            vocabulary=config["vocab_size"],
            hidden_size=config["hidden_size"],
            tied_embeddings=tied,
        )


def check_source(source: ModelSource) -> tuple[ModelSource, ModelFacts | None]:
    """Return the resolved source of a model and its facts; None where its weights are not in a folder here.

    They are not for a hub id, and for a GGUF file that was not dequantized yet. Raises WinaError for a folder that
    cannot be loaded, as `check_folder`.
    """
    source = with_location(source)
    file = gguf_file(source)
    if file is not None and not dequantized_folder(file).exists():
        read_gguf_header(file)
        return resolve(source), None
    folder = local_folder(source)
    if folder is None:
        return source, None
    return resolve(source), ModelFacts.of(check_folder(folder))


def remarks(source: ModelSource, folder: Path) -> tuple[str, ...]:
    """Return what to know about the weights of a model in `folder`, as sentences: a GGUF file that they come from, and
    another data type than that of the files."""
    file = gguf_file(source)
    quantized = "" if file is None else read_gguf_header(file).remark
    return tuple(filter(None, (quantized, suited_remark(source, folder))))
