"""Actions of each page and other words for them: the palette finds them even before the page is made."""

from typing import NamedTuple

from wina_app.style.translation import tr


class Verb(NamedTuple):
    """An action of a page."""

    text: str
    words: str
    """Other words for it, separated by spaces."""
    command: str = ""
    """Text of the page's command; empty for its primary action."""


VERBS: dict[str, tuple[Verb, ...]] = {
    "model": (
        Verb(tr("Evaluate this model"), tr("benchmark test")),
        Verb(tr("Type a folder or model id"), tr("load import download checkpoint"), tr("Type a folder or model id")),
    ),
    "rotation": (
        Verb(tr("Rotate"), tr("orthogonalize basis eigenvectors invariance rotate the model")),
        Verb(tr("Export GGUF file"), tr("llama.cpp ollama convert save file"), tr("Export GGUF file…")),
    ),
    "sparsity": (
        Verb(tr("Evaluate plan"), tr("benchmark test the plan")),
        Verb(tr("Allocate"), tr("distribute budget spread layers projections optimize"), tr("Allocate")),
        Verb(tr("Calibrate"), tr("calibration error curves activations"), tr("Calibrate")),
        Verb(tr("Measure KL curves"), tr("divergence fidelity"), tr("Measure KL curves")),
        Verb(tr("Export sparse model"), tr("save folder hugging face transformers deploy"), tr("Export sparse model…")),
    ),
    "evaluate": (Verb(tr("Evaluate"), tr("benchmark accuracy perplexity tasks lm-eval run score")),),
    "latency": (Verb(tr("Measure"), tr("measure latency benchmark speed kernel time sweep")),),
    "playground": (
        Verb(tr("Generate"), tr("complete prompt write sample text chat completion")),
        Verb(
            tr("Serve a sparse model folder"), tr("server openai api endpoint port"), tr("Serve a sparse model folder…")
        ),
    ),
    "results": (
        Verb(tr("Export table"), tr("export results save csv excel latex markdown")),
        Verb(tr("Show the compare plot"), tr("compare runs difference significance test"), tr("Show the compare plot")),
    ),
    "studies": (Verb(tr("Run"), tr("run the study reproduce launch start")),),
}


def words_of(page: str, command: str) -> str:
    """Return other words for a page's command, or for its primary action if `command` is empty."""
    return next((verb.words for verb in VERBS.get(page, ()) if verb.command == command), "")
