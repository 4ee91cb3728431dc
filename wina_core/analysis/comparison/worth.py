""" "Will it pay here?": one row for each timed configuration and machine, with a verdict."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from wina_core.records import DecodeRecord, Environment
from wina_core.records.imports import StoredImport
from wina_core.records.texts import UNKNOWN
from wina_core.specs import ModelSource, QuantizationSpec, quantization_label
from wina_core.specs.latency import DecodePoint, DecodeSpec
from wina_core.store.imported.peers import ImportedPeer, fastest_peer, is_same_machine, nearest_width, without_threads
from wina_core.store.timings import DecodeRow
from wina_core.studies.run_labels import model_label

Status = Literal["pays", "does not pay", "within the noise"]


class Speed(NamedTuple):
    """Tokens per second, with the tenth and ninetieth percentile of the repetitions."""

    median: float
    low: float
    high: float


class Gain(NamedTuple):
    """The ratio of two speeds, from the least favourable percentiles to the most favourable ones."""

    ratio: float
    low: float
    high: float

    @property
    def status(self) -> Status:
        """Return "pays" if the whole range lies above 1, "does not pay" if below, else "within the noise"."""
        if self.low > 1:
            return "pays"
        return "does not pay" if self.high < 1 else "within the noise"

    @property
    def text(self) -> str:
        """Return for example "1.62 times (1.51 to 1.73)"."""
        return f"{self.ratio:.2f} times ({self.low:.2f} to {self.high:.2f})"


def gain(speed: Speed, reference: Speed) -> Gain:
    """Return speed / reference: p10 over p90, the medians, and p90 over p10."""
    return Gain(speed.median / reference.median, speed.low / reference.high, speed.high / reference.low)


class BatchLimit(NamedTuple):
    """The batches up to which gating pays."""

    most: int
    """Largest measured batch up to which every measured one pays; 0 if not even one sequence does."""
    following: int | None
    """The next measured batch; None if every measured one pays."""
    even: float | None
    """Batch of equal speed, interpolated between the two; None where the next one is not slower beyond its noise."""

    @property
    def text(self) -> str:
        """Return for example "4 (equal at about 5.7)" or "at least 8"."""
        if self.following is None:
            return f"at least {self.most}"
        start = str(self.most) if self.most else "none"
        if self.even is not None:
            return f"{start} (equal at about {self.even:.1f})" if self.most else start
        return f"{start} (within the noise at {self.following})"


def batch_limit(gains: Mapping[int, Gain]) -> BatchLimit | None:
    """Return the limit from the gains by batch; None where one sequence was not measured.

    Ratio and batch are interpolated on logarithmic scales: speed falls by a power of the batch once the union of its
    masks fills up.
    """
    batches = sorted(gains)
    if not batches or batches[0] != 1:
        return None
    most = 0
    for batch in batches:
        if gains[batch].status != "pays":
            even = _even(most, batch, gains) if gains[batch].status == "does not pay" else None
            return BatchLimit(most, batch, even)
        most = batch
    return BatchLimit(most, None, None)


def _even(most: int, following: int, gains: Mapping[int, Gain]) -> float:
    if most == 0:
        return 1.0
    above, below = math.log(gains[most].ratio), math.log(gains[following].ratio)
    share = above / (above - below)
    return float(math.exp(math.log(most) + share * (math.log(following) - math.log(most))))


class Rival(NamedTuple):
    """A configuration that a user could choose instead, by name, and the gain over it."""

    name: str
    gain: Gain


class Verdict(NamedTuple):
    """The judgement on one configuration."""

    status: Status
    text: str


_RANK: dict[Status, int] = {"pays": 0, "within the noise": 1, "does not pay": 2}


def verdict(dense: Rival, peer: Rival | None) -> Verdict:
    """Return the judgement against the fastest dense decoding, and the fastest peer where one is known.

    The worse of both counts: it does not pay to gate what another tool decodes faster at the same bits.
    """
    worse = dense if peer is None or _RANK[dense.gain.status] >= _RANK[peer.gain.status] else peer
    better = [rival for rival in (dense, peer) if rival is not None and rival is not worse]
    texts = [f"{worse.gain.text} {worse.name}", *(f"{rival.gain.ratio:.2f} times {rival.name}" for rival in better)]
    return Verdict(worse.gain.status, f"{worse.gain.status}: {'; '.join(texts)}")


BATCHES = (1, 2, 4, 8)
"""Batches that a verdict measures."""
_NORMAL_DECILE = 1.28
"""Standard deviations between the mean of a normal distribution and its tenth percentile."""
_Machine = tuple[str, str]


@dataclass(frozen=True)
class WorthRow:
    """One configuration on one machine."""

    model: str
    """Short name, without quantization."""
    bits: str
    """`quantization_label`, or "16" for weights as they are."""
    row: DecodeRow
    """Its timing with one sequence."""
    dense: Rival
    """The fastest dense decoding in the same bits."""
    prefill: Rival
    """The dense model's prompt."""
    peer: ImportedPeer | None
    """The fastest imported point of the model on this machine, in the same width."""
    peer_gain: Rival | None
    limit: BatchLimit | None
    verdict: Verdict
    missing: tuple[str, ...]
    """Parts that were not measured, in words."""

    @property
    def machine(self) -> _Machine:
        return self.row.machine

    @property
    def point(self) -> DecodePoint:
        return self.row.record.point

    @property
    def configuration(self) -> str:
        return f"{self.point.method.label} {100 * self.point.sparsity:.4g} %, rotation {self.point.rotation.label}"

    @property
    def batches(self) -> str:
        return UNKNOWN if self.limit is None else self.limit.text


