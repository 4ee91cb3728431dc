"""Experts on the command line: whose threshold each takes, and what each dropped."""

import json
from pathlib import Path

import pytest

from tests.wina_core.conftest import Wina
from tests.wina_core.tiny import tiny_folder, tiny_text


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model of three layers, two of them with six experts of which a token reads two."""
    return tiny_folder(tmp_path / "model", "qwen3_moe")


def test_a_calibration_counts_the_experts_with_thresholds_of_their_own(wina: Wina, model: Path, tmp_path: Path) -> None:
    words = ("calibrate", model, "--text", tiny_text(tmp_path), "--tokens", "512")
    every = json.loads(wina.succeeds(*words, "--json"))
    rows = [row for row in every if "expert" in row["metric"]]
    found = {(row["layer"], row["metric"]): row["value"] for row in rows}
    text = wina.succeeds(*words)
    assert "Experts that read at least 128 of the 512 tokens have thresholds of their own" in text
    for layer in {row["layer"] for row in rows}:
        own, shared = (found[layer, f"experts_with_{whose}_threshold"] for whose in ("own", "layer"))
        assert own + shared == 6
        assert 0 <= found[layer, "smallest_expert_share"] < 2 / 6 < found[layer, "largest_expert_share"] <= 1
        assert text.splitlines()[layer - 3].split()[:3] == [str(layer), str(own), str(shared)]


def test_the_numbers_of_a_runs_experts_are_listed(wina: Wina, model: Path, tmp_path: Path) -> None:
    text = ("--text", tiny_text(tmp_path), "--tokens", "512")
    wina.succeeds("eval", "--model", model, "--method", "wina", "--no-original", *text)
    (run,) = [line.split()[0] for line in wina.succeeds("results", "--annotations").splitlines()[1:]]
    rows = json.loads(wina.succeeds("results", "experts", run[:6], "--json"))
    assert [(row["layer"], row["expert"], row["projection"]) for row in rows] == [
        (layer, expert, projection) for layer in (1, 2) for expert in range(6) for projection in ("gate", "up", "down")
    ]
    assert sum(row["share of tokens"] for row in rows) == pytest.approx(2 * 3 * 2)
