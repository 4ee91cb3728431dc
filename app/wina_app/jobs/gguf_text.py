"""Text about a GGUF file that was written."""

from pathlib import Path

from wina_app.style.number_format import size
from wina_app.style.translation import tr
from wina_core.records import GgufRecord


def gguf_text(record: GgufRecord) -> str:
    """Return the name and size of a file, and its perplexity in both programs."""
    parts = [tr("{name}, {size}", name=Path(record.file).name, size=size(record.bytes))]
    if record.perplexity is None:
        parts.append(tr("not checked in llama.cpp: the optional extra peers is not installed"))
    else:
        pair = record.perplexity
        own, theirs = pair.transformers, pair.llama_cpp
        parts.append(tr("perplexity {own:.4g} in transformers, {theirs:.4g} in llama.cpp", own=own, theirs=theirs))
        if not pair.same_tokens:
            parts.append(tr("llama.cpp splits text into other tokens"))
    return "; ".join(parts)
