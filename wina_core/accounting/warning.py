"""Warnings beside numbers: sparsity that costs more than it saves, texts seen before, superseded runs."""

from wina_core.specs import DEVIATION


def sparsity_warning(counted: float | None, full: float | None) -> str:
    """Return a sentence where the sparse model reads more than the dense one, else "".

    `counted` and `full` are a UnitRecord's two sparsities, None or NaN where unknown. Their difference is the read of
    the rotation's shortcuts, the masks' norms, and the biases of replaced inputs; it exceeds the saving where `full` is
    negative.
    """
    if counted is None or full is None or not full < 0.0:
        return ""
    return (
        "The rotation's residual shortcuts, norms, and biases where inputs are replaced, cost "
        f"{100 * (counted - full):.1f} % of the gated weights, more than the {100 * counted:.1f} % that the gates "
        f"drop, so {-100 * full:.1f} % more is read than in the dense model; a global rotation has no shortcuts."
    )


def metric_warning(
    counted: float | None, full: float | None, chosen_on_evaluation: str, task: str, superseded: str = ""
) -> str:
    """Return all warnings on a metric, in sentences; empty when there is none.

    Beside `sparsity_warning`: the sentence on a `superseded` run, and the parts of it (`chosen_on_evaluation`, for
    example "rotation") that were chosen on the evaluation's text.
    """
    sentences = [superseded, sparsity_warning(counted, full)]
    if chosen_on_evaluation and task == DEVIATION:
        sentences.append(
            f"The text of this evaluation is also that of its {chosen_on_evaluation}, so its numbers may flatter; "
            "choose another text for one of them."
        )
    return " ".join(filter(None, sentences))
