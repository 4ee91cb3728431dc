"""Gates on a live model: attached, toggled, counted, and taken off again without a trace."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn

from wina_core.compute.gating.decoding import transpose
from wina_core.compute.gating.linear import Call, GatedForward, Slice
from wina_core.compute.gating.low_rank import LowRank, low_ranks
from wina_core.compute.gating.rules import Rule, rules
from wina_core.compute.gating.signals import GateActivation
from wina_core.compute.gating.tokens import dense_prefix
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.shortcuts import shortcut_parameters
from wina_core.compute.models.view import LayerView, ModelView, Rows, joined
from wina_core.masks.targets import resolve_plan
from wina_core.methods import get_method
from wina_core.records import LayerRecord
from wina_core.specs import MethodSpec
from wina_core.specs.plans import SparsityPlan, UniformSparsity

if TYPE_CHECKING:
    from wina_core.compute.calibration.result import Calibration


def attach(
    loaded: LoadedModel,
    method: MethodSpec,
    plan: UniformSparsity | SparsityPlan,
    calibration: Calibration | None = None,
    dense_prefix: float = 0.0,
    kernels: bool = False,
    cuts_at: SparsityPlan | None = None,
) -> Gates:
    """Gate a loaded model in place, until the returned Gates are detached or their `with` block ends.

    `calibration` is the method's own on this model, for methods that need one; `cuts_at` says where its cuts are read
    (`gating.correction`), at the plan's own targets by default. `dense_prefix` is the fraction of each
    prefilled sequence's first tokens left dense; tokens decoded from a cache are always gated. With `kernels` a few
    tokens at a time are multiplied without reading the weights of dropped inputs, which are held transposed for as
    long; the results differ by rounding alone. Raises WinaError for an unknown method, for a plan made for another
    model, and for targets that the method cannot reach (`resolve_plan`).
    """
    table = resolve_plan(plan, loaded.view.layout, method)
    by_name = rules(loaded.view, method, table, calibration, cuts_at), low_ranks(loaded.view, method, table)
    return Gates(loaded.view, method, *by_name, dense_prefix, kernels)


class Gates:
    """The gates of one model and the count of what they drop. Parameters and their names are never touched.

    Counts are over real tokens: padding, known from a 2-D attention mask or from `tokens`, is left out, and tokens
    that stay dense count as kept.
    """

    def __init__(
        self,
        view: ModelView,
        method: MethodSpec,
        table: list[dict[str, Rule]],
        low_rank: list[dict[str, LowRank]],
        dense_prefix: float,
        kernels: bool = False,
    ) -> None:
        self._view = view
        self._dense_prefix = dense_prefix
        self._call = Call()
        self._given: Tensor | None = None
        self._arguments = inspect.signature(view.model.forward)
        self._signals: list[GateActivation] = []
        self._forwards = []
        by_signal = get_method(method).by_gate_activation
        for layer in view.layers:
            row = table[layer.index]
            if by_signal:
                self._signals.append(GateActivation(layer))
                gated = _signalled(layer, row, self._signals[-1])
            else:
                gated = _slices(layer, row, low_rank[layer.index])
            self._forwards += [GatedForward(linear, slices, self._call) for linear, slices in gated]
        self._transposed = transpose(self._forwards, self._call) if kernels else []
        for forward in self._forwards:
            forward.install()
        self._hooks = [
            view.model.register_forward_pre_hook(self._before_call, with_kwargs=True),
            view.model.register_forward_hook(self._after_call, always_call=True),
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.detach()

    def detach(self) -> None:
        """Restore every layer's own forward; the counts stay readable."""
        for gated in self._forwards:
            gated.remove()
        for part in self._slices:
            part.product = part.decode = None  # they hold the transposed memory
        for together in self._transposed:
            together.restore()
        for hook in self._hooks:
            hook.remove()
        for signal in self._signals:
            signal.remove()

    @property
    def enabled(self) -> bool:
        """When False the model computes and counts as if it were not gated: bit for bit, but for the rounding of
        products with weights that are held transposed."""
        return self._call.enabled

    @enabled.setter
    def enabled(self, value: bool) -> None:
        self._call.enabled = value

    @property
    def is_dense(self) -> bool:
        """True when the method gates nothing, so that the model is dense either way."""
        return not self._forwards

    @contextmanager
    def tokens(self, real: Tensor) -> Iterator[None]:
        """Within: calls of the model have these real tokens, bool [batch, tokens], for batches without a mask."""
        self._given = real
        try:
            yield
        finally:
            self._given = None

    def reset_counts(self) -> None:
        """Start counting anew."""
        for part in self._slices:
            part.reset_counts()

    def measured(self) -> tuple[LayerRecord, ...]:
        """Metric "sparsity" of every gated projection that has seen a token: the fraction of its weights not read.

        That is the dropped fraction of its inputs (of its outputs, for CATS and up), less its low-rank part.
        """
        values = self._sparsities()
        return tuple(
            LayerRecord(layer=layer.index, projection=name, metric="sparsity", value=values[layer.index, name])
            for layer in self._view.layers
            for name in layer.projections
            if (layer.index, name) in values
        )

    @property
    def counted_sparsity(self) -> float:
        """Dropped fraction of the weights in the plan's matrices, measured from the masks."""
        return self._dropped_weights() / self._weights

    @property
    def full_sparsity(self) -> float:
        """The same with all else that is read counted as kept weights: residual shortcuts, what the masks are made by
        (norms, centres, fills), and biases of replaced inputs."""
        distinct = {id(part.rule): part.rule for part in self._slices if part.rule is not None}
        added = shortcut_parameters(self._view.model) + sum(rule.numbers for rule in distinct.values())
        added += sum(map(_bias_weights, self._forwards))
        return (self._dropped_weights() - added) / self._weights

    @property
    def _slices(self) -> list[Slice]:
        return [part for gated in self._forwards for part in gated.slices]

    @property
    def _weights(self) -> int:
        return sum(map(sum, self._view.layout.parameters))

    def _sparsities(self) -> dict[tuple[int, str], float]:
        """{(layer, projection): fraction of its weights not read}."""
        values = {}
        for part in self._slices:
            kept, seen = part.counted()
            if seen:
                value = 1 - kept / seen
                if part.low_rank is not None:
                    left, right = part.low_rank.left, part.low_rank.right
                    value -= part.low_rank.weights / (len(left) * right.shape[1])
                values.update(dict.fromkeys(((part.layer, name) for name in part.names), value))
        return values

    def _dropped_weights(self) -> float:
        layout = self._view.layout
        return sum(
            value * layout.parameters[layer][layout.projections.index(name)]
            for (layer, name), value in self._sparsities().items()
        )

    def _before_call(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = self._arguments.bind_partial(*args, **kwargs).arguments
        inputs = given["input_ids"] if given.get("input_ids") is not None else given["inputs_embeds"]
        batch, tokens = inputs.shape[:2]
        real, attention = self._given, given.get("attention_mask")
        if real is None and attention is not None and attention.dim() == 2:
            real = attention[:, -tokens:].bool()
        if real is not None and real.device.type == "cpu" and bool(real.all()):
            real = None  # as when nothing is padded; elsewhere, asking would wait for the device
        past = given.get("past_key_values")
        dense = None
        if self._dense_prefix > 0 and (past is None or past.get_seq_length() == 0):
            everything = torch.ones(batch, tokens, dtype=torch.bool, device=inputs.device)
            dense = dense_prefix(everything if real is None else real, self._dense_prefix)
        self._call.begin(real, dense)

    def _after_call(self, *_: object) -> None:
        self._call.begin()


def _bias_weights(forward: GatedForward) -> int:
    """What a linear layer without a bias needs one for: the part of W that replaced inputs contribute."""
    replaced = [part for part in forward.slices if part.rule is not None and part.rule.replaces]
    bias: Tensor | None = forward.linear.bias  # None where there is none, whatever the annotation says
    return sum(_length(part.rows) for part in replaced) if bias is None else 0


def _length(rows: Rows) -> int:
    return rows.stop - rows.start if isinstance(rows, slice) else len(rows)


def _slices(
    layer: LayerView, row: dict[str, Rule], low_rank: dict[str, LowRank]
) -> list[tuple[nn.Linear, list[Slice]]]:
    """The layer's linear modules that have a gated projection, with their rows cut wherever the masks differ."""
    by_linear: dict[nn.Linear, list[Slice]] = {}
    for name, projection in layer.projections.items():
        rule, added = row.get(name), low_rank.get(name)
        slices = by_linear.setdefault(projection.linear, [])
        before = slices[-1] if slices else None
        if before and before.rule is rule and before.low_rank is None and added is None:
            before.names += (name,)
            before.rows = joined(before.rows, projection.rows)
        else:
            slices.append(Slice(layer.index, (name,), projection.rows, rule, added))
    return [(linear, slices) for linear, slices in by_linear.items() if any(part.rule for part in slices)]


def _signalled(layer: LayerView, row: dict[str, Rule], signal: GateActivation) -> list[tuple[nn.Linear, list[Slice]]]:
    """The layer's down projection gated by z = act(W_gate x).

    Its input is z * (W_up x), so that a dropped input of down is also a row of up that is not read.
    """
    down = layer.projections["down"]
    return [(down.linear, [Slice(layer.index, ("up", "down"), down.rows, row["down"], signal=signal.take)])]
