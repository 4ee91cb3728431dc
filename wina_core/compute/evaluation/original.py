"""Fidelity of a configuration's logits to those of the original model, from stored log-probabilities of that.

The measures are those of llama.cpp's `llama-perplexity --kl-divergence`. Standard errors are over rows, since the
tokens of a row depend on each other.
"""

import hashlib
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wina_core.compute.evaluation.batching import Batches, with_batches
from wina_core.compute.evaluation.fidelity import scored_positions
from wina_core.compute.evaluation.reference import Reference, decode, normalized, write_reference
from wina_core.compute.evaluation.shared_passes import SharedPasses, report_scored
from wina_core.compute.gating import Gates
from wina_core.compute.models.finite import numbers_only
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import divergences
from wina_core.compute.reporter import Reporter
from wina_core.compute.stages import Stages
from wina_core.records import MetricRecord, SampleRecord
from wina_core.records.means import mean_stderr
from wina_core.specs import ORIGINAL
from wina_core.specs.texts import Scored

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
            found = _logits(loaded, tokens[row])
            report_scored(loaded.view, tokens, row + 1, "log-probabilities", reporter)
            return found

        with shared.arriving(tokens.split(size), None):
            write_reference(path, tokens, loaded.view.head.out_features, logits)

    with_batches(batch_size, loaded, "original", reporter, measure)


def measure_original(
    loaded: LoadedModel,
    gates: Gates | None,
    reference: Reference,
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
                rows.add(_logits(loaded, ids)[positions], reference.codes(row)[positions], ids[following])
                rows.likelihoods_original.append(reference.likelihoods[row][positions].astype(np.float64))
                report_scored(loaded.view, tokens, row + 1, f"{ORIGINAL}: KL {np.mean(rows.kl):.4g}", reporter)
        return rows

    measured = with_batches(batch_size, loaded, ORIGINAL, reporter, measure)
    if samples is not None:
        samples += measured.samples()
    asked = {"prompt_hash": reference.text_hash if scored == "all" else _hash_of(reference.text_hash, scored)}
    return (*(record.model_copy(update=asked) for record in measured.records()), *_bits(gates))


def _hash_of(text: str, scored: Scored) -> str:
    """Return a hash of a text and of the positions that are scored, 16 hex digits."""
    return hashlib.sha256(f"{text} {scored}".encode()).hexdigest()[:16]


def _logits(loaded: LoadedModel, tokens: Tensor) -> Tensor:
    """Return logits, [sequence, vocabulary], of a row in the model's dtype."""
    with torch.no_grad(), numbers_only(loaded.view, "on the fidelity text"):
        found: Tensor = loaded.model(tokens[None].to(loaded.device), use_cache=False).logits[0]
    return found


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
        """Return a document for each row."""
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
        """Return the metrics."""
        kl, agreement = np.array(self.kl), np.array(self.agreement)
        ours, originals = np.array(self.likelihoods), np.array(self.likelihoods_original)
        change = np.exp(ours) - np.exp(originals)
        perplexity, original = (math.exp(-float(each.mean())) for each in (ours, originals))
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
    return tuple(
        MetricRecord(task=ORIGINAL, metric=metric, value=value, stderr=None, n=None, higher_is_better=None)
        for metric, value in (("bits_read", gates.bits_read), ("bits_held", gates.bits_held))
    )


def _joined(slices: list[Tensor]) -> Floats:
    found: Floats = torch.cat(slices).double().cpu().numpy()
    return found


def _stderr(values: Floats, slope: float = 1.0) -> float | None:
    """Return the standard error of a function of the mean over rows, [rows, tokens], that has this slope there."""
    error = mean_stderr(values.mean(-1))
    return None if error is None else slope * error


def _record(metric: str, value: float, stderr: float | None, tokens: int, better: bool | None) -> MetricRecord:
    return MetricRecord(task=ORIGINAL, metric=metric, value=value, stderr=stderr, n=tokens, higher_is_better=better)
