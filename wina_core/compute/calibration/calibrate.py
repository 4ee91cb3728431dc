"""Measurement of score quantiles, error curves and input vectors on a text, with the model dense."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from wina_kernels.selection import scores, top_k_mask

from wina_core.compute.calibration.inputs import (
    CalibrationSite,
    Keys,
    ScoreHistogram,
    check_finite,
    readers,
    signed_scores,
    sites,
    sites_of_experts,
)
from wina_core.compute.calibration.result import ERROR_SPARSITIES, Calibration
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import ScoredPositions
from wina_core.compute.models.passage import Passage, in_batches
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.models.view import LayerView
from wina_core.compute.reporter import Reporter
from wina_core.compute.scoring import (
    TRANSFORMS,
    InputSelection,
    LowRank,
    ThresholdSelection,
    TopKSelection,
    check_experts,
    kept_low_rank,
)
from wina_core.errors import WinaError
from wina_core.records import LEAST_EXPERT_TOKENS
from wina_core.specs import CalibrationSpec, MethodSpec
from wina_core.specs.gates import FRACTIONS
from wina_core.specs.methods import Method, get_method
from wina_core.specs.plans import Cell, SparsityPlan

SAMPLED_TOKENS = 256
"""Tokens of the error curves, spread over the text."""
SAMPLED_FOR_VECTORS = 1024
"""Tokens from which modes or means of inputs are estimated."""


def calibrate(
    loaded: LoadedModel,
    method: MethodSpec,
    spec: CalibrationSpec,
    reporter: Reporter,
    shares: SparsityPlan | None = None,
) -> Calibration:
    """Measure score quantiles over all tokens but BOS; output errors, kept energies and input vectors over a sample.

    The model runs dense, as in the published methods, so a threshold drops its target of the dense model's inputs. In a
    gated model, the inputs of o and down shrink and more of them fall below; so sparsity is always measured (and
    `gating.tuning` corrects the thresholds). Memory grows neither with the text nor with the layers. A centred
    method reads the text twice, first for the centres. `shares` is a plan with its own rho, for methods whose scores
    depend on it.

    Raises WinaError for an unknown method or one without gates, an unreadable text, and activations that are not
    finite; Cancelled between batches.

    Experts have quantiles of their own if they read `LEAST_EXPERT_TOKENS`, or else their layer's; the curves of a
    layer's experts are their mean, weighted by sampled tokens.
    """
    check_experts(loaded.view, method)
    rule, layout = get_method(method), loaded.view.layout
    if rule.projections == ():
        raise WinaError(f'The method "{method.name}" gates nothing, so it needs no calibration; choose another one.')
    tokens = read_tokens(spec.text, loaded.tokenizer).to(loaded.device)
    centred = rule.centring != "none"
    vectors = centred or method.correction == "mean"
    scored = ScoredPositions.of(loaded.view, tokens)
    total = scored.count(tokens)
    sampled = sampled_positions(total, min(total, SAMPLED_FOR_VECTORS if vectors else SAMPLED_TOKENS))
    centres: dict[Cell, Tensor] = {}

    def sites_of(layer: LayerView, scoring: bool) -> tuple[CalibrationSite, ...]:
        layer_sites = sites(layer, rule, sampled, _keys(method), scored, shares)
        for index, site in enumerate(layer_sites):
            centre = centres.get((layer.index, index))
            site.centre = None if centre is None else centre.to(site.linear.weight.device)
            site.scoring = scoring
        return layer_sites

    if centred:
        find = modes if rule.centring == "inputs" else density_peak
        for layer_sites in _passed(loaded, tokens, partial(sites_of, scoring=False), reporter, "modes", (0, 2)):
            for index, site in enumerate(layer_sites):
                centres[site.layer.index, index] = _centre(site, find).to(site.sample.dtype)
    calibration = Calibration.empty(layout, total)
    phase = (1, 2) if centred else (0, 1)
    for layer_sites in _passed(loaded, tokens, partial(sites_of, scoring=True), reporter, "score quantiles", phase):
        _measure(calibration, method, layer_sites, reporter)
    return calibration


def _centre(site: CalibrationSite, find: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the centre of a site's inputs, found without the column norms that they may carry."""
    if site.carried is None:
        return find(site.sample)
    return find(site.sample / site.carried) * site.carried


