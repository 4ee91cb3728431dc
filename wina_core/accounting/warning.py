"""Warnings beside numbers: sparsity that costs more than it saves, flattering texts, superseded runs."""

from wina_core.specs import DEVIATION


def sparsity_warning(counted: float | None, full: float | None) -> str:
    """A sentence where the weights added beside the kept ones cost more than the sparsity bought, else "".

    `counted` and `full` are a UnitRecord's two sparsities. Their difference is what is added: the rotation's shortcuts,
    the norms of the masks, and the biases of replaced inputs. It exceeds what was bought exactly where `full` is
    negative: the sparse model then reads more than the dense one. None, or NaN, stands for an unknown sparsity, of
    which nothing is said.
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
    """Return what a reader of a metric must know, in sentences; empty when there is nothing.

    Beside `sparsity_warning`: why the run is `superseded`, already a sentence, and what of it (`chosen_on_evaluation`,
    for example "rotation") was chosen on the very text that `task` measures the deviation on.
    """
    sentences = [superseded, sparsity_warning(counted, full)]
    if chosen_on_evaluation and task == DEVIATION:
        sentences.append(
            f"The text of this evaluation is also that of its {chosen_on_evaluation}, so its numbers may flatter; "
            "choose another text for one of them."
        )
    return " ".join(filter(None, sentences))
