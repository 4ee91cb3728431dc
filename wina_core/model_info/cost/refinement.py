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
    mode, layers, hidden = spec.stream_mode, sizes.layers, sizes.hidden
    widths = [hidden] * 2 if mode != "none" else []
    widths += [sizes.attention] * (spec.per_head and spec.objective != "eigen")
    bases = {"none": 0, "global": 1, "per_layer": layers, "per_site": 2 * layers}[mode]
    sharing = {"none": 1, "global": 2 * layers, "per_layer": 2, "per_site": 1}[mode]
    tokens = min(spec.text.tokens, MEASURED_TOKENS)
    sampled = min(tokens, KEPT_NUMBERS // hidden + 1)
    sites_of_layer = float(sum(4 * n * (2 * n + sampled) for n in widths))
    all_sites = layers * sites_of_layer
    in_files = all_sites > FREE_SHARE * free
    # The inputs of all layers are kept if tokens pass them layer by layer.
    states = tokens * hidden * sizes.element * (layers + 2.0) if mapped or in_files else 0.0
    states_in_files = states > FREE_SHARE * free

    def read(sites: float) -> float:
        return sites * sites_of_layer if in_files else 0.0

    def graph(tokens: int, whole: bool) -> float:
        """Return the graph of tokens in the model or a layer, with their logits and with the weights from files."""
        layer = tokens * sizes.element * (_ACTIVATIONS * hidden + _INNER * sizes.inner)
        logits = tokens * sizes.vocabulary * (sizes.element + 4 * 4)
        return (layer * layers if whole else layer) + logits + (sizes.layer if mapped else 0.0)

    # Rows on their way forward and back, with a Gram matrix in float64.
    measuring = 0.0 if states_in_files else states
    measuring += graph(spec.text.sequence, not (mapped or in_files)) + 3 * 8 * max(widths) ** 2 + read(1)
    peaks = [measuring]
    if spec.objective != "eigen":
        n = max(widths)
        together = sites_per_graph(n, sharing)
        peaks.append(4 * (_DESCENT * n**2 + 5 * DRAWN_TOKENS * n * together) + read(together / len(widths)))
    if spec.objective == "kl":  # a step turns all bases
        tokens_of_step, gated = DIVERGENCE_ROWS * spec.text.sequence, layers * sum(widths)
        whole = not mapped and is_one_graph(tokens_of_step, gated)
        layers_of_step = layers if whole else 1
        gates = 4 * 10 * tokens_of_step * gated * layers_of_step / layers
        turned = 4 * _DESCENT * bases * hidden**2
        peaks.append(turned + gates + graph(tokens_of_step, whole) + read(layers_of_step))
    # Memory holds all the time: sites that are in no file, and bases in float64 before and after.
    kept = _LIBRARIES + (0.0 if in_files else all_sites) + 2 * 8 * bases * hidden**2
    disk = (states if states_in_files else 0.0) + (all_sites if in_files else 0.0)
    return RefinementNeed(kept + max(peaks), disk)
