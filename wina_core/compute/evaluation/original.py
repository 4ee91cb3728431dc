"""Fidelity of a configuration's logits to those of the original model, from stored log-probabilities of that.

The measures are those of llama.cpp's `llama-perplexity --kl-divergence`. Standard errors are over rows, since the
tokens of a row depend on each other.

Each log-probability is stored in 16 bits as its distance d below the largest of its token, d = RANGE (code / 65535)^2:
fine near the top, where the probability is, and at RANGE for all that are further below. Renormalized, they are the
distribution P' that all models are compared with, so that only the difference of P' from P is an error: of a token's KL
divergence below 0.3 nats at most 1e-4 nats, of a larger one at most 0.03 %; of a mean over tokens far less, since
errors cancel.
"""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from torch import Tensor

from wina_core.compute.evaluation.fidelity import row_logits, scored_positions, text_record
from wina_core.compute.evaluation.shared_passes import Batches, SharedPasses, report_scored, with_batches
from wina_core.compute.gating import Gates
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import divergences
from wina_core.compute.reporter import Reporter
from wina_core.compute.stages import Stages
from wina_core.errors import WinaError
from wina_core.files.tables import written_atomically
from wina_core.model_info.safetensors_header import read_safetensors_header
from wina_core.records import MetricRecord, SampleRecord
from wina_core.records.intervals import mean_stderr
from wina_core.specs import ORIGINAL
from wina_core.specs.evaluations import Scored

Floats = NDArray[np.float64]
BatchSize = int | Literal["auto"]
_QUANTILES = {"kl_median": 0.5, "kl_p90": 0.9, "kl_p99": 0.99, "kl_p99_9": 0.999, "kl_max": 1.0}
_ELEMENTS = 2**22
"""Largest number of log-probabilities decoded at once."""


def make_reference(
    loaded: LoadedModel,
    tokens: Tensor,
    batch_size: BatchSize,
    reporter: Reporter,
    path: Path,
    stages: Stages | None = None,
) -> None:
    """Write the log-probabilities of a dense model on `tokens`, int64 [rows, sequence], to a file.

    An interrupted pass continues from its `stages`.
    """

    reporter.stage("original model")

    def measure(batches: Batches) -> None:
        size, shared = batches.size(tokens.shape[1]), SharedPasses(stages)
        shared.carry_text(loaded.view, tokens, size, [None], reporter)

        def logits(row: int) -> Tensor:
            reporter.check()
            logits_of_row = row_logits(loaded, tokens[row])
            report_scored(loaded.view, tokens, row + 1, "log-probabilities", reporter)
            return logits_of_row

        with shared.arriving(tokens.split(size), None):
            write_reference(path, tokens, loaded.view.head.out_features, logits)

    with_batches(batch_size, loaded, "original", reporter, measure)


def measure_original(
    loaded: LoadedModel,
    gates: Gates | None,
    reference: ReferenceFile,
    batch_size: BatchSize,
    reporter: Reporter,
    samples: list[SampleRecord] | None = None,
    shared: SharedPasses | None = None,
    scored: Scored = "all",
) -> tuple[MetricRecord, ...]:
    """Return metrics of a model, gated or not, under the task name "original".

    With P the original's distribution of the next token (`reference`), Q the model's, and x the token that follows in
    its text, over the `scored` positions of each row (`fidelity.scored_positions`):

    - kl: mean of KL(P || Q) in nats; kl_median, kl_p90, kl_p99, kl_p99_9, kl_max: its quantiles over tokens;
    - delta_p: mean of Q(x) - P(x); delta_p_rms: its root mean square;
    - top1_agreement: fraction of tokens where P and Q have the same most likely next token;
    - perplexity, perplexity_original: exp of the mean negative log-likelihood by Q and by P; perplexity_ratio;
    - bits_read, bits_held: bits for each gated weight, with scales, read per token and held; with gates alone.

    Standard errors are those of means over rows, None of fewer than FEWEST_ROWS. The rows are added to `samples` as
    documents, so that two models can be compared row by row. Counts of `gates` restart and are this text's
    afterwards. What was carried through the layers before is taken from `shared`. Raises WinaError for logits that are
    not numbers; Cancelled between batches.
    """
    shared = shared or SharedPasses()
    tokens = reference.tokens
    positions = scored_positions(loaded.view, tokens.shape[1], scored)
    lane = None if gates is None or gates.is_dense else gates

    def measure(batches: Batches) -> _Rows:
        rows = _Rows()
        size = shared.batch_size(tokens, batches.size(tokens.shape[1]))
        shared.carry_text(loaded.view, tokens, size, [lane], reporter)
        with shared.arriving(tokens.split(size), lane):
            for row, ids in enumerate(tokens):
                reporter.check()
                following = slice(positions.start + 1, positions.stop + 1)
                rows.add(row_logits(loaded, ids)[positions], reference.codes(row)[positions], ids[following])
                rows.likelihoods_original.append(reference.likelihoods[row][positions].astype(np.float64))
                report_scored(loaded.view, tokens, row + 1, f"{ORIGINAL}: KL {np.mean(rows.kl):.4g}", reporter)
        return rows

    measured = with_batches(batch_size, loaded, ORIGINAL, reporter, measure)
    if samples is not None:
        samples += measured.samples()
    prompt = {"prompt_hash": reference.text_hash if scored == "all" else _hash_of(reference.text_hash, scored)}
    return (*(record.model_copy(update=prompt) for record in measured.records()), *_bits(gates))


