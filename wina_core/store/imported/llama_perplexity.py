"""The summary that `llama-perplexity --kl-divergence` prints (llama.cpp, tools/perplexity/perplexity.cpp).

The lines before it, on stderr, name the model and its size; they are read where the file has them.
"""

import re

from wina_core.errors import WinaError
from wina_core.records.imports import ImportedPoint, ImportedValue, Parsed
from wina_core.store.imported.metrics import checked

HEADING = "KL divergence statistics"
"""Text by which such a file is recognized."""
_PROGRESS = re.compile(r"\[\d+\]-?\d")
_NUMBER = r"(-?(?:\d+(?:\.\d+)?(?:e[-+]?\d+)?|nan|inf))(?![\w.])"
_MOST_OF_A_LINE = 1000
"""Characters of a line; the tool writes none as long, and expressions search each line alone."""
_LINES = {
    "perplexity": r"Mean +PPL\(Q\) *:",
    "perplexity_original": r"Mean +PPL\(base\) *:",
    "perplexity_ratio": r"Mean +PPL\(Q\)/PPL\(base\) *:",
    "kl": r"Mean +KLD *:",
    "kl_median": r"Median +KLD *:",
    "kl_p90": r"90\.0% +KLD *:",
    "kl_p99": r"99\.0% +KLD *:",
    "kl_p99_9": r"99\.9% +KLD *:",
    "kl_max": r"Maximum +KLD *:",
    "delta_p": r"Mean +Δp *:",
    "delta_p_rms": r"RMS +Δp *:",
    "top1_agreement": r"Same top p *:",
}
"""The line of each metric."""
_VALUES = {
    name: re.compile(rf"\W*{line}\s*{_NUMBER}\s*%?(?:\s*(?:±|\+/-)\s*{_NUMBER})?") for name, line in _LINES.items()
}
_PERCENTAGES = ("delta_p", "delta_p_rms", "top1_agreement")
_REQUIRED = {"kl": "Mean KLD", "top1_agreement": "Same top p"}
_SIZES = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12}
_BYTES = {"MiB": 2**20, "GiB": 2**30}


def is_log(text: str) -> bool:
    """Return whether a text begins with the perplexities of chunks, "[1]4.5216,[2]4.9273,"."""
    return _PROGRESS.match(text) is not None


def from_log(text: str, file: str) -> Parsed:
    """Return the point of a summary; raise WinaError where lines are missing. `file` names a point without a model."""
    start = text.rindex(HEADING)
    earlier = text.rfind("Perplexity statistics", 0, start)
    summary = text[start if earlier < 0 else earlier :]
    metrics: dict[str, ImportedValue] = {}
    for line in _short_lines(summary):
        for name, pattern in _VALUES.items():
            match = pattern.match(line)
            if match is not None:
                scale = 100 if name in _PERCENTAGES else 1
                stderr = None if match[2] is None else float(match[2]) / scale
                metrics.setdefault(name, checked(name, float(match[1]) / scale, stderr, "the summary"))
    for name, title in _REQUIRED.items():
        if name not in metrics:
            raise WinaError(
                f'its summary has no line "{title}"; let llama-perplexity run to its end, and save all of it.'
            )
    return _with_model(text[:start], metrics, file)


def _with_model(log: str, metrics: dict[str, ImportedValue], file: str) -> Parsed:
    """Return the point with the model that the log before the summary names."""
    log = "\n".join(_short_lines(log))
    path = _last(r"loaded meta data with .* from (.+?) \(version", log)
    gguf = re.split(r"[/\\]", path)[-1] if path else ""
    parameters = re.findall(r"model params\s*=\s*(\d+(?:\.\d+)?)\s*([KMBT])\b", log)
    size = re.findall(r"(?:file|model) size\s*=\s*(\d+(?:\.\d+)?)\s*([MG]iB)\s*\((\d+(?:\.\d+)?) BPW\)", log)
    if size:
        amount, unit, bits = size[-1]
        metrics["memory"] = checked("memory", float(amount) * _BYTES[unit], None, "the log")
        metrics["bits"] = checked("bits", float(bits), None, "the log")
    settings = {
        "type": _last(r"file type\s*=\s*(.+)", log),
        "context": _last(r"n_ctx=(\d+)", log),
        "chunks": _last(r"computing over (\d+) chunks", log),
    }
    build = re.search(r"build:\s*(\d+)\s*\((\w+)\)", log)
    point = ImportedPoint(
        name=gguf or file,
        metrics=metrics,
        settings={name: value for name, value in settings.items() if value},
        model=gguf.removesuffix(".gguf") or _last(r"general\.name\s+str\s*=\s*(.+)", log),
        architecture=_last(r"general\.architecture\s+str\s*=\s*(\S+)", log) or _last(r"\barch\s*=\s*(\S+)", log),
        parameters=float(parameters[-1][0]) * _SIZES[parameters[-1][1]] if parameters else None,
    )
    return Parsed("llama-perplexity", (point,), version=f"build {build[1]} ({build[2]})" if build else "")


def _short_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if len(line) <= _MOST_OF_A_LINE]


def _last(pattern: str, log: str) -> str:
    """Return the last match's group, without spaces around it; empty where there is none."""
    matches = re.findall(pattern, log)
    return str(matches[-1]).strip() if matches else ""
