"""Files of other tools: what is read from each kind, and the sentence on each fault."""

import json
from pathlib import Path

import pytest

from wina_core.errors import WinaError
from wina_core.files import user_file
from wina_core.store.imported.candidate import read_import

DATA = Path(__file__).parent / "data"


def values(point):
    return {name: metric.value for name, metric in point.metrics.items()}


@pytest.mark.parametrize("name", ["bench.json", "bench.jsonl", "bench.csv"])
def test_llama_bench_joins_prompt_and_generation_of_one_file_and_leaves_out_what_mixes_them(name):
    file, remarks = read_import(DATA / name)
    assert (file.tool, file.version, file.measured) == ("llama-bench", "build 5163 (8cf427ff)", 1795168800.0)
    four, eight = file.points
    assert values(four) == {
        "prefill_tokens_per_s": 9120.5, "tokens_per_s": 1310.25, "memory": 4021504, "bits": 8 * 4021504 / 6590720,
    }  # fmt: skip
    stderr = four.metrics["tokens_per_s"].stderr  # the deviation is of two repetitions; CSV does not say how many
    assert stderr is None if name == "bench.csv" else stderr == pytest.approx(12.5 / 2**0.5)
    assert (four.name, four.model, four.architecture, four.parameters) == (
        "demo-Q4_0.gguf", "demo-Q4_0", "llama", 6590720,
    )  # fmt: skip
    assert (four.hardware, four.settings["threads"]) == ("Intel(R) Xeon(R) Processor", "2")
    assert (eight.settings["tests"], values(eight)["tokens_per_s"]) == ("tg128", 910.75)
    assert remarks == ("1 test of a prompt and generation together left out: no speed of either follows.",)


def test_two_lengths_of_generation_are_two_points(tmp_path):
    tests = json.loads((DATA / "bench.json").read_text())[:2]
    tests.append({**tests[1], "n_gen": 256, "avg_ts": 1200.0})
    (tmp_path / "bench.json").write_text(json.dumps(tests))
    file, _ = read_import(tmp_path / "bench.json")
    assert [point.settings["tests"] for point in file.points] == ["pp512", "tg128", "tg256"]


def test_the_summary_of_llama_perplexity_is_read_not_its_chunks_with_the_model_that_the_log_names():
    file, _ = read_import(DATA / "kl.log")
    (point,) = file.points
    assert values(point) == {
        "perplexity": 15.8871, "perplexity_original": 15.7004, "perplexity_ratio": 1.011892,
        "kl": 0.017475, "kl_median": 0.004062, "kl_p90": 0.02952, "kl_p99": 0.221226, "kl_p99_9": 1.098822,
        "kl_max": 11.152802, "delta_p": -0.00127, "delta_p_rms": 0.02411,
        "top1_agreement": pytest.approx(0.94871), "memory": 3.84 * 2**20, "bits": 4.88,
    }  # fmt: skip
    assert point.metrics["kl"].stderr == 0.000763
    assert point.metrics["top1_agreement"].stderr == pytest.approx(0.00282)
    assert (point.name, point.architecture, point.parameters) == ("demo-Q4_0.gguf", "llama", 6.59e6)
    assert (file.version, point.settings["chunks"]) == ("build 5163 (8cf427ff)", "24")


def test_a_summary_alone_is_named_by_its_file(tmp_path):
    text = (DATA / "kl.log").read_text()
    (tmp_path / "q4.txt").write_bytes(text[text.index("======") :].encode("utf-16"))  # as PowerShell writes it
    file, _ = read_import(tmp_path / "q4.txt")
    (point,) = file.points
    assert (point.name, point.model, point.metrics["kl"].value) == ("q4.txt", "", 0.017475)


def test_lm_eval_gives_one_point_with_the_metrics_of_all_tasks():
    file, _ = read_import(DATA / "lm_eval.json")
    (point,) = file.points
    assert values(point) == {
        "arc_easy acc": 0.5125, "arc_easy acc_norm": 0.4987,
        "gsm8k exact_match,strict-match": 0.021, "gsm8k exact_match,flexible-extract": 0.034,
    }  # fmt: skip
    assert point.metrics["arc_easy acc"].stderr == 0.0101
    assert point.metrics["gsm8k exact_match,flexible-extract"].stderr is None
    assert (point.model, point.parameters) == ("/models/demo", 6590720)
    assert (file.version, file.measured) == ("0.4.9", 1763632800.5)


def test_a_table_has_a_point_for_each_row_and_leaves_empty_cells_out():
    file, _ = read_import(DATA / "table.csv")
    first, second = file.points
    assert values(first)["top1_agreement"] == 0.94
    assert (first.metrics["kl"].stderr, first.hardware, first.settings) == (0.0008, "NVIDIA H100", {"tool": "vLLM"})
    assert second.name == "GPTQ, 3 bits"
    assert set(second.metrics) == {"kl", "top1_agreement", "memory", "bits"}


def changed(name, old, new):
    text = (DATA / name).read_text()
    assert old in text
    return text.replace(old, new).encode()


