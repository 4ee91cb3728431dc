"""Warnings beside numbers: sparsity that costs more than it saves, texts seen before, superseded runs."""

from collections.abc import Iterable

from wina_core.specs import FIDELITY, ORIGINAL


def sparsity_warning(gated: float | None, net: float | None) -> str:
    """Return a sentence where the sparse model reads more than the dense one, else "".

    `gated` and `net` are a UnitRecord's two sparsities, None or NaN where unknown. Their difference is the read of
    the rotation's shortcuts, the masks' norms, and the biases of replaced inputs; it exceeds the saving where `net` is
    negative.
    """
    if gated is None or net is None or not net < 0.0:
        return ""
    return (
        "The rotation's residual shortcuts, norms, and biases where inputs are replaced, cost "
        f"{100 * (gated - net):.1f} % of the gated weights, more than the {100 * gated:.1f} % that the gates "
        f"drop, so {-100 * net:.1f} % more is read than in the dense model; a global rotation has no shortcuts."
    )


def metric_warning(
    gated: float | None, net: float | None, chosen_on_evaluation: str, task: str, superseded: str = ""
) -> str:
    """Return all warnings on a metric, in sentences; empty when there is none.

    Beside `sparsity_warning` and `chosen_warning`: the sentence on a `superseded` run.
    """
    return joined((superseded, sparsity_warning(gated, net), chosen_warning(chosen_on_evaluation, task)))


def chosen_warning(chosen_on_evaluation: str, task: str) -> str:
    """Return a sentence on the parts of a run, for example "rotation", that were chosen on the evaluation's text."""
    if not chosen_on_evaluation or task not in (FIDELITY, ORIGINAL):
        return ""
    return (
        f"The text of this evaluation is also that of its {chosen_on_evaluation}, so its numbers may flatter; "
        "choose another text for one of them."
    )


def joined(sentences: Iterable[str]) -> str:
    return " ".join(filter(None, sentences))