def worth_rows(rows: Iterable[DecodeRow], imports: Sequence[StoredImport]) -> list[WorthRow]:
    """Return a row for each configuration and machine that was timed with gates and one sequence.

    Superseded timings are left out. Of timings with several versions of the libraries the latest counts.
    """
    groups: dict[tuple[_Machine, DecodePoint], dict[int, DecodeRow]] = {}
    # By time, so that a later timing replaces an earlier one of the same point and batch.
    for row in sorted((row for row in rows if not row.superseded), key=lambda row: row.recorded):
        point = row.record.point
        alone = point.model_copy(update={"batch": 1, "repetitions": 1, "budget_seconds": None})
        groups.setdefault((row.machine, alone), {})[point.batch] = row
    results = []
    for (machine, alone), by_batch in groups.items():
        if alone.sparsity == 0.0 or 1 not in by_batch:
            continue
        zeros = groups.get((machine, alone.model_copy(update={"sparsity": 0.0})), {})
        results.append(_worth(by_batch, zeros, imports))
    return results


def _worth(
    by_batch: Mapping[int, DecodeRow], zeros: Mapping[int, DecodeRow], imports: Sequence[StoredImport]
) -> WorthRow:
    kernels = {batch: row.record for batch, row in zeros.items()}
    rivals = {batch: _dense(row.record, kernels.get(batch)) for batch, row in by_batch.items()}
    row = by_batch[1]
    model, hardware = row.record.point.model, row.record.environment.hardware
    peer = fastest_peer(imports, model, hardware, _width(model))
    beside = None if peer is None else Rival(peer.name, gain(_decoding(row.record), _peer_speed(peer)))
    judged = verdict(rivals[1], beside)
    if not row.stable:
        judged = judged._replace(text=f"{judged.text} (unstable timing)")
    label = quantization_label(model.quantization)
    return WorthRow(
        model=model_label(model.unquantized),
        bits=f"{_width(model)} bits" if label == "none" else label,
        row=row,
        dense=rivals[1],
        prefill=_prefill(row.record),
        peer=peer,
        peer_gain=beside,
        limit=batch_limit({batch: rival.gain for batch, rival in rivals.items()}),
        verdict=judged,
        missing=_missing(by_batch, zeros),
    )


def _decoding(record: DecodeRecord) -> Speed:
    return Speed(record.tokens_per_second, record.p10, record.p90)


def _dense_name(model: ModelSource) -> str:
    label = quantization_label(model.quantization)
    return "PyTorch dense" if label == "none" else f"dense {label}"


def _dense(record: DecodeRecord, zero: DecodeRecord | None) -> Rival:
    """Return the gain over the dense model's decoding or the kernels' at 0 %, whichever is faster.

    The kernels' was timed beside another run of PyTorch's, whose ratio to this one corrects it for the machine's drift.
    """
    median = record.dense_tokens_per_second
    torch = Speed(median, record.dense_p10, record.dense_p90)
    if zero is None or zero.speedup <= 1:
        return Rival(_dense_name(record.point.model), gain(_decoding(record), torch))
    drift = median / zero.dense_tokens_per_second
    kernels = Speed(*(drift * speed for speed in _decoding(zero)))
    return Rival("our kernels at 0 %", gain(_decoding(record), kernels))


