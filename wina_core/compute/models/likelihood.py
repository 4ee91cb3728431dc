"""Gradients of the log-likelihood of labels that the model draws itself, for Fisher information."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from wina_core.compute.hooks import hooked
from wina_core.compute.models.finite import check_numbers
from wina_core.compute.models.view import ModelView
from wina_core.compute.reporter import Reporter


def differentiate_samples(view: ModelView, tokens: Tensor, hooks: Iterable[Any], reporter: Reporter) -> None:
    """Pass rows of `tokens` [rows, sequence] forward and back one by one, with the gradient of -log p(y).

    Labels y are drawn from the model's own prediction with a fixed seed; `hooks` collect, and are removed. Memory holds
    one row's activations. Raises WinaError if logits are not numbers.
    """
    generator = torch.Generator().manual_seed(0)
    # gradients from the embedding on, although no weight requires them
    start = view.embedding.register_forward_hook(lambda *call: call[-1].requires_grad_())
    with torch.enable_grad(), hooked([start, *hooks]):
        for done, row in enumerate(tokens.split(1), start=1):
            reporter.check()
            logits = view.model(row.to(view.embedding.weight.device), use_cache=False).logits.flatten(0, 1).float()
            check_numbers(logits)
            likelihoods = logits.log_softmax(-1)
            labels = torch.multinomial(likelihoods.detach().exp().cpu(), 1, generator=generator)
            likelihoods.gather(1, labels.to(logits.device)).sum().neg().backward()
            reporter.progress(done * row.numel(), tokens.numel(), "tokens", "sensitivities")
