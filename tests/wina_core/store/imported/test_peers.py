"""The imported configuration to compare with: the same model, machine and bits."""

from pathlib import Path

import pytest

from wina_core.analysis.comparison.frontier import join_points
from wina_core.records.imports import ImportedPoint, ImportedValue, StoredImport, scored_beside
from wina_core.specs import ModelSource
from wina_core.store.imported.candidate import read_import
from wina_core.store.imported.metrics import import_rows
from wina_core.store.imported.peers import fastest_peer, is_same_machine, width_of

BENCH, _ = read_import(Path(__file__).parent / "data" / "bench.json")
STORED = StoredImport(id=1, content=BENCH, model="demo", location="demo", model_hash="0", imported=0.0)
DEMO = ModelSource(location="demo", dtype="float32", quantization="int4")
HERE = "Intel(R) Xeon(R) Processor, 2 of 4 threads"


@pytest.mark.parametrize(
    ("name", "bits", "width"),
    [
        ("llama-2-7b.Q4_K_M.gguf", 4.85, 4),
        ("x-IQ3_XXS.gguf", 3.06, 3),
        ("x-Q8_0.gguf", None, 8),
        ("x-bf16.gguf", 16, 16),
        ("x-F32", None, 32),
        ("AWQ 4 bits", None, 4),
        ("GPTQ, 3-bit", None, 3),
        ("W8A8", None, 8),
        ("qwen2.5-7b", 4.5, 4),
        ("phi-2", 2.25, 2),
        ("phi-2", None, None),
    ],
)
def test_the_width_is_that_of_the_name_or_nearest_to_the_bits(name, bits, width):
    metrics = {"bits": ImportedValue(value=bits)} if bits else {"kl": ImportedValue(value=0.1)}
    assert width_of(ImportedPoint(name=name, metrics=metrics)) == width


def test_threads_do_not_make_another_machine_but_an_unknown_one_is_no_machine():
    assert is_same_machine("Intel(R)  Xeon(R) processor", HERE)
    assert not is_same_machine("AMD EPYC", HERE)
    assert not is_same_machine("", HERE)


def test_the_fastest_point_of_model_machine_and_width_is_the_peer():
    peer = fastest_peer([STORED], DEMO, HERE, 4)
    assert peer.point is BENCH.points[0]
    assert peer.name == "demo-Q4_0.gguf (imported)"
    assert peer.origin == "demo-Q4_0.gguf (llama-bench, imported from bench.json, 2026-11-20)"
    assert fastest_peer([STORED], DEMO, HERE, 8).point is BENCH.points[1]
    assert fastest_peer([STORED], DEMO, HERE, 16) is None
    assert fastest_peer([STORED], DEMO, "AMD EPYC, 2 of 4 threads", 4) is None
    changed = DEMO.model_copy(update={"fingerprint": "0123456789abcdef"})
    assert fastest_peer([STORED], changed, HERE, 4) is None
    assert fastest_peer([STORED], ModelSource(location="other"), HERE, 4) is None


def test_speed_and_quality_of_one_gguf_file_are_one_point_with_both_files():
    log = STORED.model_copy(update={"id": 2, "content": read_import(Path(__file__).parent / "data" / "kl.log")[0]})
    four, eight = join_points([log, STORED])
    assert (four.name, four.source) == (
        "demo-Q4_0.gguf", "llama-bench, bench.json, 2026-11-20; llama-perplexity, kl.log, 1970-01-01",
    )  # fmt: skip
    assert (four.metrics["tokens_per_s"].value, four.metrics["kl"].value) == (1310.25, 0.017475)
    assert four.metrics["memory"].value == 4021504, "its own"
    assert (eight.source, "kl" in eight.metrics) == ("llama-bench, bench.json, 2026-11-20", False)
    (alone,) = join_points([log])
    assert alone.metrics["kl"].value == 0.017475


def test_a_stored_file_with_an_impossible_date_has_the_date_of_its_import():
    stored = STORED.model_copy(update={"content": BENCH.model_copy(update={"measured": 1.7e12})})
    columns, rows = import_rows([stored])
    assert {(row[columns.index("date")], row[columns.index("date of")]) for row in rows} == {("1970-01-01", "import")}


def test_positions_follow_llama_perplexity_s_numbers_of_the_same_model_alone():
    log = STORED.model_copy(update={"content": BENCH.model_copy(update={"tool": "llama-perplexity"})})
    demo, other = ModelSource(location="demo"), ModelSource(location="other")
    assert scored_beside([STORED, log], demo) == "second_half"
    assert scored_beside([STORED], demo) == "all"
    assert scored_beside([log], other) == "all"
