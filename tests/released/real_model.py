"""The published configuration on a pretrained model in float64, by the oracle and by the project:

    python -m tests.released --model FOLDER --text FILE --layers 0 15

It compares masks, outputs and KL of both, and then computes by the oracle alone which part of the configuration has
which effect on the KL.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import torch
from safetensors.torch import save_file
from torch import Tensor

from tests.released import recomputed
from tests.released.readings import published_rotation
from tests.released.recomputed import BLOCKS, PROJECTIONS, Cell, Gate, Shape, Weights, Wina, read_weights, shape_of
from tests.released.samples import Sample, difference
from wina_core.compute.gating import attach, linear
from wina_core.compute.models.loading import load_model
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation import rotate
from wina_core.specs import MethodSpec, ModelSource, RotationSpec, TextSpec
from wina_core.specs.plans import SparsityPlan, UniformSparsity

PUBLISHED = MethodSpec(name="wina", variant="as_released")
_NEAR = 1e-9
"""Relative distance of the scores on both sides of a mask's boundary below which rounding may change the mask."""
_NO_COLUMN = 1e-10
"""Column norm, relative to the largest, below which a matrix does not read an input."""
_ROWS = 2
"""Rows of text that are computed at once."""


@dataclass(frozen=True)
class MaskOutcome:
    """The comparison of masks, of the inputs that a matrix reads: its column is not zero.

    As released, scores of k contain its column norms, which are zero up to rounding in its null space.
    """

    differing: int
    """Inputs that one side keeps and the other drops."""
    near_ties: int
    """Tokens whose last kept and first dropped scores are nearly equal, so that rounding may exchange the two."""
    inputs: int

    def plus(self, other: "MaskOutcome") -> "MaskOutcome":
        """Return the sums of both."""
        return MaskOutcome(
            self.differing + other.differing, self.near_ties + other.near_ties, self.inputs + other.inputs
        )

    def __str__(self) -> str:
        """Return one line."""
        return f"masks differ in {self.differing} of {self.inputs:,} inputs ({self.near_ties} near ties)"


@dataclass(frozen=True)
class Divergence:
    """KL divergences from the dense model, float64 [rows], in nats, each a mean over the tokens of a row."""

    rows: Tensor

    @property
    def mean(self) -> float:
        """The mean over all tokens."""
        return float(self.rows.mean())

    @property
    def error(self) -> float:
        """The standard error of the mean over rows; NaN below 6 rows, of which it says nothing."""
        return float(self.rows.std()) / math.sqrt(len(self.rows)) if len(self.rows) >= 6 else math.nan


def open_sample(folder: Path) -> Sample:
    """Open a pretrained model of a family of the oracle in float64."""
    loaded = load_model(ModelSource(location=str(folder), dtype="float64", device="cpu"), NullReporter())
    shape = shape_of(loaded.model.config)
    return Sample(folder.name, loaded, read_weights(loaded.model.state_dict(), shape), shape)


# ---- the project beside the oracle -------------------------------------------------------------------------------


class WinaWithTies(Wina):
    """WINA's rule, counting the tokens of each cell whose boundary is nearly a tie."""

    def mask(self, layer: int, name: str, score: Tensor) -> Tensor:
        """Return the mask of a score, and count."""
        kept = self.kept(layer, name, score.shape[-1])
        ordered = score.sort(dim=-1, descending=True).values
        last, first_dropped = ordered[..., kept - 1], ordered[..., kept]
        self.near_ties = self.__dict__.setdefault("near_ties", {})
        self.near_ties[layer, name] = int((last - first_dropped <= _NEAR * last).sum())
        return super().mask(layer, name, score)


