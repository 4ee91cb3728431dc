"""Inputs that can carry column norms, so that their magnitude alone is WINA's score."""

from wina_core.records import ModelShape
from wina_core.specs import FoldNorms, Quantization
from wina_core.specs.methods.base import BLOCKS, Method


def foldable_names(
    projections: tuple[str, ...],
    heads: int,
    kv_heads: int,
    *,
    stream_gains: bool,
    choice: FoldNorms,
    experts: bool = False,
) -> tuple[str, ...]:
    """Return the projections whose inputs x can be x' = c x, c the column norms of all that read them.

    A norm's gain carries c for q, k, v and for gate, up, where each of the two has a norm of its own; the rows of up
    for down, where a gate multiplies them; the rows of v for o. Under grouped queries the heads of a group share rows
    of v and therefore c, so masks of o are the same only without groups: `all` folds it all the same.
    Experts' inputs are not folded: they share the gain of one norm with the router and with each other.
    """
    if choice == "none":
        return ()
    foldable = set(BLOCKS[0] + BLOCKS[2]) if stream_gains else set()
    foldable |= {"down"} if "gate" in projections else set()
    foldable |= {"o"} if choice == "all" or heads == kv_heads else set()
    foldable -= set(BLOCKS[2] + BLOCKS[3]) if experts else set()
    return tuple(name for name in projections if name in foldable)


def choice_under(choice: FoldNorms, quantization: Quantization) -> FoldNorms:
    """Return the choice that applies to a model quantized afterwards: `exact` folds nothing where that loses accuracy.

    Equal norms leave large weights to inputs that matter little. Below 8 bits, quantizers without the inputs' second
    moments then lose more (the demo model's KL in INT4: 0.0110 against 0.0072); those that have them do not. Weights in
    planes lose as well: the outputs of an input share a scale, and folding gives rows of up and v different factors.
    """
    if choice != "exact" or quantization in ("none", "int8"):
        return choice
    if isinstance(quantization, str) or quantization.quantizer == "planes":
        return "none"
    return choice if quantization.reads_text or quantization.mean_bits >= 8 else "none"


def folded_shape(shape: ModelShape, choice: FoldNorms) -> ModelShape:
    names = foldable_names(
        shape.layout.projections,
        shape.heads,
        shape.kv_heads,
        stream_gains=shape.stream_gains,
        choice=choice,
        experts=any(shape.experts),
    )
    return shape.model_copy(update={"folded": names})


def reads_norms(rule: Method, block: tuple[str, ...], norms: tuple[str, ...], *, folded: bool) -> bool:
    """Return whether a mask reads a number for each input beside the input itself.

    `norms` are the matrices whose column norms weigh its score (`Method.norms_of`), `block` all that read the input.
    Unless `folded`, any norms are read; a method's own weights always are. Else those of the whole block are part of
    the input; the ratio of others to them is read, as is 1 / c for a score by magnitude alone.
    """
    if not folded or rule.by_gate_activation or (norms and rule.has_column_weights):
        return bool(norms)
    return set(norms) != set(block)