def _passed(
    loaded: LoadedModel,
    tokens: Tensor,
    sites_of: Callable[[LayerView], tuple[CalibrationSite, ...]],
    reporter: Reporter,
    activity: str,
    phase: tuple[int, int],
) -> Iterator[tuple[CalibrationSite, ...]]:
    """Yield the sites of each layer after the text has passed it; this is pass number `phase[0]` of `phase[1]`."""
    held: list[CalibrationSite] = []

    def hooks(layer: LayerView) -> Iterator[Any]:
        held[:] = sites_of(layer)
        return readers(held)

    def release() -> None:
        for site in held:
            if site.signal is not None:
                site.signal.remove()
        held.clear()

    count = len(loaded.view.layers)
    reporter.stage("calibration")
    try:
        for layer in Passage(loaded.view, in_batches(tokens)).layers(reporter, hooks):
            check_finite(held)
            yield tuple(held)
            release()
            reporter.progress(phase[0] * count + layer.index + 1, phase[1] * count, "layers", activity)
    finally:
        release()


def _measure(
    calibration: Calibration, method: MethodSpec, layer_sites: Sequence[CalibrationSite], reporter: Reporter
) -> None:
    """Write what the sites of a layer have collected."""
    rule, layout = get_method(method), calibration.layout
    for site in layer_sites:
        reporter.check()
        # Experts share cells: their sites are measured together below.
        if site.layer.expert is not None:
            continue
        sample = site.sample
        for group in site.scored:
            quantiles = group.histogram.quantiles(_fractions(method))
            score = scores(site.source, group.scale)
            for name in group.names:
                cell = site.layer.index, layout.projections.index(name)
                calibration.quantiles[cell] = quantiles
                if site.centre is not None:
                    calibration.centres[cell] = site.centre.float().cpu()
                if method.correction == "mean":
                    calibration.means[cell] = _means(sample, score, method, calibration, cell)
                # The rows of up that a mask on the gate's activation drops cost what the same columns of down do.
                output = "down" if rule.by_gate_activation else name
                dropped = _dropped(sample, score, calibration, cell, rule, site, name)
                calibration.errors[cell], calibration.energies[cell] = loss_curves(
                    site.layer.projections[output].weight, sample, dropped
                )
    for of_experts in sites_of_experts(layer_sites):
        reporter.check()
        _measure_experts(calibration, method, of_experts)


