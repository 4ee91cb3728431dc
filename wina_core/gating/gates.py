"""Gates on a live model: attached, toggled, counted, and taken off again without a trace."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch import Tensor, nn

from wina_core.gating.linear import Call, GatedForward, Slice
from wina_core.gating.rules import Rule, Thresholds, rules
from wina_core.gating.tokens import dense_prefix
from wina_core.models.loading import LoadedModel
from wina_core.models.shortcuts import shortcut_parameters
from wina_core.models.view import PROJECTIONS, LayerView, ModelView
from wina_core.plan import SparsityPlan
from wina_core.records import LayerRecord
from wina_core.specs import MethodSpec


def attach(
    loaded: LoadedModel,
    method: MethodSpec,
    plan: SparsityPlan,
    thresholds: Thresholds | None = None,
    dense_prefix: float = 0.0,
) -> Gates:
    """Gate a loaded model in place, until the returned Gates are detached or their `with` block ends.

    `thresholds` come from a calibration and are needed for threshold selection only. `dense_prefix` is the fraction
    of each prefilled sequence's first tokens left dense; tokens decoded from a cache are always gated. Raises
    WinaError for an unknown method and for a plan made for another model.
    """
    table = rules(loaded.view, method, plan.for_layout(loaded.view.layout), thresholds)
    return Gates(loaded.view, table, dense_prefix)


class Gates:
    """The gates of one model and the count of what they drop. Parameters and their names are never touched.

    Counts are over real tokens: padding, known from a 2-D attention mask or from `tokens`, is left out, and tokens
    that stay dense count as kept.
    """

    def __init__(self, view: ModelView, table: list[dict[str, Rule]], dense_prefix: float) -> None:
        self._view = view
        self._dense_prefix = dense_prefix
        self._call = Call()
        self._given: Tensor | None = None
        self._arguments = inspect.signature(view.model.forward)
        self._forwards = [
            GatedForward(linear, slices, self._call)
            for layer in view.layers
            for linear, slices in _slices(layer, table[layer.index])
        ]
        for gated in self._forwards:
            gated.install()
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
        for hook in self._hooks:
            hook.remove()

    @property
    def enabled(self) -> bool:
        """When False the model computes and counts as if it were not gated, bit for bit."""
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
            part.kept.zero_()
            part.seen.zero_()

    def measured(self) -> tuple[LayerRecord, ...]:
        """Metric "sparsity" of every gated projection that has seen a token: the dropped fraction of its inputs."""
        return tuple(
            LayerRecord(layer=layer, projection=name, metric="sparsity", value=value)
            for (layer, name), value in sorted(
                self._sparsities().items(), key=lambda item: (item[0][0], PROJECTIONS.index(item[0][1]))
            )
        )

    @property
    def counted_sparsity(self) -> float:
        """Dropped fraction of the weights in the plan's matrices, measured from the masks."""
        return self._dropped_weights() / self._weights

    @property
    def full_sparsity(self) -> float:
        """The same with the rotation's residual shortcuts counted as kept weights: 1 - (kept + shortcuts) / all."""
        return (self._dropped_weights() - shortcut_parameters(self._view.model)) / self._weights

    @property
    def _slices(self) -> list[Slice]:
        return [part for gated in self._forwards for part in gated.slices]

    @property
    def _weights(self) -> int:
        return sum(map(sum, self._view.layout.parameters))

    def _sparsities(self) -> dict[tuple[int, str], float]:
        """{(layer, projection): dropped fraction of its inputs}."""
        values = {}
        for part in self._slices:
            if seen := int(part.seen):
                values.update(dict.fromkeys(((part.layer, name) for name in part.names), 1 - int(part.kept) / seen))
        return values

    def _dropped_weights(self) -> float:
        parameters = self._view.layout.parameters
        return sum(
            value * parameters[layer][PROJECTIONS.index(name)] for (layer, name), value in self._sparsities().items()
        )

    def _before_call(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = self._arguments.bind_partial(*args, **kwargs).arguments
        inputs = given["input_ids"] if given.get("input_ids") is not None else given["inputs_embeds"]
        batch, tokens = inputs.shape[:2]
        real, attention = self._given, given.get("attention_mask")
        if real is None and attention is not None and attention.dim() == 2:
            real = attention[:, -tokens:].bool()
        past = given.get("past_key_values")
        dense = None
        if self._dense_prefix > 0 and (past is None or past.get_seq_length() == 0):
            everything = torch.ones(batch, tokens, dtype=torch.bool, device=inputs.device)
            dense = dense_prefix(everything if real is None else real, self._dense_prefix)
        self._call.begin(real, dense)

    def _after_call(self, *_: object) -> None:
        self._call.begin()


def _slices(layer: LayerView, row: dict[str, Rule]) -> list[tuple[nn.Linear, list[Slice]]]:
    """The layer's linear modules that have a gated projection, with their rows cut wherever the masks differ."""
    by_linear: dict[nn.Linear, list[Slice]] = {}
    for projection in layer.projections.values():
        rule = row.get(projection.name)
        slices = by_linear.setdefault(projection.linear, [])
        before = slices[-1] if slices else None
        if before and before.rule is rule:
            before.names += (projection.name,)
            before.rows = slice(before.rows.start, projection.rows.stop)
        else:
            zero = torch.zeros((), dtype=torch.int64, device=projection.linear.weight.device)
            slices.append(Slice(layer.index, (projection.name,), projection.rows, rule, zero, zero.clone()))
    return [(linear, slices) for linear, slices in by_linear.items() if any(part.rule for part in slices)]