def _prefill(record: DecodeRecord) -> Rival:
    gated = Speed(record.prefill_tokens_per_second, record.prefill_p10, record.prefill_p90)
    dense = Speed(record.dense_prefill_tokens_per_second, record.dense_prefill_p10, record.dense_prefill_p90)
    return Rival(_dense_name(record.point.model), gain(gated, dense))


def _peer_speed(peer: ImportedPeer) -> Speed:
    speed = peer.point.metrics["tokens_per_s"]
    spread = _NORMAL_DECILE * (speed.stderr or 0.0)
    # The low end stays above 0, since gains divide by it.
    return Speed(speed.value, max(speed.value - spread, speed.value * 1e-3), speed.value + spread)


def _width(model: ModelSource) -> int:
    """Return the bits of the gated matrices; 16 for a model in the data type of its files, which is the usual one."""
    quantization = model.quantization
    if isinstance(quantization, QuantizationSpec):
        return nearest_width(quantization.mean_bits)
    if quantization != "none":
        return int(quantization.removeprefix("int"))
    return 32 if model.dtype in ("float32", "float64") else 16


def _missing(by_batch: Mapping[int, DecodeRow], zeros: Mapping[int, DecodeRow]) -> tuple[str, ...]:
    batches = [str(batch) for batch in BATCHES if batch not in by_batch]
    missing = [f"batch {', '.join(batches)}"] if batches else []
    return (*missing, *(["our kernels at 0 %"] if by_batch.keys() - zeros.keys() else []))


def is_on(row: WorthRow, environment: Environment) -> bool:
    """Return whether a row was timed on the device of `environment`, with any number of threads."""
    device, hardware = row.machine
    return device == environment.device and is_same_machine(without_threads(hardware), environment.hardware)


def missing_specs(rows: Iterable[WorthRow]) -> list[DecodeSpec]:
    """Return the sweeps that measure what the rows miss, with 0 % and all of BATCHES; stored points are skipped."""
    sparsities: dict[DecodePoint, dict[float, None]] = {}
    for row in rows:
        if row.missing:
            common = row.point.model_copy(update={"sparsity": 0.0})
            sparsities.setdefault(common, {0.0: None})[row.point.sparsity] = None
    return [worth_spec(point, tuple(point_sparsities)) for point, point_sparsities in sparsities.items()]


def worth_spec(point: DecodePoint, sparsities: tuple[float, ...]) -> DecodeSpec:
    common: dict[str, Any] = point.model_dump(exclude={"sparsity", "batch"})
    return DecodeSpec.model_validate(common | {"sparsities": sparsities, "batches": BATCHES})


COLUMNS = (
    *("model", "bits", "rotation", "method", "sparsity", "measured", "tokens/s", "dense tokens/s", "vs dense"),
    *("fastest dense", "imported peer", "peer tokens/s", "vs peer", "prompt tokens/s", "vs dense prompt"),
    *("held MB", "dense held MB", "peak MB", "pays up to batch", "verdict", "missing", "machine"),
)
"""Columns of the table for files, reports and the command line."""


def table_row(row: WorthRow) -> tuple[Any, ...]:
    """Return the cells of COLUMNS; None where a number is unknown."""
    timed, dense = row.row.record, row.dense.gain
    held = timed.held_bytes, timed.dense_held_bytes, timed.peak_bytes
    peer = row.peer and row.peer.point.metrics["tokens_per_s"].value
    return (
        *(row.model, row.bits, row.point.rotation.label, row.point.method.label),
        *(row.point.sparsity, timed.measured_sparsity),
        *(timed.tokens_per_second, timed.tokens_per_second / dense.ratio, dense.ratio, row.dense.name),
        *(row.peer and row.peer.origin, peer, row.peer_gain and row.peer_gain.gain.ratio),
        *(timed.prefill_tokens_per_second, row.prefill.gain.ratio),
        *(None if size is None else size / 1e6 for size in held),
        *(row.batches, row.verdict.text, ", ".join(row.missing), row.machine[1]),
    )
