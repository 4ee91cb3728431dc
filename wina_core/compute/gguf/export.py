"""A checked GGUF file of a plain model."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from wina_core.compute.gguf.convert import convert
from wina_core.compute.gguf.llama_cpp_model import LlamaCppModel
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import log_probabilities, probe_logits
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import Reporter
from wina_core.errors import WinaError
from wina_core.files.paths import check_new_file
from wina_core.records.exports import GgufRecord, GgufType, PerplexityPair
from wina_core.specs import TextSpec

_TOKENS, _ROW = 2048, 512
_SAME_WITHIN = 0.01
"""Relative difference of perplexities from which on the file holds another model."""


def write_gguf(
    folder: Path,
    file: Path,
    converter: Path,
    kind: GgufType,
    text: str,
    load: Callable[[], LoadedModel],
    reporter: Reporter,
) -> GgufRecord:
    """Write a plain model's folder as a GGUF file, checked in llama.cpp where llama-cpp-python is installed.

    `load` returns the model of the folder. Raises WinaError for a converter that fails, and a file whose perplexity on
    `text` differs from the model's by more than 1 %; then nothing is left.
    """
    try:
        with folder_beside(file) as place:
            partial = place / file.name
            convert(folder.absolute(), partial, converter, kind, reporter)
            pair = compare(load(), partial, text, reporter) if find_spec("llama_cpp") else None
            if pair and not is_same_model(pair):
                raise WinaError(
                    f"The perplexity of {text} is {pair.transformers:.4g} in transformers and {pair.llama_cpp:.4g} in "
                    "llama.cpp: the GGUF file holds another model, and was not kept."
                )
            check_new_file(file)  # it may have been made meanwhile
            partial.replace(file)
    except OSError as error:
        raise WinaError(f"{file} could not be written ({error}); free some space or choose another name.") from error
    return GgufRecord(file=str(file.absolute()), bytes=file.stat().st_size, perplexity=pair)


@contextmanager
def folder_beside(file: Path) -> Iterator[Path]:
    """Yield a folder beside a file, on the same disk, for the block alone."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".gguf-", dir=file.parent, ignore_cleanup_errors=True) as place:
        yield Path(place).absolute()


def compare(loaded: LoadedModel, file: Path, text: str, reporter: Reporter) -> PerplexityPair:
    """Return the perplexities of a model and its GGUF file on the same tokens of a text.

    Raises WinaError where llama.cpp cannot load the file.
    """
    reporter.stage("")
    reporter.progress(0, None, "", "comparing with llama.cpp")
    row = min(_ROW, getattr(loaded.model.config, "max_position_embeddings", None) or _ROW)
    rows = read_tokens(TextSpec(source=text, tokens=_TOKENS // row * row, sequence=row), loaded.tokenizer)
    first = loaded.view.first_scored
    words = loaded.tokenizer.decode(rows[0][first:])
    own = _perplexity(probe_logits(loaded.view, rows), rows, first)
    with LlamaCppModel(file, torch.get_num_threads(), row) as peer:
        theirs = _perplexity([peer.logits(each.tolist()) for each in rows], rows, first)
        same = peer.encode(words) == loaded.tokenizer(words, add_special_tokens=False)["input_ids"]
    return PerplexityPair(text=text, tokens=rows.numel(), transformers=own, llama_cpp=theirs, same_tokens=same)


def is_same_model(pair: PerplexityPair) -> bool:
    """Return whether two perplexities differ by less than 1 %, as rounding makes them."""
    return abs(pair.llama_cpp / pair.transformers - 1) < _SAME_WITHIN


def _perplexity(logits: Iterable[Tensor], rows: Tensor, first: int) -> float:
    """Return exp of the mean negative log-likelihood of the tokens that follow the positions from `first` on."""
    total = sum(
        float(log_probabilities(each[first:-1]).gather(-1, row[first + 1 :, None]).double().sum())
        for each, row in zip(logits, rows, strict=True)
    )
    return float(torch.tensor(-total / rows[:, first + 1 :].numel()).exp())
