"""Gates on a live model: attach, toggle, count, and detach without a trace."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn

from wina_core.compute.gating.decoding import TransposedWeights, transpose
from wina_core.compute.gating.linear import (
    ForwardContext,
    GatedForward,
    KeptInputs,
    MaskGroup,
    NotCopied,
    PlaneBits,
    repeated_orders,
    stored_bits,
)
from wina_core.compute.gating.rules import Rule, dense_prefix, real_tokens, rules
from wina_core.compute.models.experts import Expert
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.quantized_linear import uncompiled, weight_like
from wina_core.compute.models.shortcuts import shortcut_parameters
from wina_core.compute.models.view import LayerView, ModelView, Rows, joined
from wina_core.compute.scoring import GateActivation, LowRank, low_ranks
from wina_core.errors import WinaError
from wina_core.records import LayerRecord
from wina_core.specs import MethodSpec
from wina_core.specs.methods import get_method
from wina_core.specs.plans import Cell, ResolvedPlan, SparsityPlan, UniformSparsity, resolve_plan

if TYPE_CHECKING:
    from wina_core.compute.calibration.result import Calibration

_NUMBERS = "numbers"
"""Key of the counts of all masks: inputs kept and seen, planes, and tokens, int64 [masks, 4]."""


def attach(
    loaded: LoadedModel,
    method: MethodSpec,
    plan: UniformSparsity | SparsityPlan | ResolvedPlan,
    calibration: Calibration | None = None,
    dense_prefix: float = 0.0,
    kernels: bool = False,
) -> Gates:
    """Gate a loaded model in place, until the returned Gates are detached or their `with` block ends.

    Args:
        loaded: The model.
        method: The method of its gates.
        plan: Target sparsities, which are resolved here if they are not.
        calibration: The method's calibration on this model, for methods that need one.
        dense_prefix: Fraction of each prefilled sequence's first tokens left dense; decoded tokens are always gated.
        kernels: Whether to multiply few tokens without reading dropped inputs' weights, which are transposed
            meanwhile; results differ by rounding alone.

    Raises:
        WinaError: for an unknown method, a plan of another model, unreachable targets (`resolve_plan`), or a dense
            prefix that is no fraction.
    """
    if not 0 <= dense_prefix <= 1:
        raise WinaError(f"The dense prefix is a fraction of the prompt from 0 to 1, not {dense_prefix:g}.")
    resolved = plan if isinstance(plan, ResolvedPlan) else resolve_plan(plan, loaded.view.layout, method)
    table = rules(loaded.view, method, resolved, calibration)
    low_rank = low_ranks(loaded.view, method, resolved.targets)
    biases = _tuned_biases(loaded.view, calibration.tuned) if calibration and calibration.tuned else ()
    return Gates(loaded.view, method, table, low_rank, dense_prefix, kernels, biases)


class Gates(NotCopied):
    """The gates of one model and their counts. Parameters and their names stay unchanged.

    Counts cover real tokens: padding, known from the attention mask or from `tokens`, is left out. Tokens left dense
    count as kept.
    """

    def __init__(
        self,
        view: ModelView,
        method: MethodSpec,
        table: list[dict[str, Rule]],
        low_rank: list[dict[str, LowRank]],
        dense_prefix: float,
        kernels: bool = False,
        biases: Sequence[Mapping[str, Tensor]] = (),
    ) -> None:
        self.rules, self.low_ranks, self.biases = table, low_rank, biases or [{} for _ in table]
        """Rules, low-rank parts and tuned biases of each of the view's parts, by projection."""
        self._view = view
        self._dense_prefix = dense_prefix
        self._context = ForwardContext()
        self._arguments = inspect.signature(view.model.forward)
        self._signals: list[GateActivation] = []
        self._forwards: list[GatedForward] = []
        by_signal = get_method(method).by_gate_activation
        for layer, row, added, biased in zip(view.parts, table, low_rank, self.biases, strict=True):
            if not by_signal:
                gated = _mask_groups(layer, row, added, biased)
            elif "down" in row:
                self._signals.append(GateActivation(layer))
                gated = _activation_groups(layer, row, self._signals[-1], biased)
            else:
                continue
            expert = layer.module if isinstance(layer.module, Expert) else None
            self._forwards += [GatedForward(linear, groups, self._context, expert) for linear, groups in gated]
        self.transposed: list[TransposedWeights] = []
        """The transposed weights, if kernels are attached."""
        self.has_kernels = False
        if kernels:
            self.attach_kernels()
        self._install()
        self._hooks = [
            view.model.register_forward_pre_hook(self._before_call, with_kwargs=True),
            # Also after an error, so that the next call does not take over the real tokens of this one.
            view.model.register_forward_hook(self._after_call, always_call=True),
        ]

    def attach_kernels(self) -> None:
        """Multiply few tokens without reading dropped inputs' weights from now on."""
        self.transposed = transpose(self._forwards, self._context, self._view.mapped)
        self.has_kernels = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.detach()

    def _install(self) -> None:
        for forward in self._forwards:
            forward.install()
        self._installed = True

    def _remove(self) -> None:
        for forward in self._forwards:
            forward.remove()
        self._installed = False

    @contextmanager
    def removed(self) -> Iterator[None]:
        """Uninstall the gates within the block, except in layers under `at`; other gates may be attached meanwhile."""
        installed = self._installed
        self._remove()
        try:
            yield
        finally:
            if installed:
                self._install()

    @contextmanager
    def at(self, layer: LayerView) -> Iterator[None]:
        """Gate one layer within the block, for calls of the layer itself; each begins with `begin`."""
        forwards = (
            [] if self._installed else [forward for forward in self._forwards if forward.groups[0].layer == layer.index]
        )
        for forward in forwards:
            forward.install()
        try:
            yield
        finally:
            for forward in forwards:
                forward.remove()
            self._context.begin()

    def begin(self, tokens: Tensor) -> None:
        """Begin a pass of ids [rows, sequence] through layers."""
        self._before_call(self._view.model, (tokens.to(self._view.embedding.weight.device),), {"use_cache": False})

    def detach(self) -> None:
        """Restore every layer's own forward; counts stay readable."""
        self._remove()
        for group in self._mask_groups:
            group.product = group.decode = None  # they hold the transposed memory
        for weights in self.transposed:
            weights.restore()
        for hook in self._hooks:
            hook.remove()
        for signal in self._signals:
            signal.remove()

    @property
    def enabled(self) -> bool:
        """True while gates apply. When False, the model is dense, except for the rounding of transposed products."""
        return self._context.enabled

    @enabled.setter
    def enabled(self, value: bool) -> None:
        self._context.enabled = value

    @property
    def forwards(self) -> Sequence[GatedForward]:
        return self._forwards

    @property
    def is_dense(self) -> bool:
        return not self._forwards

    @contextmanager
    def tokens(self, real: Tensor) -> Iterator[None]:
        """Set the real tokens, bool [batch, tokens], of the thread's calls in the block, for batches without a mask."""
        self._context.call.declared_real = real
        try:
            yield
        finally:
            self._context.call.declared_real = None

    def reset_counts(self) -> None:
        for group in self._mask_groups:
            group.reset_counts()

    def counts(self) -> dict[str, Tensor]:
        """Return all counts, for `set_counts` of the same gates in another process."""
        groups = self._mask_groups
        numbers = [[*group.counted(), group.planes_read(), group.inputs.tokens] for group in groups]
        kept_inputs = {
            str(index): group.inputs.kept_counts
            for index, group in enumerate(groups)
            if group.inputs.kept_counts is not None
        }
        return {_NUMBERS: torch.tensor(numbers, dtype=torch.int64).view(-1, 4), **kept_inputs}

    def accepts(self, counts: Mapping[str, Tensor]) -> bool:
        return _NUMBERS in counts and counts[_NUMBERS].shape == (len(self._mask_groups), 4)

    def set_counts(self, counts: Mapping[str, Tensor]) -> None:
        """Set all counts to those that `counts` returned."""
        self.reset_counts()
        for index, (group, row) in enumerate(zip(self._mask_groups, counts[_NUMBERS].tolist(), strict=True)):
            kept_inputs, seen, group.planes, tokens = row
            group.count(kept_inputs, seen)
            group.inputs = KeptInputs(tokens, counts.get(str(index)))

    def measured(self) -> tuple[LayerRecord, ...]:
        """Return the metric "sparsity" of every gated projection that has seen a token: its fraction of unread weights.

        That is the dropped fraction of its inputs (for CATS and up: outputs) minus its low-rank part.
        """
        values = self._sparsities()
        return tuple(
            LayerRecord(layer=layer.index, projection=name, metric="sparsity", value=values[layer.index, name])
            for layer in self._view.layers
            for name in layer.names
            if (layer.index, name) in values
        )

    @property
    def gated_sparsity(self) -> float:
        """Dropped fraction of the weights in the plan's matrices, measured from the masks."""
        return self._dropped_weights() / self._weights

    @property
    def net_sparsity(self) -> float:
        """`gated_sparsity` with everything else that is read counted as kept: residual shortcuts, norms, centres,
        replacements, and biases that are tuned or stem from replaced inputs."""
        added = shortcut_parameters(self._view.model) + self._numbers(self._forwards)
        added += sum(map(_bias_weights, self._forwards))
        return (self._dropped_weights() - added) / self._weights

    @property
    def bits_read(self) -> float:
        """Bits read per token for each weight of the plan's matrices, measured from the masks: codes, scales, norms.

        Of weights in planes (`wina_kernels.planes`), inputs of low scores are read in the first planes alone.
        """
        return self.bits_of(self._linears) / self._weights

    def bits_of(self, linears: Iterable[nn.Linear]) -> float:
        """Return the bits read per token of these layers' weights and of their gates' norms."""
        forwards = {forward.linear: forward for forward in self._forwards}
        groups = [(linear, forwards[linear].groups if linear in forwards else []) for linear in linears]
        shares = self._shares()
        read = sum(shares[linear] * _bits_read(linear, mask_groups) for linear, mask_groups in groups)
        read -= repeated_orders(linear for linear, _ in groups)
        return 32.0 * self._numbers(forwards[linear] for linear, mask_groups in groups if mask_groups) + read

    @property
    def bits_held(self) -> float:
        """Bits held for each weight of the plan's matrices."""
        held = sum(stored_bits(linear).held for linear in self._linears)
        weights = sum(linear.in_features * linear.out_features for linear in self._linears)
        return (held - repeated_orders(self._linears)) / weights

    @property
    def _linears(self) -> list[nn.Linear]:
        # Each once: a fused layer is that of several projections.
        return list(
            {projection.linear: None for layer in self._view.parts for projection in layer.projections.values()}
        )

    @property
    def held(self) -> tuple[Tensor, ...]:
        """Return the norms, centres, replacements, low-rank factors and tuned biases that the gates hold."""
        groups = self._mask_groups
        rules = (group.rule for group in groups if group.rule is not None)
        vectors = [vector for rule in rules for vector in (rule.scale, rule.centre, rule.replacement)]
        low_rank = [group.low_rank for group in groups if group.low_rank is not None]
        factors = [factor for added in low_rank for factor in (added.right, added.left)]
        biases = [bias for row in self.biases for bias in row.values()]
        return tuple(tensor for tensor in (*vectors, *factors, *biases) if tensor is not None)

    @property
    def _mask_groups(self) -> list[MaskGroup]:
        return [group for gated in self._forwards for group in gated.groups]

    @property
    def _weights(self) -> int:
        return sum(map(sum, self._view.layout.parameters))

    def _sparsities(self) -> dict[tuple[int, str], float]:
        by_cell: dict[tuple[int, str], list[tuple[float, int]]] = {}
        for group in self._mask_groups:
            value, seen = group.sparsity()
            if seen:
                for name in group.names:
                    by_cell.setdefault((group.layer, name), []).append((value, seen))
        return {cell: _mean(values) for cell, values in by_cell.items()}

    def _shares(self) -> dict[nn.Linear, float]:
        """Return the fraction of tokens that read each linear layer: of experts as counted, or else all alike."""
        seen = {forward.linear: sum(group.counted()[1] for group in forward.groups) for forward in self._forwards}
        shares: dict[nn.Linear, float] = {}
        for layer in self._view.layers:
            shares |= dict.fromkeys((projection.linear for projection in layer.projections.values()), 1.0)
            for name in layer.names[len(layer.projections) :]:
                linears = [projection.linear for projection in layer.matrices((name,))]
                total = sum(seen.get(linear, 0) for linear in linears)
                for linear in linears:
                    shares[linear] = layer.active * seen.get(linear, 0) / total if total else layer.share
        return shares

    def _numbers(self, forwards: Iterable[GatedForward]) -> float:
        """Return the numbers that the gates of these layers read per token, those of shared rules once."""
        shares = self._shares() if self._view.has_experts else {}
        groups = [(group, shares.get(forward.linear, 1)) for forward in forwards for group in forward.groups]
        # Projections with one mask share the rule object, whose vectors are read once for all of them.
        rules = {id(group.rule): (group.rule, share) for group, share in groups if group.rule is not None}
        return sum(rule.numbers * share for rule, share in rules.values())

    def _dropped_weights(self) -> float:
        layout = self._view.layout
        return sum(
            value * layout.parameters[layer][layout.projections.index(name)]
            for (layer, name), value in self._sparsities().items()
        )

    @uncompiled
    def _before_call(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        arguments = self._arguments.bind_partial(*args, **kwargs).arguments
        inputs = arguments["input_ids"] if arguments.get("input_ids") is not None else arguments["inputs_embeds"]
        (batch, tokens), call = inputs.shape[:2], self._context.call
        past, real, dense = arguments.get("past_key_values"), call.declared_real, None
        # The length of a static cache is a tensor, so that int() waits for the device: not for every decoded token.
        cached = 0 if past is None or (tokens == 1 and self._dense_prefix == 0) else int(past.get_seq_length())
        if real is None:
            real = real_tokens(arguments.get("attention_mask"), tokens, cached)
        real = None if real is None else real.expand(batch, tokens)
        if real is not None and real.device.type == "cpu" and bool(real.all()):
            real = None  # nothing is padded; on other devices the check would synchronize
        if self._dense_prefix > 0 and cached == 0:
            everything = torch.ones(batch, tokens, dtype=torch.bool, device=inputs.device)
            dense = dense_prefix(everything if real is None else real, self._dense_prefix)
        guessed = arguments.get("logits_to_keep") == tokens  # by assisted generation
        if dense is None and self._dense_prefix > 0 and tokens > 1 and call.continues(past) and not guessed:
            raise WinaError(
                f"A share of each prompt, {self._dense_prefix:g}, is left dense, so the prompt has to be read at once; "
                "generate without prefill_chunk_size."
            )
        # Weak, so that gates keep no cache of a finished prompt in memory.
        call.prompt = None if past is None or tokens == 1 else weakref.ref(past)
        self._context.begin(real, dense)

    @uncompiled
    def _after_call(self, *_: object) -> None:
        self._context.begin()


def _mean(values: Sequence[tuple[float, int]]) -> float:
    (value, _), *further = values
    return sum(sparsity * seen for sparsity, seen in values) / sum(seen for _, seen in values) if further else value


def _bits_read(linear: nn.Linear, groups: Sequence[MaskGroup]) -> float:
    """Return the bits read per token of a layer's weight; rows without a mask are read whole."""
    stored = stored_bits(linear)
    bits, rest = 0.0, 1.0
    for group in groups:
        share = _length(group.rows) / linear.out_features
        kept_inputs, seen = group.counted()
        if isinstance(stored, PlaneBits):
            read = stored.read(seen / stored.inputs, kept_inputs, group.planes_read()) if seen else stored.held
        else:
            read = (
                stored.read(group.inputs)
                if group.inputs.tokens
                else stored.held * (kept_inputs / seen if seen else 1.0)
            )
        bits, rest = bits + share * read, rest - share
    return bits + rest * stored.held


def _bias_weights(forward: GatedForward) -> int:
    """Return the size of the bias, W replacement or tuned, that a linear layer without a bias needs."""
    replaced = [
        group for group in forward.groups if group.bias is not None or (group.rule is not None and group.rule.replaces)
    ]
    bias: Tensor | None = forward.linear.bias  # None where there is none, whatever the annotation says
    return sum(_length(group.rows) for group in replaced) if bias is None else 0


def _tuned_biases(view: ModelView, tuned: Mapping[Cell, Tensor]) -> list[dict[str, Tensor]]:
    """Return the tuned biases of each of the view's parts, by projection, in the data type of its products."""
    by_part: list[dict[str, Tensor]] = [{} for _ in view.parts]
    names = view.layout.projections
    for layer, row in zip(view.parts, by_part, strict=True):
        for column, name in enumerate(names):
            if (layer.index, column) in tuned and name in layer.projections:
                like = weight_like(layer.projections[name].linear)
                row[name] = tuned[layer.index, column].to(like.device, like.dtype)
    return by_part


def _length(rows: Rows) -> int:
    return rows.stop - rows.start if isinstance(rows, slice) else len(rows)


def _mask_groups(
    layer: LayerView, row: dict[str, Rule], low_rank: dict[str, LowRank], biases: Mapping[str, Tensor]
) -> list[tuple[nn.Linear, list[MaskGroup]]]:
    """Return the layer's linear modules with a gated projection, their rows split where masks differ."""
    by_linear: dict[nn.Linear, list[MaskGroup]] = {}
    for name, projection in layer.projections.items():
        rule, added = row.get(name), low_rank.get(name)
        groups = by_linear.setdefault(projection.linear, [])
        before = groups[-1] if groups else None
        # A low-rank part belongs to the rows of one projection, so that these are no group with their neighbours.
        if before and before.rule is rule and before.low_rank is None and added is None:
            before.names += (name,)
            before.rows = joined(before.rows, projection.rows)
        else:
            groups.append(MaskGroup(layer.index, (name,), projection.rows, rule, added))
    if biases:
        for linear, groups in by_linear.items():
            _add_biases(layer, linear, groups, biases)
    return [(linear, groups) for linear, groups in by_linear.items() if any(group.rule for group in groups)]


def _add_biases(layer: LayerView, linear: nn.Linear, groups: Sequence[MaskGroup], biases: Mapping[str, Tensor]) -> None:
    """Give the groups of a linear layer the biases of their projections, in the order of their rows."""
    # By way of all rows: those of a group may be sorted indices, which mix the rows of its projections.
    whole = weight_like(linear).new_zeros(linear.out_features)
    for name in (name for group in groups for name in group.names if name in biases):
        whole[layer.projections[name].rows] = biases[name]
    for group in groups:
        if any(name in biases for name in group.names):
            group.bias = whole[group.rows]


def _activation_groups(
    layer: LayerView, row: dict[str, Rule], signal: GateActivation, biases: Mapping[str, Tensor]
) -> list[tuple[nn.Linear, list[MaskGroup]]]:
    """Gate the layer's down projection by z = act(W_gate x).

    Its input is z * (W_up x), so a dropped input of down is also an unread row of up.
    """
    down = layer.projections["down"]
    group = MaskGroup(layer.index, ("up", "down"), down.rows, row["down"], bias=biases.get("down"), signal=signal.pop)
    return [(down.linear, [group])]
