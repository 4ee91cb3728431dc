"""Sizes of a search for a rotation's bases: what it reads of a model, and the memory and disk that it takes."""

from dataclasses import dataclass

from wina_core.specs import RotationSpec

MEASURED_TOKENS = 65_536
"""Most tokens read for sensitivities and moments; more would hardly change them. Descent on the KL reads all: it
overfits a short text. (The demo model's KL at 65 %, 600 steps: 0.0155 on held-out text from 32,768 tokens, 0.0150 from
131,072.)"""
KEPT_NUMBERS = 1 << 22
"""Numbers kept of each site's inputs: 16,384 tokens of hidden size 256, 1,024 of 4,096."""
DRAWN_TOKENS = 512
"""Tokens drawn from each site's sample at every step."""
DIVERGENCE_ROWS = 2
"""Rows of the text in each step on the KL."""
FREE_SHARE = 0.25
"""Share of the free memory that results of measurements may take; larger ones are in files."""
_STEP = 4e12
"""Most multiplications of a step: some half a minute on two cores."""
_FEWEST = 4
"""Sites that a step reads at least."""
_GRAPH = 1 << 25
"""Most drawn numbers of the sites in one graph, which takes some five times as many in float32."""
_GATED_GRAPH = 1 << 26
"""Most gated numbers of a step on the KL with the whole model in one graph, which takes some ten times as many in
float32: those of half a billion parameters."""
_LIBRARIES = 60e6
"""Bytes that the libraries' own buffers take."""
_DESCENT = 20
"""Matrices in float32 for each basis that is turned: itself, its turn and the graph of that, gradients and moments."""
_ACTIVATIONS, _INNER = 20, 4
"""Numbers of a token in a layer's graph for each of the hidden size and of the MLP's inner size."""


@dataclass(frozen=True)
class ModelSizes:
    """The sizes of a model that decide what the search takes."""

    hidden: int
    attention: int
    """Inputs of o, all heads together."""
    inner: int
    """Inputs of down; of experts, all that a token reads."""
    layers: int
    vocabulary: int
    element: int
    """Bytes of a weight or an activation."""
    layer: float
    """Bytes of the weights of a layer, or of the head if those are more."""


@dataclass(frozen=True)
class RefinementNeed:
    """Memory and disk that a search takes beside the weights, in bytes."""

    memory: float
    disk: float


NOTHING = RefinementNeed(0.0, 0.0)