BENCH = json.loads((DATA / "bench.json").read_text())
MIXED_ZONES = json.dumps(
    [{**BENCH[0], "test_time": time} for time in ("2026-11-20T10:00:00", "2026-11-20T10:00:00Z")]
).encode()
MANY_METRICS = json.dumps({"results": {"arc": {f"acc{number},none": 0.5 for number in range(2001)}}}).encode()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "it is empty"),
        (b"\x7fELF\x02\x01\xff\xfe\x00rubbish", "it is not a text; expected llama-bench's JSON"),
        (b"text\0with zeros", "it is not a text"),
        (b"hello\n", "its kind is unknown"),
        (b"[1, 2]", "it is no result of llama-bench: [0]"),
        (b"[" * 100_000, "it is no result of llama-bench"),
        (b'{"a": ' * 100_000, "nested too deeply"),
        (b"{}", 'it has no object "results"'),
        (b'{"results": {"arc": {"alias": "arc"}}}', 'its "results" hold no number'),
        (b'{"results": {"arc": {"acc,none": NaN}}}', "arc acc is nan, which is no number"),
        (b'{"results": {"arc": 1}}', 'its task "arc" holds no metrics'),
        (json.dumps([{**BENCH[0], "avg_ts": "fast"}]).encode(), "[0].avg_ts: it should be a valid number"),
        (json.dumps([{k: v for k, v in BENCH[0].items() if k != "model_size"}]).encode(), "model_size: it is missing"),
        (json.dumps([BENCH[3]]).encode(), "it has no test of a prompt or of generation alone"),
        (changed("bench.csv", '"1310.250000"', '"quick"'), "line 3 is no result of llama-bench: avg_ts"),
        (changed("bench.jsonl", '"n_gen": 128', '"n_gen": -1'), "line 2 is no result of llama-bench: n_gen"),
        (changed("kl.log", "Mean    KLD:", "Mean    XYZ:"), 'its summary has no line "Mean KLD"'),
        (changed("kl.log", "Mean    KLD:   0.017475", "Mean    KLD:        nan"), "kl is nan, which is no number"),
        (changed("kl.log", "Same top p: 94.871", "Same top p: 194.871"), "same_top is 1.94871, but it must be 0 to 1"),
        (b"Final estimate: PPL = 15.8871 +/- 0.24680\n", "run it with --kl-divergence"),
        (b"name,klx\na,1\n", 'its column "klx" is unknown; did you mean kl'),
        (b"model,kl\na,1\n", 'its column "name" is missing'),
        (b"name,model\na,b\n", "it has no column of a metric"),
        (b"name,kl,kl\na,1,2\n", 'its header has the column "kl" twice'),
        (b"name,kl\n", "it has a header, but no row"),
        (b"name,kl\na,small\n", 'line 2: kl is "small", which is no number'),
        (b"name,kl\na,1,2\n", "line 2 has 3 cells, but the header has 2"),
        (b"name,kl\n,1\n", "line 2 has no name"),
        (b"name,kl,bits\na,,\n", "line 2 has no number"),
        (b"name,tokens_per_s\na,-3\n", "tokens_per_s is -3, but it must be at least 0"),
        (b"name,kl,date\na,1,yesterday\n", 'line 2: date is "yesterday"'),
        (b'name,kl\n"a,1\n', "is no valid CSV"),
        (b"name,kl\n\x1b[31mred,1\n", "name: it has control characters, or more than 1,000 characters"),
        (b'{"results": {"arc": {"acc,none": 0.5}}, "date": 1.7e12}', "outside the years 2000 to 2099"),
        (b"name,kl,date\na,1,0001-01-01T00:00+14:00\n", "outside the years 2000 to 2099"),
        (b'{"results": {"arc": {"acc,none": ' + b"9" * 400 + b"}}}", "it holds what cannot be read"),
        (MIXED_ZONES, "it holds what cannot be read"),
        (b"a" * 200_000, "it holds what cannot be read"),
        (b"[1]4.5216,[2]4.9273,\n", "run it with --kl-divergence"),
        (MANY_METRICS, "it has 2,001 different metrics, more than 2,000"),
        (b'{"results": {"\\ud800": {"acc,none": 0.5}}}', "it has control characters"),
    ],
)  # fmt: skip
def test_a_faulty_file_is_refused_with_one_sentence_that_names_it(tmp_path, content, sentence):
    file = tmp_path / "faulty"
    file.write_bytes(content)
    with pytest.raises(WinaError) as error:
        read_import(file)
    assert str(error.value).startswith(f"{file} cannot be imported: ")
    assert sentence in str(error.value)


def test_a_huge_file_is_refused_unread(tmp_path, monkeypatch):
    monkeypatch.setitem(user_file.LIMITS, "file of results", 2**20)
    file = tmp_path / "huge.csv"
    with file.open("wb") as handle:
        handle.truncate(2**20 + 1)
    with pytest.raises(WinaError, match="larger than 1 MiB, too large for a file of results"):
        read_import(file)
