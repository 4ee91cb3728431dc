"""The paper's numbers: complete, consistent with themselves, and found by what a study calls its runs."""

from collections import Counter

import pytest

from wina_core.studies.published import (
    MEAN,
    PublishedNumber,
    mean_weights,
    preferred_metric,
    published,
    published_value,
)

ROUNDING = 0.005
"""Half of the last printed digit: of the mean itself and, at most, of the mean of its tasks."""


def test_every_cell_is_there_once() -> None:
    assert len(published()) == 821
    cells = Counter(number[:3] + number[3:6] + number[7:9] for number in published())
    assert set(cells.values()) == {1}
    assert published("commonsense") == tuple(number for number in published() if number.study == "commonsense")
    assert published("no such study") == ()


def rows(study: str) -> dict[tuple[str, str, float], dict[str, PublishedNumber]]:
    found: dict[tuple[str, str, float], dict[str, PublishedNumber]] = {}
    for number in published(study):
        found.setdefault((number.model, number.method, number.sparsity), {})[number.task] = number
    return found


@pytest.mark.parametrize("study", ["commonsense", "longbench"])
def test_the_papers_means_are_those_of_its_columns(study: str) -> None:
    weights = mean_weights(study)
    for row, numbers in rows(study).items():
        assert set(numbers) == {*weights, MEAN}
        mean = sum(weight * numbers[task].value for task, weight in weights.items()) / sum(weights.values())
        assert abs(mean - numbers[MEAN].value) <= 2 * ROUNDING + 1e-9, row


def test_a_cell_is_found_by_role_configuration_sparsity_and_task() -> None:
    assert published_value("commonsense", "Llama-2-7B", "WINA", 0.65, "piqa") == 75.35
    assert published_value("commonsense", "Llama-2-7B", "WINA", 0.65, "piqa", "acc") is None
    assert published_value("commonsense", "Llama-2-7B", "dense", 0.65, MEAN) == 69.72
    assert published_value("commonsense", "Llama-2-7B", "CATS", 0.65, MEAN) is None
    assert published_value("quantization", "Llama-2-7B", "TEAL", 0.5, MEAN, quantization="int4") == 66.0
    assert published_value("synthetic", "synthetic", "TEAL", 0.5, "lemma", "error_deviation") == 0.23


@pytest.mark.parametrize(
    ("stored", "preferred"),
    [
        (["exact_match,strict-match", "exact_match,flexible-extract"], "exact_match,flexible-extract"),
        (["likelihood_diff", "pct_stereotype"], "pct_stereotype"),
        (["error_deviation", "error"], "error"),
        (["error_deviation"], None),
    ],
)
def test_the_published_evaluations_preference_decides_the_metric(stored: list[str], preferred: str | None) -> None:
    assert preferred_metric(stored) == preferred
