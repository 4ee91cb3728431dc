"""Fidelity of a gated model's logits to the dense model's on a text."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from wina_core.compute.evaluation.shared_passes import Batches, SharedPasses, report_scored, with_batches
from wina_core.compute.gating import Gates
from wina_core.compute.models.finite import numbers_only
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import divergences, log_probabilities
from wina_core.compute.models.text_tokens import read_tokens_and_bytes
from wina_core.compute.models.view import ModelView
from wina_core.compute.reporter import Reporter
from wina_core.errors import WinaError
from wina_core.records import MetricRecord
from wina_core.records.intervals import mean_stderr
from wina_core.specs import FIDELITY, TextSpec
from wina_core.specs.evaluations import Scored

_ELEMENTS = 2**22
"""Largest number of logits compared at once."""


def measure_fidelity(
    loaded: LoadedModel,
    gates: Gates | None,
    text: TextSpec,
    batch_size: int | Literal["auto"],
    reporter: Reporter,
    shared: SharedPasses | None = None,
) -> tuple[MetricRecord, ...]:
    """Return metrics of the gated model on the rows of a text, under the task name "fidelity".

    Dense means the same model, rotated if it is, with its gates off.

    Of each row, `scored_positions` count.

    - kl: mean over tokens of KL(dense || gated) between next-token distributions, in nats;
    - perplexity: exp of the gated model's mean negative log-likelihood of the tokens that follow these positions;
    - bits_per_byte: the same likelihood in bits over the UTF-8 bytes of those tokens;
    - logits_deviation: ||gated - dense||_F / ||dense||_F over all logits;
    - top1_agreement: fraction of tokens whose most likely next token is the dense model's.

    Standard errors are those of means over rows, whose tokens depend on each other; None of fewer than FEWEST_ROWS.
    Without gates, all differences are 0 by definition. Counts of `gates` restart and are this text's afterwards. Passes
    of other measurements are reused from `shared`, and the dense model's states are left there. Raises
    WinaError for an unreadable text, rows longer than the model's window, and logits that are not numbers; Cancelled
    between batches.
    """
    check_window(loaded, text)
    shared = shared or SharedPasses()
    rows, byte_counts = read_tokens_and_bytes(text, loaded.tokenizer)
    scored = scored_positions(loaded.view, text.sequence, text.scored)
    text_bytes = int(byte_counts[:, scored.start + 1 : scored.stop + 1].sum())

    # Gates that drop nothing need no pass beside the dense model's.
    gated_lane = None if gates is None or gates.is_dense else gates
    lanes = [None] if gated_lane is None else [None, gated_lane]

    def measure(batches: Batches) -> tuple[MetricRecord, ...]:
        size = shared.batch_size(rows, batches.size(rows.shape[1]))
        shared.carry_text(loaded.view, rows, size, lanes, reporter)
        arrivals = {lane: shared.arrival(rows.split(size), lane) for lane in lanes}

        def logits(row: Tensor, lane: Gates | None) -> Tensor:
            reporter.check()
            with arrivals[lane]():
                return row_logits(loaded, row)[scored]

        sums = _Sums()
        for done, ids in enumerate(rows, start=1):  # one at a time: the logits of a batch can be GB
            row = ids.to(loaded.device)
            dense = logits(row, None)
            following = row[scored.start + 1 : scored.stop + 1]
            sums.add(dense, dense if gated_lane is None else logits(row, gated_lane), following)
            report_scored(loaded.view, rows, done, f"{FIDELITY}: KL {sums.kl.mean:.4g}", reporter)
        return sums.records(text_bytes)

    return with_batches(batch_size, loaded, FIDELITY, reporter, measure)


def carry_fidelity(
    loaded: LoadedModel,
    lanes: Sequence[Gates | None],
    text: TextSpec,
    batch_size: int | Literal["auto"],
    reporter: Reporter,
    shared: SharedPasses,
) -> None:
    """Carry a text through the layers for `measure_fidelity` and `measure_original` of several configurations.

    `lanes` are removed gates, and None for the dense model. Raises as `measure_fidelity` does.
    """
    check_window(loaded, text)
    rows, _ = read_tokens_and_bytes(text, loaded.tokenizer)

    def carry(batches: Batches) -> None:
        shared.carry_text(loaded.view, rows, batches.size(rows.shape[1]), lanes, reporter)

    with_batches(batch_size, loaded, FIDELITY, reporter, carry)


def row_logits(loaded: LoadedModel, tokens: Tensor) -> Tensor:
    """Return logits, [sequence, vocabulary], of a row of ids in the model's dtype."""
    with torch.no_grad(), numbers_only(loaded.view, "on the fidelity text"):
        logits: Tensor = loaded.model(tokens[None].to(loaded.device), use_cache=False).logits[0]
    return logits


