"""Local files in place of the hub's data: the files that a task takes, and the errors of those that do not fit."""

import json
from pathlib import Path

import huggingface_hub.constants
import pyarrow
import pyarrow.parquet
import pytest
from demo_model.stock_data import build, sentences

from tests.stock_tasks import STOCK_FILES
from wina_core.compute.evaluation import local_data, tasks
from wina_core.compute.evaluation.local_data import LocalData, read_documents
from wina_core.compute.evaluation.tasks import check_tasks, load_task
from wina_core.compute.sandbox import runner
from wina_core.compute.sandbox.runner import CodeEval, pass_at_k
from wina_core.errors import WinaError
from wina_core.files.paths import resources_folder
from wina_core.specs import EvaluationSpec

DEMO_DATA = resources_folder() / "demo" / "data"
QUESTION = {"goal": "To cross a river", "sol1": "take the bridge.", "sol2": "take the lift.", "label": 0}
UNSAFE = """\
task: own_programs
dataset_path: json
dataset_kwargs: {data_files: {test: programs.jsonl}}
test_split: test
unsafe_code: true
output_type: generate_until
doc_to_text: "{{prompt}}"
doc_to_target: "{{test}}"
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
"""


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hub is out of reach, and the files of stock names are given, since reading all names takes long."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(tasks, "_stock_paths", lambda: STOCK_FILES)


def write(file: Path, *rows: dict) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), file)
    else:
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return file


def spec_of(folder: Path | str, task: str, **fields) -> EvaluationSpec:
    return EvaluationSpec(tasks=(task,), data_folder=str(folder), fidelity=None, **fields)


def test_shipped_data_are_what_the_program_writes():
    text = (resources_folder() / "demo" / "text" / "heldout.txt").read_text(encoding="utf-8")
    written = build(sentences(text))
    assert {folder.name for folder in DEMO_DATA.iterdir() if folder.is_dir()} == set(written)
    for task, splits in written.items():
        for split, rows in splits.items():
            lines = (DEMO_DATA / task / f"{split}.jsonl").read_text(encoding="utf-8").splitlines()
            assert [json.loads(line) for line in lines] == rows


def test_a_folder_serves_all_tasks_whose_names_begin_with_its_own(tmp_path: Path):
    for name in ("mmlu", "mmlu_high_school", "longbench"):
        (tmp_path / name).mkdir()
    data = LocalData(tmp_path)
    assert data.folder_of("mmlu") == tmp_path / "mmlu"
    assert data.folder_of("mmlu_anatomy") == tmp_path / "mmlu"
    assert data.folder_of("mmlu_high_school_physics") == tmp_path / "mmlu_high_school"
    assert data.folder_of("mmlulike") is None
    assert data.folder_of("piqa") is None


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_documents_come_from_the_file_and_the_rest_from_the_stock_definition(tmp_path: Path, suffix):
    write(tmp_path / "piqa" / f"validation.{suffix}", QUESTION)
    task = load_task("piqa", data_folder=str(tmp_path))["tasks"]["piqa"]
    document = task.task_docs[0]
    assert task.doc_to_text(document) == "Question: To cross a river\nAnswer:"
    assert task.doc_to_choice(document) == ["take the bridge.", "take the lift."]
    assert list(task.aggregation()) == ["acc", "acc_norm"]


def test_a_task_without_local_data_goes_to_the_hub_and_says_what_to_do_offline(tmp_path: Path):
    for spec in (spec_of(tmp_path, "piqa"), EvaluationSpec(tasks=("piqa",))):
        with pytest.raises(WinaError, match=r'data of the task "piqa" cannot be had .*online.*as validation\.json'):
            check_tasks(spec)


def test_a_missing_split_is_named(tmp_path: Path):
    write(tmp_path / "piqa" / "test.jsonl", QUESTION)
    with pytest.raises(WinaError, match=r'lack the split "validation" \(there is: test\); add it as validation\.jsonl'):
        check_tasks(spec_of(tmp_path, "piqa"))


def test_the_split_of_examples_is_needed_only_for_examples(tmp_path: Path):
    write(tmp_path / "piqa" / "validation.jsonl", QUESTION)
    check_tasks(spec_of(tmp_path, "piqa"))
    with pytest.raises(WinaError, match=r'"piqa" is to show 2 examples in its prompt, but its data have 0 .*choose f'):
        check_tasks(spec_of(tmp_path, "piqa", num_fewshot=2))
    write(tmp_path / "piqa" / "train.jsonl", QUESTION, QUESTION)
    check_tasks(spec_of(tmp_path, "piqa", num_fewshot=2))


@pytest.mark.parametrize(
    ("task", "split", "document", "missing"),
    [
        ("piqa", "validation", {"goal": "?", "label": 0}, ""),
        ("piqa", "validation", {"goal": "?", "sol1": "a", "sol2": "b"}, "label"),
        ("hellaswag", "validation", {"ctx_a": "A", "ctx_b": "b", "endings": ["c"], "label": "0"}, "activity_label"),
    ],
)
def test_missing_columns_are_named(tmp_path: Path, task, split, document, missing):
    write(tmp_path / task / f"{split}.jsonl", document)
    with pytest.raises(WinaError, match=rf'{task} do not fit the task "{task}" \(.*{missing}.*; there is: .*hub do'):
        check_tasks(spec_of(tmp_path, task))


