"""`wina latency` on tiny shapes with the reference backend."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.wina_core.conftest import Wina
from tests.wina_core.tiny import tiny_folder
from wina_core.compute.latency import decoding, products, sweep

CPU = ("--device", "cpu")
TINY = ("--shape", "64x48", "--batch-size", "1", "--dtype", "float32", "--sparsity", "0.5", "--repetitions", "2", *CPU)
SWEEP = ("latency", *TINY, "--backend", "reference", "--dense", "none")


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small cache of known bandwidth, so that little is copied and read, and one thread, whatever the others are told
    meanwhile: timings with another number of threads are others'."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    monkeypatch.setattr(products, "LONGEST_SECONDS", 3600.0)  # a busy machine takes long for any product
    monkeypatch.setattr(sweep, "cache_bytes", lambda _: 2**16)
    monkeypatch.setattr(sweep, "measure_bandwidth", lambda *_: 10.0)


def test_a_sweep_is_measured_once_printed_and_exported(wina: Wina, tmp_path: Path) -> None:
    code, out, err = wina(*SWEEP, "--json")
    rows = json.loads(out)
    timed = [(row["method"], row["sparsity"], row["backend"]) for row in rows]
    assert timed == [("dense", 0.0, "torch"), ("wina", 0.5, "reference")]
    for row in rows:
        assert min(row["median_ms"], row["bandwidth"]) > 0
        assert row["measured_sparsity"] == row["sparsity"]
    assert (code, "2 measured, 0 already stored" in err) == (0, True)

    code, out, err = wina(*SWEEP, "--method", "dense", "--method", "wina", "--method", "teal")
    assert (code, "1 measured, 2 already stored" in err) == (0, True)
    header, *lines = out.splitlines()
    assert header.split()[:4] == ["op", "shape", "batch", "dtype"]
    assert len(lines) == 3

    _, out, err = wina(*SWEEP, "--json", "--output-path", tmp_path / "latency.json")
    assert "0 measured, 2 already stored" in err
    exported = json.loads((tmp_path / "latency.json").read_text())
    assert json.loads(out) == exported
    assert [(row["point"], row["median_ms"]) for row in exported] == [(row["point"], row["median_ms"]) for row in rows]

    _, out, err = wina(*SWEEP, "--json", "--recompute")
    assert "2 measured, 0 already stored" in err
    assert [row["point"] for row in json.loads(out)] == [row["point"] for row in rows]
    assert json.loads(out) != rows


def test_decoding_is_measured_once_and_printed(wina: Wina, tmp_path: Path) -> None:
    flags = ("--decode", "--masks", "shared", "--sparsity", "0.5", "--new-tokens", "3", "--repetitions", "1")
    decode = ("latency", tiny_folder(tmp_path / "model"), *flags)
    code, out, err = wina(*decode, "--json")
    (row,) = json.loads(out)
    assert code == 0
    assert "wina (shared masks), 50 %: " in err, "printed as it is measured"
    assert f"{row['tokens_per_second']:.4g} tokens/s (p10 {row['p10']:.4g}, p90 {row['p90']:.4g})" in err
    assert (row["model"], row["method"], row["new_tokens"]) == ("model", "wina (shared masks)", 3)
    assert (row["turns"], row["timed_tokens"]) == (1, 3)
    assert row["speedup"] == row["tokens_per_second"] / row["dense_tokens_per_second"]
    _, out, err = wina(*decode)
    assert "0 measured, 1 already stored" in err
    assert out.splitlines()[0].split()[:3] == ["model", "rotation", "method"]


def test_runs_that_disagree_are_said_in_the_table_the_json_and_a_remark(
    wina: Wina, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    speeds = iter([decoding._Speeds([10.0] * 3, [50.0] * 3, 8), decoding._Speeds([8.0, 9.0, 14.0], [50.0] * 3, 8)])
    monkeypatch.setattr(decoding, "_speeds", lambda *_: next(speeds))
    decode = ("latency", tiny_folder(tmp_path / "model"), "--decode", "--sparsity", "0.5")
    _, out, err = wina(*decode)
    assert "no: runs 59 %" in out
    assert "p10 8.2, p90 13, runs disagree by 59 %" in err
    assert "1 of 1 points are unstable" in err
    (row,) = json.loads(wina.succeeds(*decode, "--json"))
    assert (row["stable"], round(row["spread"], 2), row["dense_spread"]) == (False, 1.59, 1.0)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_an_output_that_cannot_be_written_is_told_in_one_sentence() -> None:
    command = [sys.executable, "-m", "wina_core.cli", "latency", "--list"]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == (
        "wina: The output cannot be written (No space left on device); free some space or write it elsewhere.\n"
    )