@contextmanager
def multiplied_inputs(sample: Sample) -> Iterator[dict[Cell, Tensor]]:
    """Yield a mapping to which every gated product of the project adds what it multiplies, in its last call."""
    cells = {
        id(layer.projections[name].linear.weight): (index, name)
        for index, layer in enumerate(sample.loaded.view.layers)
        for name in PROJECTIONS
    }
    inputs: dict[Cell, Tensor] = {}
    product = linear.dense_product

    def recording(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        inputs[cells[id(weight)]] = x
        return product(x, weight, bias)

    with patch.object(linear, "dense_product", recording):
        yield inputs


def compare_masks(gate: WinaWithTies, inputs: Mapping[Cell, Tensor]) -> MaskOutcome:
    """Compare the oracle's last masks with the zeros of what the project multiplied."""
    differing = count = 0
    for (layer, name), mask in gate.masks.items():
        norms = recomputed.column_norms(gate.weights, layer, (name,))
        read = norms > _NO_COLUMN * norms.max()
        differing += int((mask != (inputs[layer, name] != 0))[..., read].sum())
        count += mask[..., read].numel()
    return MaskOutcome(differing, sum(gate.near_ties.values()), count)


def rotate_by_oracle(sample: Sample) -> Weights:
    """Rotate the project's model by the oracle's bases, and return the oracle's rotated weights.

    Below singular values of about 1e-5 of the largest the project's bases are others: it takes them from Gram matrices,
    whose eigenvalues are too close to be told apart there.
    """
    bases = recomputed.site_bases(recomputed.fold_gains(sample.weights))
    named = {
        f"layers.{layer}.{site}": basis.contiguous()
        for layer, pair in enumerate(bases)
        for site, basis in zip(("attention", "mlp"), pair, strict=True)
    }
    with TemporaryDirectory() as folder:
        file = Path(folder, "bases.safetensors")
        save_file(named, file)
        spec = RotationSpec(mode="per_site", per_head=False, matrices=str(file))
        rotate(sample.loaded, spec, NullReporter())
    return recomputed.transform(sample.weights)


def compare_layer(
    sample: Sample, weights: Weights, ids: Tensor, layer: int, sparsity: float
) -> tuple[float, float, MaskOutcome]:
    """Compare one gated layer of the rotated model, all other layers dense; `weights` are the oracle's rotated ones.

    Return the largest differences of the residual stream before and after it, relative to its largest value, and those
    of the masks.
    """
    gate = WinaWithTies(weights, {(layer, name): sparsity for name in PROJECTIONS}, released=True)
    before = recomputed.layer_inputs(weights, sample.shape, ids, until=layer)[layer]
    after = recomputed.decoder_layer(weights.layers[layer], layer, sample.shape, before, gate)
    layout = sample.loaded.view.layout
    targets = tuple((sparsity if index == layer else 0.0,) * len(layout.projections) for index in range(layout.layers))
    stream: list[Tensor] = []

    def record(_module: Any, arguments: tuple[Tensor, ...], output: Any) -> None:
        stream.extend((arguments[0], output[0] if isinstance(output, tuple) else output))

    hook = sample.loaded.view.layers[layer].module.register_forward_hook(record)
    try:
        plan = SparsityPlan(layout=layout, sparsity=targets)
        with attach(sample.loaded, PUBLISHED, plan), multiplied_inputs(sample) as inputs:
            sample.logits(ids)
    finally:
        hook.remove()
    return difference(stream[0], before), difference(stream[1], after), compare_masks(gate, inputs)


def report_model(sample: Sample, weights: Weights, dense: Tensor, ids: Tensor, sparsity: float) -> None:
    """Print the comparison of the rotated model with all layers gated; `dense` are the project's logits before."""
    logits, masks, expected, found = 0.0, MaskOutcome(0, 0, 0), [], []
    with attach(sample.loaded, PUBLISHED, UniformSparsity(sparsity=sparsity)), multiplied_inputs(sample) as inputs:
        for rows, original in zip(ids.split(_ROWS), dense.split(_ROWS), strict=True):
            gate = WinaWithTies(weights, dict.fromkeys(weights.cells, sparsity), released=True)
            theirs, ours = recomputed.forward(weights, sample.shape, rows, gate), sample.logits(rows)
            logits = max(logits, difference(ours, theirs))
            masks = masks.plus(compare_masks(gate, inputs))
            expected.append(divergence(original, theirs).rows)
            found.append(divergence(original, ours).rows)
    oracle, project = Divergence(torch.cat(expected)), Divergence(torch.cat(found))
    print(f"all layers: logits differ by {logits:.1e}, {masks}")
    print(f"KL, oracle {oracle.mean:.12g}, project {project.mean:.12g}", flush=True)


def measure_own(folder: Path, dense: Tensor, ids: Tensor, text: TextSpec, sparsity: float) -> Divergence:
    """Return the project's KL of the published configuration in bases of its own."""
    loaded = load_model(ModelSource(location=str(folder), dtype="float64", device="cpu"), NullReporter())
    rotate(loaded, published_rotation(text), NullReporter())
    with attach(loaded, PUBLISHED, UniformSparsity(sparsity=sparsity)), torch.no_grad():
        kl = [
            divergence(original, loaded.model(rows, use_cache=False).logits).rows
            for rows, original in zip(ids.split(_ROWS), dense.split(_ROWS), strict=True)
        ]
    return Divergence(torch.cat(kl))


def divergence(dense: Tensor, gated: Tensor) -> Divergence:
    """Return the KL divergence of gated logits [rows, tokens, vocabulary] from dense ones."""
    reference = dense.log_softmax(dim=-1)
    return Divergence((reference.exp() * (reference - gated.log_softmax(dim=-1))).sum(dim=-1).mean(dim=-1))


# ---- parts of the configuration ----------------------------------------------------------------------------------

Rule = Callable[..., Gate]
_RELEASED = partial(Wina, released=True)
_PLAIN = recomputed.unchanged_basis


@dataclass(frozen=True)
class Part:
    """A variant of the published configuration."""

    label: str
    transform: Mapping[str, Any] | None
    """Arguments of `recomputed.transform`; None for the model as it is."""
    rule: Rule = _RELEASED
    names: Sequence[str] = PROJECTIONS
    """Gated projections; none for the dense model."""


_ATTENTION, _MLP = BLOCKS["qkv"], BLOCKS["gate_up"]
PARTS = (
    Part("no transform, TEAL", None, Gate),
    Part("no transform, WINA as released", None),
    Part("no transform, WINA, norms on all matrices", None, Wina),
    Part("no transform, q, k, v gated alone", None, names=_ATTENTION),
    Part("no transform, gate, up gated alone", None, names=_MLP),
    Part("published transform, WINA as released", {}),
    Part("published transform, TEAL", {}, Gate),
    Part("published transform, WINA, norms on all matrices", {}, Wina),
    Part("published transform, q, k, v gated alone", {}, names=_ATTENTION),
    Part("published transform, gate, up gated alone", {}, names=_MLP),
    Part("published transform, means subtracted from the embedding, not gated", {"subtract_mean": True}, names=()),
    Part("published transform, means subtracted from the embedding", {"subtract_mean": True}),
    Part("null space of k as the SVD routine completes it", {"attention": recomputed.lapack_basis}),
    Part("a random basis of the null space of k", {"attention": recomputed.random_null_basis}),
    Part("transform of attention inputs alone", {"mlp": _PLAIN}),
    Part("transform of MLP inputs alone", {"attention": _PLAIN}),
    Part(
        "bases of q, k, v and of gate, up together, norms on all matrices",
        {"attention": recomputed.stacked_basis, "mlp": recomputed.stacked_basis},
        Wina,
    ),
    Part("random bases, TEAL", {"attention": recomputed.random_basis, "mlp": recomputed.random_basis}, Gate),
)
"""Each at the same sparsity of each gated matrix, by the top k of each token."""


def measure_parts(
    parts: Sequence[Part], model: Weights, shape: Shape, dense: Tensor, ids: Tensor, sparsity: float
) -> Iterator[tuple[Part, Divergence]]:
    """Yield the KL of each variant from the model's `dense` logits, by the oracle alone."""
    for transform, members in groupby(parts, key=attrgetter("transform")):  # one transformed copy at a time
        weights = model if transform is None else recomputed.transform(model, **transform)
        for part in members:
            targets = {(layer, name): sparsity for layer, name in weights.cells if name in part.names}
            kl = [
                divergence(original, recomputed.forward(weights, shape, rows, part.rule(weights, targets))).rows
                for rows, original in zip(ids.split(_ROWS), dense.split(_ROWS), strict=True)
            ]
            yield part, Divergence(torch.cat(kl))


def report(folder: Path, text: TextSpec, layers: Sequence[int], sparsity: float, parts: Sequence[Part] = PARTS) -> None:
    """Print all comparisons of one model."""
    sample = open_sample(folder)
    ids = read_tokens(text, sample.loaded.tokenizer)
    print(f"{folder.name}, float64, {text.label}, {100 * sparsity:g} % of each gated matrix\n", flush=True)
    dense = torch.cat([sample.logits(rows) for rows in ids.split(_ROWS)])
    reference = torch.cat([recomputed.forward(sample.weights, sample.shape, rows) for rows in ids.split(_ROWS)])
    print(f"dense logits differ by {difference(dense, reference):.1e}", flush=True)
    weights = rotate_by_oracle(sample)
    for layer in layers:
        inputs, outputs, masks = compare_layer(sample, weights, ids[:_ROWS], layer, sparsity)
        print(f"layer {layer}: inputs differ by {inputs:.1e}, outputs by {outputs:.1e}, {masks}", flush=True)
    report_model(sample, weights, dense, ids, sparsity)
    model, shape = sample.weights, sample.shape
    del sample, weights  # what follows needs their memory
    own = measure_own(folder, dense, ids, text, sparsity)
    print(f"KL in the project's bases {own.mean:.4f}, standard error {own.error:.4f}\n", flush=True)
    print("| Variant | KL | Standard error |\n| --- | ---: | ---: |", flush=True)
    for part, kl in measure_parts(parts, model, shape, reference, ids, sparsity):
        print(f"| {part.label} | {kl.mean:.4f} | {kl.error:.4f} |", flush=True)
