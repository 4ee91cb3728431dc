"""Samples and sensitivities of each rotated input, measured in a forward and a backward pass."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from wina_core.compute.models.logits import ScoredPositions
from wina_core.compute.models.mapped import drop_pages, in_files
from wina_core.compute.models.norms import centres, norm_gain, normalized
from wina_core.compute.models.passage import exceeds_memory
from wina_core.compute.models.trail import differentiate_samples
from wina_core.compute.models.view import LayerView, ModelView
from wina_core.compute.reporter import Reporter
from wina_core.compute.rotation.descent import Search
from wina_core.compute.rotation.statistics import centred_gram, weight_gram
from wina_core.files.hardware import check_room
from wina_core.model_info.cost.refinement import KEPT_NUMBERS

Reader = Literal["attention", "mlp", "heads"]
"""The readers of an input: q, k, v; gate and up; or o. "attention" includes gate and up if one norm serves both."""

READ_BY: dict[Reader, tuple[str, ...]] = {"attention": ("q", "k", "v"), "mlp": ("gate", "up"), "heads": ("o",)}


@dataclass(eq=False)
class RotationSite:
    """One rotated input x of a decoder layer, float32; n is the hidden size, or the size of all heads for `heads`.

    The stream's x is the norm's output without its gain, which the Gram matrix and the sensitivity contain.
    """

    layer: int
    reader: Reader
    inputs: Tensor
    """[tokens, n], scored ones spread evenly over the text."""
    gram: Tensor
    """[n, n], the sum of W^T W over the matrices that read x."""
    sensitivity: Tensor
    """[n, n], the Fisher information E[g g^T], g the gradient of -log p(y) with respect to x, y drawn from the model's
    own prediction. An error e of x costs about e^T F e / 2 in KL divergence."""
    in_files: tuple[Tensor, ...] = ()
    """The tensors above that are mapped from files."""

    def give_back(self) -> None:
        """Give back the memory of mapped tensors, which the system reads again when they are touched."""
        for tensor in self.in_files:
            drop_pages(tensor)


def measure_sites(
    view: ModelView, stream: bool, heads: bool, tokens: Tensor, reporter: Reporter, search: Search | None = None
) -> list[RotationSite]:
    """Measure the stream's sites, the heads' or both in the dense model on `tokens` [rows, sequence], in layer order.

    Rows pass one by one, forward and back: memory holds one row's graph and, for each site, two [n, n] matrices and the
    sample. Where memory does not hold the model or these, rows pass a layer at a time, and the sites are in files of
    the `search`; one that is interrupted once all are there does not measure them again. Labels are drawn with a fixed
    seed. Raises WinaError if logits are not numbers, or without room on the disk.
    """
    search = search or Search()
    scored = ScoredPositions.of(view, tokens)
    total = scored.count(tokens)
    stride = -(-total * view.hidden_size // KEPT_NUMBERS)  # rounded up, so that a sample stays within KEPT_NUMBERS
    collectors = list(_collectors(view, stream, heads, stride, scored))
    sites: dict[tuple[int, Reader], RotationSite] = {}
    for collector in collectors:
        if (stored := collector.stored(search)) is None:
            break
        sites[collector.key] = stored
    else:  # an interrupted search has stored all of them
        return list(sites.values())
    size = sum(collector.bytes(total) for collector in collectors)
    is_large = exceeds_memory(size, view.embedding.weight)
    if is_large and search.folder is not None:
        check_room(search.folder, size, "The matrices that a refinement reads take", "free some space")

    def finish(layer: LayerView) -> None:
        for collector in collectors:
            if collector.layer is layer:
                sites[collector.key] = collector.site(total, search if is_large else None)

    hooks = (collector.attach() for collector in collectors)
    by_layer = is_large or view.mapped is not None
    reporter.stage("sensitivities")
    differentiate_samples(view, tokens, hooks, reporter, finish, by_layer=by_layer)
    return [sites[collector.key] for collector in collectors]


class _Collector:
    """Collector of one site while the model runs forward and back."""

    def __init__(
        self, layer: LayerView, reader: Reader, norm: nn.Module | None, stride: int, scored: ScoredPositions
    ) -> None:
        self.layer = layer
        self._scored = scored
        self.key: tuple[int, Reader] = (layer.index, reader)
        self._norm, self._stride = norm, stride
        names = READ_BY[reader]
        if reader == "attention" and layer.mlp_norm is layer.attention_norm:
            names += READ_BY["mlp"]
        self._names = [name for name in names if name in layer.names]
        self._n = layer.shape(self._names[0])[1]
        self._device = layer.projections["o"].linear.weight.device
        self._sensitivity: Tensor | None = None
        self._gain = None if norm is None else norm_gain(norm).to(self._device, torch.float32)
        self._inputs: list[Tensor] = []
        self._skip = 0

    def attach(self) -> Any:
        if self._norm is not None:
            return self._norm.register_forward_hook(self._after_norm)
        return self.layer.projections["o"].linear.register_forward_pre_hook(self._before_linear)

    def bytes(self, tokens: int) -> int:
        return 4 * self._n * (2 * self._n + -(-tokens // self._stride))

    def stored(self, search: Search) -> RotationSite | None:
        """Return the site that an interrupted search stored, if it fits."""
        if (stage := search.read(self._name)) is None:
            return None
        square = (self._n, self._n)
        shapes = {name: tuple(tensor.shape) for name, tensor in stage.tensors.items()}
        sample = shapes.pop("inputs", ())
        if shapes != {"gram": square, "sensitivity": square} or sample[1:] != square[1:]:
            search.reject(self._name)
            return None
        inputs, gram, sensitivity = (stage.tensors[name].to(self._device) for name in ("inputs", "gram", "sensitivity"))
        return RotationSite(*self.key, inputs, gram, sensitivity, tuple(in_files((inputs, gram, sensitivity))))

    def site(self, tokens: int, search: Search | None) -> RotationSite:
        """Return the site measured over that many tokens, from now on in a file of the search if there is one."""
        assert self._sensitivity is not None  # the rows have passed back
        sensitivity = self._sensitivity.div_(tokens)
        if self._norm is not None:
            gram = weight_gram(self.layer, self._names, self._norm).float()
            if centres(self._norm):
                centred_gram(sensitivity)
        else:
            weight = self.layer.projections["o"].weight.float()
            gram = weight.T @ weight
        site = RotationSite(*self.key, torch.cat(self._inputs), gram, sensitivity)
        self._inputs, self._sensitivity = [], None
        if search is None:
            return site
        search.write(self._name, {"inputs": site.inputs, "gram": gram, "sensitivity": sensitivity})
        # Read back, so that its tensors are mapped from the file and no longer held.
        return self.stored(search) or site

    @property
    def _name(self) -> str:
        return f"site {self.key[0]} {self.key[1]}"

    def _after_norm(self, norm: nn.Module, args: tuple[Any, ...], output: Tensor) -> None:
        self._sample(normalized(norm, args[0].detach().float()))
        output.register_hook(self._add)

    def _before_linear(self, _: nn.Module, args: tuple[Any, ...]) -> None:
        self._sample(args[0].detach().float())
        args[0].register_hook(self._add)

    def _sample(self, x: Tensor) -> None:
        flat = self._scored.rows(x)
        self._inputs.append(flat[self._skip :: self._stride])
        self._skip = (self._skip - len(flat)) % self._stride  # the stride goes across rows, even over the whole text

    def _add(self, gradient: Tensor) -> None:
        g = self._scored.rows(gradient).float()
        g = g if self._gain is None else g * self._gain  # with respect to the norm's output without its gain
        if self._sensitivity is None:
            self._sensitivity = torch.zeros(self._n, self._n, device=self._device)
        self._sensitivity.addmm_(g.T, g)


def _collectors(
    view: ModelView, stream: bool, heads: bool, stride: int, scored: ScoredPositions
) -> Iterator[_Collector]:
    for layer in view.layers:
        if stream:
            yield _Collector(layer, "attention", layer.attention_norm, stride, scored)
        if heads:
            yield _Collector(layer, "heads", None, stride, scored)
        if stream and layer.mlp_norm is not layer.attention_norm:
            yield _Collector(layer, "mlp", layer.mlp_norm, stride, scored)
