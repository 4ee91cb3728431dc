"""A malformed file of every kind; `python -m tests.trust.malformed` tries thousands, in processes of their own."""

import os
from pathlib import Path

import huggingface_hub.constants
import pytest

from tests.trust.inputs import INPUTS
from tests.trust.malformed import GOOD, prepare, run_case
from wina_core.compute.evaluation import index

SEEDS = range(0, len(INPUTS), 1 if "WINA_LONG_TESTS" in os.environ else 3)
"""Every third kind; all of them at night."""


def test_malformed_files_are_refused_in_one_sentence_or_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("WINA_HOME", "HF_HUB_OFFLINE", "TQDM_DISABLE"):
        monkeypatch.setenv(name, "")  # so that they are as before afterwards
    monkeypatch.delenv("WINA_DATABASE", raising=False)
    monkeypatch.setattr(index, "stock_entries", dict)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    prepare(tmp_path / "base")
    found = [run_case(seed, tmp_path / "base", tmp_path / "case") for seed in SEEDS]
    assert {result["kind"] for result in found} == {INPUTS[seed].name for seed in SEEDS}
    assert [result for result in found if result["verdict"] not in GOOD] == []
