"""Text about a GGUF file that was written."""

from pathlib import Path

from wina_app.style.number_format import size
from wina_app.style.translation import tr
from wina_core.records import GgufRecord


def gguf_text(record: GgufRecord) -> str:
    """Return the name and size of a file, and its perplexity in both programs."""
    texts = [tr("{name}, {size}", name=Path(record.file).name, size=size(record.bytes))]
    if record.perplexity is None:
        texts.append(tr("not checked in llama.cpp: the optional extra peers is not installed"))
    else:
        pair = record.perplexity
        perplexity, llama_cpp = pair.transformers, pair.llama_cpp
        texts.append(
            tr("perplexity {own:.4g} in transformers, {theirs:.4g} in llama.cpp", own=perplexity, theirs=llama_cpp)
        )
        if not pair.same_tokens:
            texts.append(tr("llama.cpp splits text into other tokens"))
    return "; ".join(texts)
