"""The comparison of a pretrained model, on a tiny one in its place."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.released import real_model, recomputed
from tests.released.readings import LIMIT
from tests.released.recomputed import Cell
from tests.released.samples import Sample, random_text, sample
from tests.wina_core.tiny import tiny_folder, tiny_tokens


@pytest.fixture
def rotated() -> tuple[Sample, recomputed.Weights]:
    """A model that the project rotated by the oracle's bases, and the weights that the oracle rotated."""
    model = sample("llama-gqa")
    return model, real_model.rotate_by_oracle(model)


def test_the_report_of_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tiny_folder(tmp_path / "tiny", layers=2)
    text = random_text(tmp_path, tokens=256, sequence=64)
    real_model.report(folder, text, layers=(0, 1), sparsity=0.5)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "masks differ in 0 of" in line] == lines[3:6]
    oracle, project = (float(word.strip(",")) for word in lines[6].split() if word[0].isdigit())
    assert project == pytest.approx(oracle, rel=LIMIT)
    own = next(float(line.split(",")[0].split()[-1]) for line in lines if "project's bases" in line)
    assert own == pytest.approx(oracle, abs=1e-4), "no singular values of a tiny model are nearly equal"
    assert len(lines[lines.index("| --- | ---: | ---: |") + 1 :]) == len(real_model.PARTS)


def test_a_layer_alone_differs_where_the_other_side_has_another_basis(rotated) -> None:
    model, weights = rotated
    ids = tiny_tokens(rows=2, length=24)
    before, after, masks = real_model.compare_layer(model, weights, ids, 1, 0.5)
    assert (masks.differing, masks.inputs) == (0, 2 * 24 * (5 * 32 + 16 + 80))
    assert max(before, after) <= LIMIT
    other = recomputed.transform(model.weights, mlp=recomputed.stacked_basis)
    assert real_model.compare_layer(model, other, ids, 1, 0.5)[2].differing > 0


def test_near_ties_are_counted() -> None:
    gate = real_model.WinaWithTies(sample("llama-gqa").weights, {(0, "q"): 0.5})
    scores = torch.tensor([[[4.0, 3.0, 3.0, 1.0], [4.0, 3.0, 2.0, 1.0]]])
    gate.mask(0, "q", scores)
    expected: dict[Cell, int] = {(0, "q"): 1}
    assert gate.near_ties == expected


def test_every_variant_without_subtracted_means_keeps_the_dense_model(rotated) -> None:
    model, _ = rotated
    ids = tiny_tokens(rows=2, length=12)
    dense = recomputed.forward(model.weights, model.shape, ids)
    parts = [replace(part, names=()) for part in real_model.PARTS]
    for part, kl in real_model.measure_parts(parts, model.weights, model.shape, dense, ids, 0.5):
        assert (abs(kl.mean) <= 1e-12) == ("subtracted" not in part.label), part.label