def test_columns_that_only_scoring_reads_are_missed_at_once(tmp_path: Path, monkeypatch):
    pytest.importorskip("jieba")
    monkeypatch.setattr(tasks, "_stock_paths", lambda: {"longbench_trec": "longbench/trec.yaml"})
    write(tmp_path / "longbench" / "test.jsonl", {"context": "", "question": "?", "answers": ["Text"]})
    with pytest.raises(WinaError, match="all_classes is missing"):
        check_tasks(spec_of(tmp_path, "longbench_trec"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("validation.jsonl", b'{"goal": 1}\n{"goal": \n', r"Line 2 of the data file .* is not JSON .*correct it"),
        ("validation.jsonl", b"[1, 2]\n", r"Line 1 of the data file .* is no JSON object"),
        ("validation.jsonl", b"\n", r"validation\.jsonl holds no documents"),
        ("validation.jsonl", b'{"a": 1}\n{"a": "b"}\n', r"validation\.jsonl cannot be read .*replace it"),
        ("validation.jsonl", b'{"a": "\xff"}\n', r"validation\.jsonl cannot be read .*replace it"),
        ("validation.jsonl", b'{"a": "\\ud800"}\n', r"validation\.jsonl cannot be read .*replace it"),
        ("validation.parquet", b"PAR1 or not", r"validation\.parquet cannot be read .*replace it"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, name, content, message):
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(WinaError, match=message):
        read_documents(file)


def test_documents_may_leave_columns_out(tmp_path: Path):
    documents = read_documents(write(tmp_path / "test.jsonl", {"a": 1}, {"b": ["x"], "a": 2.5}))
    assert documents.to_list() == [{"a": 1.0, "b": None}, {"a": 2.5, "b": ["x"]}]


def test_programs_that_the_model_writes_need_consent(monkeypatch):
    monkeypatch.setattr(runner, "run_confined", lambda *_: pytest.fail("ran a program"))
    with pytest.raises(
        WinaError, match=r'"humaneval" runs programs .*not consented to.* sandbox .*option confirm-run-unsafe-code'
    ):
        check_tasks(spec_of("demo", "humaneval"))


def test_a_task_that_would_run_them_outside_the_sandbox_is_refused_with_consent_too(tmp_path: Path):
    (tmp_path / "own.yaml").write_text(UNSAFE, encoding="utf-8")
    write(tmp_path / "programs.jsonl", {"prompt": "def f():", "test": "f()"})
    spec = EvaluationSpec(tasks=("own_programs",), task_folders=(str(tmp_path),), fidelity=None)
    with pytest.raises(WinaError, match="by itself and not by the metric code_eval"):
        check_tasks(spec, run_model_code=True)


@pytest.mark.parametrize(
    ("n", "passed", "k", "expected"), [(1, 1, 1, 1.0), (1, 0, 1, 0.0), (10, 3, 1, 0.3), (5, 2, 2, 0.7), (5, 4, 2, 1.0)]
)
def test_pass_at_k_is_the_chance_that_one_of_k_candidates_passes(n, passed, k, expected):
    assert pass_at_k(n, passed, k) == pytest.approx(expected)


def test_code_eval_runs_every_candidate_and_its_tests(monkeypatch):
    ran = []

    def run(program, tests, _limits):
        ran.append((program, tests))
        return runner.Outcome("right" in program, "passed" if "right" in program else "failed")

    monkeypatch.setattr(runner, "run_confined", run)
    estimates, outcomes = CodeEval().compute(["one()", "two()"], [["right", "wrong"], ["wrong", "wrong"]], k=[1, 2, 3])
    assert ran == [("right", "one()"), ("wrong", "one()"), ("wrong", "two()"), ("wrong", "two()")]
    assert estimates == {"pass@1": 0.25, "pass@2": 0.5}
    assert [[result["passed"] for _, result in outcomes[task]] for task in (0, 1)] == [[True, False], [False, False]]


def test_a_table_that_unpacks_to_more_than_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow.parquet.write_table(
        pyarrow.table({"text": ["a" * 1000] * 1000}), tmp_path / "test.parquet", use_dictionary=False
    )
    monkeypatch.setitem(local_data.LIMITS, "data file", (tmp_path / "test.parquet").stat().st_size)
    with pytest.raises(WinaError, match=r"unpacks to [\d,]+ bytes, more than"):
        read_documents(tmp_path / "test.parquet")


@pytest.mark.parametrize(
    ("line", "reason"),
    [('{"prompt": ' + "[" * 5000 + "]" * 5000 + "}", "nested too deeply"), ("null", "no JSON object")],
)
def test_lines_that_end_the_process_within_a_library_are_refused(tmp_path: Path, line: str, reason: str) -> None:
    (tmp_path / "own.yaml").write_text(UNSAFE.replace("unsafe_code: true\n", ""), encoding="utf-8")
    (tmp_path / "programs.jsonl").write_text(f"{line}\n", encoding="utf-8")
    with pytest.raises(WinaError, match=rf"Line 1 of the data file .*programs.jsonl is {reason}"):
        load_task("own_programs", (str(tmp_path),))
