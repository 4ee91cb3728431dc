"""Results of llama.cpp's tools: `llama-bench -o json`, `-o jsonl` and `-o csv`, and the summary that
`llama-perplexity --kl-divergence` prints (tools/llama-bench, tools/perplexity/perplexity.cpp).

The lines before the summary, on stderr, name the model and its size; they are read if the file has them.
"""

import csv
import io
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import PureWindowsPath

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError

from wina_core.errors import WinaError, explain
from wina_core.records.imports import ImportedPoint, ImportedValue, Parsed
from wina_core.store.imported.metrics import checked

# ---- llama-bench -----------------------------------------------------------------------------------------------------


BENCH_COLUMNS = frozenset({"model_filename", "n_prompt", "n_gen", "avg_ts"})
"""Columns by which its CSV is recognized."""


class BenchTest(BaseModel):
    """One test: a prompt read (n_gen = 0), tokens generated (n_prompt = 0), or both."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())

    model_filename: str = Field(min_length=1)
    model_type: str = ""
    """Architecture, size and file type, for example "llama 1B Q4_0"."""
    model_size: FiniteFloat = Field(gt=0)
    """Bytes of the weights."""
    model_n_params: FiniteFloat = Field(gt=0)
    n_prompt: int = Field(ge=0)
    n_gen: int = Field(ge=0)
    n_depth: int = Field(default=0, ge=0)
    avg_ts: FiniteFloat = Field(gt=0)
    """Tokens per second, mean over the repetitions."""
    stddev_ts: FiniteFloat | None = None
    samples_ts: tuple[FiniteFloat, ...] = ()
    """Tokens per second of each repetition; CSV lacks them."""
    build_commit: str = ""
    build_number: int | None = None
    cpu_info: str = ""
    gpu_info: str = ""
    backends: str = ""
    n_threads: int | None = None
    n_gpu_layers: int | None = None
    flash_attn: bool | int | str | None = None
    type_k: str = ""
    type_v: str = ""
    test_time: datetime | None = None

    @property
    def label(self) -> str:
        """Return llama-bench's name of the test, for example "tg128 @ d512"."""
        prompt = f"pp{self.n_prompt}" if self.n_prompt else ""
        depth = f" @ d{self.n_depth}" if self.n_depth else ""
        return "+".join(filter(None, (prompt, f"tg{self.n_gen}" if self.n_gen else ""))) + depth

    @property
    def stderr(self) -> float | None:
        """Return the standard error of the mean speed; None for one repetition or an unknown number of them."""
        count = len(self.samples_ts)
        return None if self.stddev_ts is None or count < 2 else self.stddev_ts / count**0.5

    @property
    def setting(self) -> dict[str, str]:
        """Return the settings that tests of one configuration share."""
        stated = {
            "threads": self.n_threads,
            "backend": self.backends,
            "GPU layers": self.n_gpu_layers if self.gpu_info else None,
            "flash attention": self.flash_attn,
            "cache": "/".join(dict.fromkeys(filter(None, (self.type_k, self.type_v)))),
            "depth": self.n_depth or None,
        }
        return {name: str(value) for name, value in stated.items() if value not in (None, "")}


_TESTS = TypeAdapter(list[BenchTest])


def from_json(text: str) -> Parsed:
    """Return the points of a JSON array; raise WinaError for other content."""
    try:
        return _parsed(_TESTS.validate_json(text))
    except ValidationError as error:
        raise WinaError(f"it is no result of llama-bench: {explain(error)}") from error


def from_lines(text: str) -> Parsed:
    """Return the points of JSON lines; raise WinaError for other content."""
    return _parsed([_test(line, number) for number, line in enumerate(text.splitlines(), 1) if line.strip()])


def from_csv(text: str) -> Parsed:
    """Return the points of a CSV table; raise WinaError for other content."""
    rows = csv.DictReader(io.StringIO(text))
    return _parsed([_test(row, number) for number, row in enumerate(rows, 2)])


def _test(content: str | dict[str, str], line: int) -> BenchTest:
    try:
        if isinstance(content, str):
            return BenchTest.model_validate_json(content)
        return BenchTest.model_validate({name: cell for name, cell in content.items() if name and cell})
    except ValidationError as error:
        raise WinaError(f"line {line} is no result of llama-bench: {explain(error)}") from error


def _parsed(tests: Sequence[BenchTest]) -> Parsed:
    """Join tests of one file and setting to one point if each kind, prompt and generation, was timed once."""
    alone = [test for test in tests if not (test.n_prompt and test.n_gen)]  # a mean over both has the speed of neither
    if not alone:
        raise WinaError("it has no test of a prompt or of generation alone; run llama-bench with -p and -n.")
    groups: dict[str, list[BenchTest]] = {}
    for test in alone:
        groups.setdefault(repr((test.model_filename, test.model_type, test.setting)), []).append(test)
    points = []
    for group in groups.values():
        once = len(group) == len({bool(test.n_gen) for test in group})
        points += [_point(group)] if once else [_point([test]) for test in group]
    first, times = tests[0], [test.test_time for test in tests if test.test_time is not None]
    build = "" if first.build_number is None else f"build {first.build_number}"
    version = " ".join(filter(None, (build, f"({first.build_commit})" if first.build_commit else "")))
    return Parsed(
        "llama-bench", tuple(points), version=version, measured=min(times).timestamp() if times else None,
        remarks=_left_out(len(tests) - len(alone)),
    )  # fmt: skip


def _left_out(count: int) -> tuple[str, ...]:
    tests = "1 test" if count == 1 else f"{count} tests"
    return (f"{tests} of a prompt and generation together left out: no speed of either follows.",) if count else ()


def _point(tests: Iterable[BenchTest]) -> ImportedPoint:
    """Return the point of a prompt's test, a generation's, or both."""
    tests = list(tests)
    first = tests[0]
    name = re.split(r"[/\\]", first.model_filename)[-1]
    metrics: dict[str, ImportedValue] = {
        "tokens_per_s" if test.n_gen else "prefill_tokens_per_s": ImportedValue(value=test.avg_ts, stderr=test.stderr)
        for test in tests
    }
    metrics["memory"] = ImportedValue(value=first.model_size)
    metrics["bits"] = checked("bits", 8 * first.model_size / first.model_n_params, None, name)
    return ImportedPoint(
        name=name,
        metrics=metrics,
        settings={"tests": ", ".join(test.label for test in tests), **first.setting},
        model=PureWindowsPath(name).stem,
        architecture=first.model_type.split(" ")[0].lower(),
        parameters=first.model_n_params,
        # llama-bench names the GPU also of tests that leave it idle.
        hardware=first.gpu_info if first.gpu_info and first.n_gpu_layers != 0 else first.cpu_info,
    )


# ---- llama-perplexity ------------------------------------------------------------------------------------------------


LOG_HEADING = "KL divergence statistics"
"""Text by which a log of llama-perplexity is recognized."""
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
    """Return the point of a summary; raise WinaError if lines are missing. `file` names a point without a model."""
    start = text.rindex(LOG_HEADING)
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
    """Return the last match's group, without spaces around it; empty without a match."""
    matches = re.findall(pattern, log)
    return str(matches[-1]).strip() if matches else ""
