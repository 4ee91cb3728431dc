"""Gradients of the log-likelihood of labels that the model draws itself, for Fisher information."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from wina_core.compute.hooks import hooked
from wina_core.compute.models.finite import check_numbers
from wina_core.compute.models.passage import Passage
from wina_core.compute.models.trail import Trail
from wina_core.compute.models.view import LayerView, ModelView
from wina_core.compute.reporter import Reporter

_FORWARD = 0.25
"""Share of the time until all rows have passed the layers forward."""


def differentiate_samples(
    view: ModelView,
    tokens: Tensor,
    hooks: Iterable[Any],
    reporter: Reporter,
    passed: Callable[[LayerView], object] = lambda _: None,
    *,
    by_layer: bool | None = None,
) -> None:
    """Pass rows of `tokens` [rows, sequence] forward and back, with the gradient of -log p(y).

    Labels y are drawn from the model's own prediction at the scored positions with a fixed seed; `hooks` collect, and
    are removed. `passed` gets each layer once the gradients of all rows have passed it. One row after the other passes
    the whole model, and memory holds its graph. With `by_layer`, which is usual for weights in files, all rows pass a
    layer before the next one: memory holds one row's graph of one layer, the weights are read twice in all, and one
    more forward pass is computed. The gradients are the same bit for bit. Raises WinaError if logits are not numbers.
    """
    rows, generator = tokens.split(1), torch.Generator().manual_seed(0)

    def loss(_: int, logits: Tensor) -> Tensor:
        check_numbers(logits)
        likelihoods = logits[:, view.first_scored :].flatten(0, 1).float().log_softmax(-1)
        labels = torch.multinomial(likelihoods.detach().exp().cpu(), 1, generator=generator)
        return likelihoods.gather(1, labels.to(logits.device)).sum().neg()

    if by_layer or (by_layer is None and view.mapped is not None):
        _by_layer(view, rows, loss, hooks, reporter, passed)
        return
    # gradients from the embedding on, although no weight requires them
    start = view.embedding.register_forward_hook(lambda *call: call[-1].requires_grad_())
    with torch.enable_grad(), hooked([start, *hooks]):
        for done, row in enumerate(rows, start=1):
            reporter.check()
            loss(0, view.model(row.to(view.embedding.weight.device), use_cache=False).logits).backward()
            reporter.progress(done * row.numel(), tokens.numel(), "tokens")
    for layer in reversed(view.layers):
        passed(layer)


def _by_layer(
    view: ModelView,
    rows: tuple[Tensor, ...],
    loss: Callable[[int, Tensor], Tensor],
    hooks: Iterable[Any],
    reporter: Reporter,
    passed: Callable[[LayerView], object],
) -> None:
    trail = Trail(view, rows)
    passage = Passage(view, rows, [trail])

    def report(done: float) -> None:
        total = sum(row.numel() for row in rows)
        reporter.progress(round(total * done / len(view.layers)), total, "tokens")

    for done, _ in enumerate(passage.layers(reporter), start=1):
        report(done * _FORWARD)
    trail.turn(passage, loss)
    passage.forget(0)
    with hooked(hooks):
        for done, layer in enumerate(trail.back(reporter), start=1):
            passed(layer)
            report(len(view.layers) * _FORWARD + done * (1 - _FORWARD))