def check_window(loaded: LoadedModel, text: TextSpec) -> None:
    """Raise WinaError for rows of a text that are longer than the model's window."""
    window = getattr(loaded.model.config, "max_position_embeddings", None) or text.sequence
    if text.sequence > window:
        raise WinaError(
            f"The fidelity text has rows of {text.sequence:,} tokens, but the model's window has {window:,}; "
            "choose shorter rows."
        )


def scored_positions(view: ModelView, sequence: int, scored: Scored) -> slice:
    """Return the positions of each row of `sequence` tokens whose predictions are compared (`TextSpec.scored`)."""
    if scored == "second_half":
        return slice(sequence // 2, sequence - 1)
    return slice(view.first_scored, sequence)


class _Mean:
    """Running mean of per-token values, with its standard error over rows of equally many tokens."""

    def __init__(self) -> None:
        self.count = 0
        self._rows: list[float] = []
        """Sum of each row."""

    def begin_row(self) -> None:
        self._rows.append(0.0)

    def add(self, values: Tensor) -> None:
        self.count += values.numel()
        self._rows[-1] += float(values.to(torch.float64).sum())

    @property
    def mean(self) -> float:
        return sum(self._rows) / self.count

    def stderr(self, slope: float = 1.0) -> float | None:
        """Return the standard error of a function of the mean that has this slope there."""
        error = mean_stderr(np.array(self._rows) * len(self._rows) / self.count)
        return None if error is None else slope * error


class _Sums:
    """Sums over tokens for the metrics of `measure_fidelity`."""

    def __init__(self) -> None:
        self.kl, self.nll, self.agreement = _Mean(), _Mean(), _Mean()
        self._difference = self._dense = 0.0

    def add(self, dense: Tensor, gated: Tensor, following: Tensor) -> None:
        """Add one row: logits [tokens, vocabulary] of both models, and the ids that follow them."""
        for mean in (self.kl, self.nll, self.agreement):
            mean.begin_row()
        exact = torch.promote_types(dense.dtype, torch.float32)
        step = max(1, _ELEMENTS // dense.shape[-1])
        for start in range(0, len(dense), step):  # few tokens at once: wide logits in 32 bits can be GB
            dense_block, gated_block = dense[start : start + step].to(exact), gated[start : start + step].to(exact)
            log_dense, log_gated = log_probabilities(dense_block), log_probabilities(gated_block)
            labels = following[start : start + step, None]
            self.kl.add(divergences(log_dense, log_gated))
            if len(labels):
                self.nll.add(-log_gated[: len(labels)].gather(-1, labels))
            self.agreement.add(dense_block.argmax(-1) == gated_block.argmax(-1))
            self._difference += float(torch.linalg.vector_norm(gated_block - dense_block).double().square())
            self._dense += float(torch.linalg.vector_norm(dense_block).double().square())

    def records(self, text_bytes: int) -> tuple[MetricRecord, ...]:
        """Return the metrics, given the UTF-8 bytes of the predicted tokens."""
        perplexity, bits = math.exp(self.nll.mean), self.nll.count / math.log(2) / text_bytes
        difference = math.sqrt(self._difference / self._dense)
        record = partial(text_record, FIDELITY)
        return (
            record("kl", self.kl.mean, self.kl.stderr(), self.kl.count, False),
            record("perplexity", perplexity, self.nll.stderr(perplexity), self.nll.count, False),
            record("bits_per_byte", bits * self.nll.mean, self.nll.stderr(bits), self.nll.count, False),
            record("logits_deviation", difference, None, self.kl.count, False),
            record("top1_agreement", self.agreement.mean, self.agreement.stderr(), self.agreement.count, True),
        )


def text_record(
    task: str, metric: str, value: float, stderr: float | None, tokens: int | None, better: bool | None
) -> MetricRecord:
    """Return a metric of a text; `better` says whether a higher value is."""
    return MetricRecord(task=task, metric=metric, value=value, stderr=stderr, n=tokens, higher_is_better=better)