def sites_per_step(n: int, sites: int) -> int:
    """Return how many of the sites of n inputs a step reads: all, unless they take more than `_STEP` multiplications.

    So all of 1.1 B parameters (44 sites of 2,048 inputs), 31 of 56 of 3 B (3,072 inputs) and 15 of 64 of 7 and 8 B
    (4,096 inputs).
    """
    return min(sites, max(_FEWEST, int(_STEP // (2 * n**2 * (n + 7 * DRAWN_TOKENS)))))


def sites_per_graph(n: int, sites: int) -> int:
    """Return how many of the sites of n inputs have one graph: all if that is small, or else one."""
    return sites if sites * n * DRAWN_TOKENS <= _GRAPH else 1


def is_one_graph(tokens: int, gated: int) -> bool:
    """Return whether a step on the KL has the whole model in one graph; `gated` are the numbers of a token that are
    gated in bases."""
    return tokens * gated <= _GATED_GRAPH


def refinement_need(sizes: ModelSizes, spec: RotationSpec, free: float, *, mapped: bool) -> RefinementNeed:
    """Return what finding the bases of a rotation takes at most, with `free` bytes of memory on the processor; nothing
    for bases that no gradient is measured for.

    `mapped`: the weights are in files, and memory holds a layer of them.
    """
    if spec.matrices or not spec.is_measured or not spec.turns:
        return NOTHING
    search = _Search(sizes, spec, free, mapped)
    peaks = [search.measuring]
    peaks += [search.descending] if spec.objective != "eigen" else []
    peaks += [search.diverging] if spec.objective == "kl" else []
    return RefinementNeed(search.kept + max(peaks), search.disk)


@dataclass(frozen=True)
class _Search:
    """The search of one rotation; all sizes in bytes."""

    sizes: ModelSizes
    spec: RotationSpec
    free: float
    mapped: bool

    @property
    def widths(self) -> list[int]:
        stream = [self.sizes.hidden] * 2 if self.spec.stream_mode != "none" else []
        return stream + [self.sizes.attention] * (self.spec.per_head and self.spec.objective != "eigen")

    @property
    def bases(self) -> int:
        return {"none": 0, "global": 1, "per_layer": self.sizes.layers, "per_site": 2 * self.sizes.layers}[
            self.spec.stream_mode
        ]

    @property
    def tokens(self) -> int:
        return min(self.spec.text.tokens, MEASURED_TOKENS)

    @property
    def sites_of_layer(self) -> float:
        sampled = min(self.tokens, KEPT_NUMBERS // self.sizes.hidden + 1)
        return sum(4 * n * (2 * n + sampled) for n in self.widths)

    @property
    def in_files(self) -> bool:
        return self.sizes.layers * self.sites_of_layer > FREE_SHARE * self.free

    @property
    def states(self) -> float:
        # The inputs of all layers are kept if tokens pass them layer by layer.
        by_layer = self.mapped or self.in_files
        return self.tokens * self.sizes.hidden * self.sizes.element * (self.sizes.layers + 2) if by_layer else 0.0

    @property
    def disk(self) -> float:
        states = self.states if self.states > FREE_SHARE * self.free else 0.0
        return states + (self.sizes.layers * self.sites_of_layer if self.in_files else 0.0)

    @property
    def kept(self) -> float:
        """Return what memory holds all the time: sites that are in no file, and bases in float64 before and after."""
        sites = 0.0 if self.in_files else self.sizes.layers * self.sites_of_layer
        return _LIBRARIES + sites + 2 * 8 * self.bases * self.sizes.hidden**2

    def _read(self, layers: float) -> float:
        return layers * self.sites_of_layer if self.in_files else 0.0

    @property
    def measuring(self) -> float:
        """Return what rows take on their way forward and back, with a Gram matrix in float64."""
        states = 0.0 if self.states > FREE_SHARE * self.free else self.states
        graph = self._graph(self.spec.text.sequence, not (self.mapped or self.in_files))
        return states + graph + 3 * 8 * max(self.widths) ** 2 + self._read(1)

    @property
    def descending(self) -> float:
        shared = {"none": 0, "global": 2 * self.sizes.layers, "per_layer": 2, "per_site": 1}[self.spec.stream_mode]
        n = max(self.widths)
        together = sites_per_graph(n, max(shared, 1))
        return 4 * (_DESCENT * n**2 + 5 * DRAWN_TOKENS * n * together) + self._read(together / len(self.widths))

    @property
    def diverging(self) -> float:
        """Return what a step on the KL takes, which turns all bases."""
        tokens, gated = DIVERGENCE_ROWS * self.spec.text.sequence, self.sizes.layers * sum(self.widths)
        whole = not self.mapped and is_one_graph(tokens, gated)
        turned = 4 * _DESCENT * self.bases * self.sizes.hidden**2
        layers = self.sizes.layers if whole else 1
        gates = 4 * 10 * tokens * gated * layers / self.sizes.layers
        return turned + gates + self._graph(tokens, whole) + self._read(layers)

    def _graph(self, tokens: int, whole: bool) -> float:
        """Return the graph of tokens in the model or a layer, with their logits and with the weights from files."""
        sizes = self.sizes
        layer = tokens * sizes.element * (_ACTIVATIONS * sizes.hidden + _INNER * sizes.inner)
        logits = tokens * sizes.vocabulary * (sizes.element + 4 * 4)
        return (layer * sizes.layers if whole else layer) + logits + (sizes.layer if self.mapped else 0.0)