def _measure_experts(calibration: Calibration, method: MethodSpec, expert_sites: Sequence[CalibrationSite]) -> None:
    """Write the quantiles of each expert, and the quantiles and mean curves of all, of one input of a layer."""
    rule = get_method(method)
    fractions = _fractions(method)
    for name in (name for group in expert_sites[0].scored for name in group.names):
        cell = expert_sites[0].layer.index, calibration.layout.projections.index(name)
        groups = [next(group for group in site.scored if name in group.names) for site in expert_sites]
        histograms = [group.histogram for group in groups]
        calibration.quantiles[cell] = ScoreHistogram.merged(histograms).quantiles(fractions)
        least = LEAST_EXPERT_TOKENS * expert_sites[0].linear.in_features
        calibration.expert_tokens[cell] = torch.tensor(
            [histogram.total // expert_sites[0].linear.in_features for histogram in histograms]
        )
        calibration.experts[cell] = torch.stack(
            [
                histogram.quantiles(fractions) if histogram.total >= least else calibration.quantiles[cell]
                for histogram in histograms
            ]
        )
        curves, tokens = [], []
        for site, group in zip(expert_sites, groups, strict=True):
            sample = site.sample
            if len(sample):
                dropped = _dropped(sample, scores(site.source, group.scale), calibration, cell, rule, site, name)
                output = "down" if rule.by_gate_activation else name
                curves.append(torch.stack(loss_curves(site.layer.projections[output].weight, sample, dropped)))
                tokens.append(len(sample))
        shares = torch.tensor(tokens) / sum(tokens)
        calibration.errors[cell], calibration.energies[cell] = (torch.stack(curves) * shares[:, None, None]).sum(0)


def _is_signed(method: MethodSpec) -> bool:
    # Top k reads no thresholds, so that it shares one calibration with them.
    return get_method(method).signed_thresholds and method.selection in ("topk", "threshold", "mixed")


def _keys(method: MethodSpec) -> Keys:
    return signed_scores if _is_signed(method) else lambda x, scale: TRANSFORMS[method.selection](scores(x, scale))


def _fractions(method: MethodSpec) -> Tensor:
    """Return the fraction at which each quantile of FRACTIONS is read: (1 + s) / 2 of signed values, but 0 for s =
    0."""
    fractions = torch.tensor(FRACTIONS)
    # For values symmetric around 0, |x| <= t in a fraction s of them means x <= t in (1 + s) / 2.
    return torch.where(fractions > 0, (1 + fractions) / 2, 0) if _is_signed(method) else fractions


def _means(sample: Tensor, score: Tensor, method: MethodSpec, calibration: Calibration, cell: Cell) -> Tensor:
    """Return means of dropped inputs at ERROR_SPARSITIES, float32 [sparsity, n], under the method's selection."""
    means = []
    for target in ERROR_SPARSITIES:
        select: InputSelection
        selection = method.selection_of(calibration.layout.projections[cell[1]])
        keep = int(get_method(method).kept(score.shape[-1], target))
        if selection == "topk":
            select = TopKSelection(keep)
        else:
            select = ThresholdSelection(selection, calibration.threshold(*cell, target), method.fewest(keep))
        means.append(dropped_means(sample, select.mask(score)).cpu())
    means[0] = means[1]  # nothing is dropped at 0; between there and the next, the next serves
    return torch.stack(means)


def _dropped(
    sample: Tensor, score: Tensor, calibration: Calibration, cell: Cell, rule: Method, site: CalibrationSite, name: str
) -> Iterator[tuple[Tensor, LowRank | None]]:
    """Yield what gating drops of the sample at each of ERROR_SPARSITIES, [tokens, n], and its low-rank part."""
    projection = site.layer.projections[name]
    for sparsity in ERROR_SPARSITIES:
        target = rule.mask_sparsity(sparsity, None)
        keep = int(rule.kept(score.shape[-1], target))
        _, replacement = calibration.vectors(cell, target, sample)
        removable = sample if replacement is None else sample - replacement
        rank = rule.rank(name, projection.shape, sparsity, None)
        yield removable * ~top_k_mask(score, keep), kept_low_rank(projection, rank) if rank else None


def sampled_positions(total: int, count: int) -> Tensor:
    """Return ascending positions, int64 [count], one in each of `count` equal stretches of `total` tokens.

    A fixed seed draws the position within each stretch: equal steps would meet the same few places of every row,
    including its atypical first token.
    """
    within = torch.rand(count, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return ((torch.arange(count) + within) * total / count).long()


def loss_curves(weight: Tensor, x: Tensor, dropped: Iterator[tuple[Tensor, LowRank | None]]) -> tuple[Tensor, Tensor]:
    """Return output errors and kept energies of W [m, n] over x [tokens, n], float32, one value for each (d, L).

    `dropped` yields what gating drops of x and its low-rank part, by sparsity. The relative output error is ||W d - L
    d||_F / ||W x||_F. The kept energy is 1 - ||d * c||_F^2 / ||x * c||_F^2 with c_i = ||W[:, i]||_2; for orthogonal
    columns of W it is 1 minus the squared error. Computed in at least float32; an input of zeros has no error and keeps
    all its energy.
    """
    dtype = torch.promote_types(weight.dtype, torch.float32)
    tiny = torch.finfo(dtype).tiny
    weight, x = weight.detach().to(dtype), x.to(dtype)
    norms = weight.norm(dim=0)
    output = torch.linalg.matrix_norm(x @ weight.T).clamp(min=tiny)
    whole = torch.linalg.matrix_norm(x * norms).clamp(min=tiny)
    errors, energies = [], []
    for removed, low_rank in dropped:
        lost = removed.to(dtype)
        error = lost @ weight.T
        if low_rank is not None:
            error -= low_rank(removed).to(dtype)
        errors.append(torch.linalg.matrix_norm(error) / output)
        energies.append(1 - (torch.linalg.matrix_norm(lost * norms) / whole) ** 2)
    return torch.stack(errors).float().cpu(), torch.stack(energies).float().cpu()


# ---- replacements of dropped inputs: the mode of each or of all, and the mean of each over the tokens that drop it ---

_BANDWIDTH = 0.5
"""Bandwidth of the density estimate, in robust standard deviations: a thousand tokens find a bell's peak to a twentieth
of its width, and the two sides of a skewed one stay apart."""
_STEPS = 25
_BINS, _HALF_SCOTT = 2000, 0.5
"""Bins and bandwidth of the density of all numbers of a matrix's input."""


def modes(x: Tensor) -> Tensor:
    """Return the mode of each input, float32 [n], from a sample x [tokens, n].

    Mean shift with a Gaussian kernel (Cheng 1995): uphill on the kernel density estimate, from the input's median.
    """
    values = x.detach().float()
    mode = values.median(dim=0).values
    # 1.4826 times the median absolute deviation is the standard deviation of a normal distribution.
    width = _BANDWIDTH * 1.4826 * (values - mode).abs().median(dim=0).values
    width = width.clamp(min=torch.finfo(torch.float32).tiny)
    for _ in range(_STEPS):
        # Below -80 the exponential is no normal number, with which processors are slow.
        weights = ((values - mode) / width).square_().mul_(-0.5).clamp_(min=-80.0).exp_()
        mode = (weights * values).sum(0) / weights.sum(0).clamp(min=torch.finfo(torch.float32).tiny)
    return mode


def density_peak(x: Tensor) -> Tensor:
    """Return the one mode of all numbers of a sample x [tokens, n], float32 [1]: the peak of their density.

    A Gaussian kernel density estimate with half of Scott's bandwidth, at the centres of 2,000 bins over the range of
    the numbers, as in SCAP's code (IntelLabs/SCAP, calibrate.py), which takes the best of three samples' peaks.
    """
    values = x.detach().double().flatten()
    low, high = values.aminmax()
    width = (high - low) / _BINS
    bandwidth = values.std() * _HALF_SCOTT * values.numel() ** -0.2
    if not width > 0 or not bandwidth > 0:
        return values.mean().float()[None]
    counts = torch.histc(values, _BINS, float(low), float(high)).cpu()
    distances = torch.arange(1 - _BINS, _BINS, dtype=torch.float64) * float(width / bandwidth)
    kernel = distances.square().mul_(-0.5).exp_()
    density = np.convolve(kernel.numpy(), counts.numpy(), "valid")  # torch takes 80 times as long
    return (low + (int(density.argmax()) + 0.5) * width).float()[None]


def dropped_means(x: Tensor, mask: Tensor | None) -> Tensor:
    """Return each input's mean over the tokens that drop it, float32 [n]; 0 if none does. x, mask: [tokens, n]."""
    if mask is None:
        return torch.zeros(x.shape[-1], device=x.device)
    dropped = ~mask
    return torch.where(dropped, x, 0).float().sum(0) / dropped.sum(0).clamp(min=1)