def _hash_of(text: str, scored: Scored) -> str:
    return hashlib.sha256(f"{text} {scored}".encode()).hexdigest()[:16]


@dataclass
class _Rows:
    """Values of every token, a list of rows each."""

    kl: list[Floats] = field(default_factory=list)
    agreement: list[Floats] = field(default_factory=list)
    likelihoods: list[Floats] = field(default_factory=list)
    likelihoods_original: list[Floats] = field(default_factory=list)

    def add(self, logits: Tensor, codes: Tensor, following: Tensor) -> None:
        """Add a row of logits, [tokens, vocabulary], of the reference's codes, and of the ids that follow."""
        kl, agreement, likelihoods = [], [], []
        step = max(1, _ELEMENTS // logits.shape[1])
        for start in range(0, len(logits), step):  # few tokens at once: 32 bits of a wide row can be a GB
            log_original = decode(codes[start : start + step].to(logits.device))
            log = normalized(logits[start : start + step])
            kl.append(divergences(log_original, log))
            agreement.append(log_original.argmax(-1) == log.argmax(-1))
            labels = following[start : start + step, None].to(log.device)
            likelihoods.append(log[: len(labels)].gather(-1, labels)[:, 0])
        self.kl.append(_joined(kl))
        self.agreement.append(_joined(agreement))
        self.likelihoods.append(_joined(likelihoods))

    def samples(self) -> list[SampleRecord]:
        rows = zip(self.kl, self.agreement, self.likelihoods, strict=True)
        return [
            SampleRecord(
                task=ORIGINAL,
                doc=row,
                scores={
                    "kl": (float(kl.mean()), 1.0),
                    "top1_agreement": (float(agreement.mean()), 1.0),
                    "perplexity": (float(likelihoods.sum()), float(likelihoods.size)),
                },
                target="",
                response="",
            )
            for row, (kl, agreement, likelihoods) in enumerate(rows)
        ]

    def records(self) -> tuple[MetricRecord, ...]:
        kl, agreement = np.array(self.kl), np.array(self.agreement)
        ours, originals = np.array(self.likelihoods), np.array(self.likelihoods_original)
        change = np.exp(ours) - np.exp(originals)
        perplexity, original = (math.exp(-float(values.mean())) for values in (ours, originals))
        ratio, rms = perplexity / original, math.sqrt(float(np.square(change).mean()))
        quantiles = np.quantile(kl, list(_QUANTILES.values()))
        tokens, predicted = kl.size, ours.size
        return (
            _record("kl", float(kl.mean()), _stderr(kl), tokens, False),
            *(
                _record(name, float(value), None, tokens, False)
                for name, value in zip(_QUANTILES, quantiles, strict=True)
            ),
            _record("delta_p", float(change.mean()), _stderr(change), predicted, None),
            _record("delta_p_rms", rms, _stderr(np.square(change), 0.5 / rms if rms else 0.0), predicted, False),
            _record("top1_agreement", float(agreement.mean()), _stderr(agreement), tokens, True),
            _record("perplexity", perplexity, _stderr(ours, perplexity), predicted, False),
            _record("perplexity_original", original, _stderr(originals, original), predicted, None),
            _record("perplexity_ratio", ratio, _stderr(ours - originals, ratio), predicted, False),
        )


def _bits(gates: Gates | None) -> tuple[MetricRecord, ...]:
    if gates is None:
        return ()
    return (
        _record("bits_read", gates.bits_read, None, None, None),
        _record("bits_held", gates.bits_held, None, None, None),
    )


def _joined(slices: list[Tensor]) -> Floats:
    array: Floats = torch.cat(slices).double().cpu().numpy()
    return array


def _stderr(values: Floats, slope: float = 1.0) -> float | None:
    """Return the standard error of a function of the mean over rows, [rows, tokens], that has this slope there."""
    error = mean_stderr(values.mean(-1))
    return None if error is None else slope * error


_record = partial(text_record, ORIGINAL)
RANGE = 28.0
"""Largest distance below a token's largest log-probability, in nats: e^-28 times 262,144 tokens are 2e-7."""
_MAX_CODE = 2**16 - 1
_KIND = "reference"
_DTYPES = {"I64": np.int64, "I32": np.int32, "F32": np.float32, "U16": np.uint16}


class ReferenceFile:
    """A file of `write_reference`, whose rows are read one by one.

    Raises WinaError if the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        try:
            header = read_safetensors_header(path, _KIND)
            with safe_open(path, framework="numpy") as file:
                checksums, ids = file.get_tensor("checksums"), file.get_tensor("ids")
                likelihoods = file.get_tensor("likelihoods")
            codes = header.tensors["codes"]
            self._path, self._start = path, header.start + codes.data_offsets[0]
            self._shape: tuple[int, ...] = codes.shape[1:]
            if (codes.dtype, codes.shape[:2]) != ("U16", ids.shape):
                raise ValueError("its codes do not fit its ids")
            self.tokens: Tensor = torch.from_numpy(ids.astype(np.int64))
            """Ids of the text, [rows, sequence]."""
            self.likelihoods: NDArray[np.float32] = likelihoods
            """The model's log-probability of each row's ids after the first, [rows, sequence - 1], exact."""
            self.text_hash = hashlib.sha256(ids.tobytes()).hexdigest()[:16]
            """Equal for equal ids."""
            # Once at the opening, since any damaged byte of the codes would be read as a number.
            for row, expected in enumerate(checksums):
                if _checksum(self._row(row), ids[row], self.likelihoods[row]) != expected:
                    raise ValueError(f"row {row} does not have its checksum")
        except (OSError, SafetensorError, LookupError, ValueError, TypeError) as error:
            raise WinaError(f"it is damaged ({error}).") from error

    def codes(self, row: int) -> Tensor:
        """Return the codes of a row, uint16 [sequence, vocabulary]."""
        return torch.from_numpy(self._row(row))

    def _row(self, row: int) -> NDArray[np.uint16]:
        # Not mapped: pages of all rows would stay in memory.
        count = int(np.prod(self._shape))
        return np.fromfile(self._path, np.uint16, count, offset=self._start + 2 * count * row).reshape(self._shape)


def encode(log: Tensor) -> Tensor:
    """Return the codes, int32 [..., vocabulary], of log-probabilities."""
    # The root gives the likely tokens, which count in a divergence, more codes than the unlikely ones.
    below = (log.amax(-1, keepdim=True) - log).clamp_(max=RANGE)
    return (below / RANGE).sqrt_().mul_(_MAX_CODE).round_().to(torch.int32)


def decode(codes: Tensor) -> Tensor:
    """Return the normalized log-probabilities, float32 [..., vocabulary], of codes."""
    return normalized((codes.to(torch.float32) / _MAX_CODE).square_().mul_(-RANGE))


def normalized(logits: Tensor) -> Tensor:
    """Return log-probabilities, float32 at least, of logits, with a sum in float64.

    Adding 20,000 equal small probabilities to a large one in float32, as `log_softmax` does, can be wrong by 1e-4.
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    logits = logits - logits.amax(-1, keepdim=True)
    return logits.sub_(logits.exp().sum(-1, keepdim=True, dtype=torch.float64).log_().to(logits.dtype))


def reference_bytes(tokens: int, vocabulary: int) -> int:
    """Return the size of the file of a text's reference, without its small tensors."""
    return 2 * tokens * vocabulary


def write_reference(path: Path, tokens: Tensor, vocabulary: int, logits: Callable[[int], Tensor]) -> None:
    """Write the reference of a model on `tokens`, int64 [rows, sequence], a row at a time.

    `logits(row)` returns those of a row, [sequence, vocabulary]. Nothing is left of a file that is not written to the
    end. Raises WinaError if it cannot be written.
    """
    rows, sequence = tokens.shape
    ids = tokens.numpy().astype(np.int32)
    checksums = np.zeros(rows, np.int64)
    likelihoods = np.zeros((rows, sequence - 1), np.float32)
    shapes = {
        "checksums": ("I64", (rows,)),
        "ids": ("I32", (rows, sequence)),
        "likelihoods": ("F32", (rows, sequence - 1)),
        "codes": ("U16", (rows, sequence, vocabulary)),
    }
    header, starts = _header(shapes)
    with written_atomically(path) as file:
        file.write(header)
        # Codes come first, row by row: the small tensors before them are complete only at the end.
        file.seek(len(header) + starts["codes"])
        for row in range(rows):
            log = normalized(logits(row))
            codes = encode(log).cpu().numpy().astype(np.uint16)
            chosen = log[:-1].gather(-1, tokens[row, 1:, None].to(log.device))
            likelihoods[row] = chosen[:, 0].float().cpu().numpy()
            checksums[row] = _checksum(codes, ids[row], likelihoods[row])
            file.write(codes.data)
        for name, values in (("checksums", checksums), ("ids", ids), ("likelihoods", likelihoods)):
            file.seek(len(header) + starts[name])
            file.write(values.tobytes())


def _checksum(*arrays: NDArray[Any]) -> int:
    """Return the CRC-32 of arrays, one after the other."""
    checksum = 0
    for array in arrays:
        checksum = zlib.crc32(np.ascontiguousarray(array).data, checksum)
    return checksum


def _header(shapes: dict[str, tuple[str, tuple[int, ...]]]) -> tuple[bytes, dict[str, int]]:
    """Return the beginning of a safetensors file, and the offset of each tensor after it.

    safetensors itself writes only tensors that are in memory.
    """
    entries, starts, end = {}, {}, 0
    for name, (dtype, shape) in shapes.items():
        starts[name], size = end, int(np.prod(shape)) * np.dtype(_DTYPES[dtype]).itemsize
        end += size
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": (starts[name], end)}
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)  # so that the tensors are aligned, as the format requires
    return len(text).to_bytes(8, "little") + text, starts
