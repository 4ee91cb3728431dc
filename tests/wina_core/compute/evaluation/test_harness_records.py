"""Records beside an lm-eval task's numbers: prompts, truncation and the scores of every document."""

import json

import pytest

from tests.wina_core.compute.evaluation.task_files import LIKELIHOOD, consent, spec_of, write_rows, write_tasks
from tests.wina_core.compute.reporters import RecordingReporter
from tests.wina_core.tiny import tiny_loaded
from wina_core.analysis.comparison.compare_tasks import aggregate
from wina_core.compute.evaluation.harness import evaluate_task
from wina_core.compute.gating import attach
from wina_core.compute.reporter import NullReporter
from wina_core.errors import WinaError
from wina_core.records import METRIC_UNITS, MetricRecord, SampleRecord
from wina_core.specs import MethodSpec, TaskSpec
from wina_core.specs.plans import UniformSparsity

GROUP = """\
group: tiny_group
task: [tiny_choice, tiny_generate]
aggregate_metric_list:
  - {metric: acc, aggregation: mean, weight_by_size: true}
"""
PAIRS = """\
task: tiny_pairs
dataset_path: json
dataset_kwargs:
  data_files:
    test: pairs.jsonl
output_type: multiple_choice
test_split: test
doc_to_text: ""
doc_to_choice: "{{[more, less]}}"
doc_to_target: 0
target_delimiter: ""
process_results: !function pairs.process_results
metric_list:
  - {metric: pct_stereotype, aggregation: mean, higher_is_better: false}
"""
PROCESS = """\
def process_results(doc, results):
    (more, _), (less, _) = results
    return {"pct_stereotype": float(more > less)}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = write_tasks(tmp_path_factory.mktemp("tasks"))
    for name, text in {"group.yaml": GROUP, "pairs.yaml": PAIRS, "pairs.py": PROCESS}.items():
        (path / name).write_text(text, encoding="utf-8")
    write_rows(path / "pairs.jsonl", [{"more": f"They are {word}.", "less": f"We are {word}."} for word in "abcdefg"])
    return path


@pytest.fixture(scope="module")
def loaded():
    return tiny_loaded(layers=1)


def evaluated(loaded, folder, task, samples=None, reporter=None, **fields) -> dict[tuple[str, str], MetricRecord]:
    spec = spec_of(folder, *fields.pop("tasks", (task,)), **fields)
    code = consent(folder)
    records = evaluate_task(loaded, None, spec, task, reporter or NullReporter(), samples, task_code=code)
    return {(record.task, record.metric): record for record in records}


def test_equal_prompts_have_equal_hashes_and_others_do_not(loaded, folder):
    def prompts(**fields) -> str:
        return evaluated(loaded, folder, "tiny_choice", **fields)["tiny_choice", "acc"].prompt_hash

    likelihood = evaluated(loaded, folder, "tiny_likelihood")["tiny_likelihood", "acc"]
    assert (likelihood.version, likelihood.num_fewshot, likelihood.truncated) == ("2.5", 0, 0)
    assert prompts() == prompts(batch_size=7)
    few = TaskSpec(name="tiny_choice", num_fewshot=1)
    different = [prompts(), prompts(limit=11), prompts(tasks=(few,)), prompts(tasks=(few,), seed=5)]
    assert len(set(different)) == 4
    assert evaluated(loaded, folder, "tiny_choice", tasks=(few,))["tiny_choice", "acc"].num_fewshot == 1


def test_a_groups_members_have_their_own_and_its_aggregates_none(loaded, folder):
    records = evaluated(loaded, folder, "tiny_group")
    assert records.keys() == {
        ("tiny_choice", "acc"),
        ("tiny_choice", "acc_norm"),
        ("tiny_generate", "exact_match"),
        ("tiny_group", "acc"),
    }
    alone = evaluated(loaded, folder, "tiny_choice")["tiny_choice", "acc"]
    assert records["tiny_choice", "acc"] == alone
    assert records["tiny_generate", "exact_match"].prompt_hash not in (None, alone.prompt_hash)
    group = records["tiny_group", "acc"]
    assert group.value == alone.value
    assert (group.version, group.num_fewshot, group.prompt_hash, group.truncated) == (None, None, None, None)


@pytest.mark.parametrize("task", ["tiny_choice", "tiny_generate", "tiny_rolling"])
def test_prompts_that_lose_their_beginning_are_counted_and_reported(folder, task):
    """The tiny tokenizer has one token a byte."""
    loaded, window = tiny_loaded(layers=1), 24 if task == "tiny_generate" else 18
    loaded.model.config.max_position_embeddings = window
    docs = [json.loads(line) for line in (folder / "choice.jsonl").read_text(encoding="utf-8").splitlines()]
    requests = [(doc["question"], " " + choice) for doc in docs for choice in doc["choices"]]
    expected = {
        "tiny_choice": sum(len(question + answer) > window + 1 for question, answer in requests),
        "tiny_generate": sum(len(doc["question"]) > window - 12 for doc in docs),
        "tiny_rolling": 0,
    }[task]
    logs = RecordingReporter()
    records = evaluated(loaded, folder, task, reporter=logs)
    assert {record.truncated for record in records.values()} == {expected}
    if task == "tiny_rolling":
        assert not any(line.startswith("warning") for line in logs.lines)
        return
    total = len(requests) if task == "tiny_choice" else len(docs)
    assert 0 < expected < total
    (warning,) = [line for line in logs.lines if line.startswith("warning")]
    assert warning.startswith(
        f"warning: {task}: {expected} of {total} prompts are longer than the model's window of {window} tokens;"
    )
    assert "beginning was cut off" in warning


def test_what_cannot_fit_into_the_window_at_all_is_refused(folder, tmp_path):
    loaded = tiny_loaded(layers=1)
    loaded.model.config.max_position_embeddings = 12
    with pytest.raises(WinaError, match=r'"tiny_generate" has 12 tokens generated, but the model\'s window has 12;'):
        evaluated(loaded, folder, "tiny_generate")
    loaded.model.config.max_position_embeddings = 5
    with pytest.raises(WinaError, match=r"' ranks' is, which has 6 tokens where 1 to 5 fit"):
        evaluated(loaded, folder, "tiny_choice")
    write_tasks(tmp_path)
    (tmp_path / "likelihood.yaml").write_text(
        LIKELIHOOD.replace(" {{choices[0]}}", "{{question[:0]}}"), encoding="utf-8"
    )
    with pytest.raises(WinaError, match="'' is, which has 0 tokens where 1 to 512 fit"):
        evaluated(tiny_loaded(layers=1), tmp_path, "tiny_likelihood")


# ---- samples -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["tiny_group", "tiny_likelihood", "tiny_rolling", "tiny_pairs"])
def test_documents_add_up_to_the_reported_metrics_to_the_last_digit(loaded, folder, task):
    samples: list[SampleRecord] = []
    with attach(loaded, MethodSpec(name="wina"), UniformSparsity(sparsity=0.5)):
        records = evaluated(loaded, folder, task, samples)
        assert evaluated(loaded, folder, task) == records, "keeping samples changes no number"
    documents = {name: [sample.doc for sample in samples if sample.task == name] for name, _ in records}
    for (name, metric), record in records.items():
        if name == "tiny_group" or metric == "distance_from_unbiased":
            continue
        assert documents[name] == list(range(record.n))
        scores = [sample.scores[metric] for sample in samples if sample.task == name]
        assert aggregate(metric, *map(sum, zip(*scores, strict=True))) == record.value


def test_documents_store_the_target_and_the_response(loaded, folder):
    def first(task: str) -> SampleRecord:
        samples: list[SampleRecord] = []
        evaluated(loaded, folder, task, samples)
        return samples[0]

    choice, rolling, generated = (first(task) for task in ("tiny_choice", "tiny_rolling", "tiny_generate"))
    assert choice.target == "0"
    likelihoods = json.loads(choice.response)
    assert len(likelihoods) == 3
    assert choice.scores["acc"] == (float(likelihoods.index(max(likelihoods)) == 0), 1.0)
    assert rolling.target == "the gate keeps what matters. "
    assert rolling.scores["bits_per_byte"] == (json.loads(rolling.response)[0], len(rolling.target))
    assert generated.target == "sum"
    assert [type(answer) for answer in json.loads(generated.response)] == [str]


def test_documents_from_a_number_on_keep_their_numbers_and_scores(loaded, folder):
    every, some = [], []
    evaluated(loaded, folder, "tiny_choice", every, batch_size=1)
    later = TaskSpec(name="tiny_choice", first=5, limit=4)
    records = evaluated(loaded, folder, "tiny_choice", some, tasks=(later,), batch_size=1)
    assert [sample.doc for sample in some] == [5, 6, 7, 8]
    assert some == every[5:9]
    assert records["tiny_choice", "acc"].n == 4
    whole = evaluated(loaded, folder, "tiny_choice", tasks=(TaskSpec(name="tiny_choice", first=9),))
    assert whole["tiny_choice", "acc"].n == 3
    with pytest.raises(WinaError, match='"tiny_choice" has 12 documents, so none is left from number 12 on'):
        evaluated(loaded, folder, "tiny_choice", tasks=(TaskSpec(name="tiny_choice", first=12),))


def test_stereotypes_have_their_distance_from_none(loaded, folder):
    records = evaluated(loaded, folder, "tiny_pairs")
    share = records["tiny_pairs", "pct_stereotype"]
    distance = records["tiny_pairs", "distance_from_unbiased"]
    assert distance.value == abs(share.value - 0.5) > 0
    assert distance == share.model_copy(
        update={"metric": "distance_from_unbiased", "value": distance.value, "higher_is_better": False}
    )
    assert distance.metric in METRIC_UNITS


# ---- tokenizers --------------------------------------------------------------------------------------------------


def test_a_tokenizer_without_a_usable_pad_token_evaluates_as_with_one(folder):
    loaded, bare, added = (tiny_loaded(layers=1) for _ in range(3))
    bare.tokenizer.pad_token = None
    added.tokenizer.add_special_tokens({"pad_token": "<|pad|>"})
    assert added.tokenizer.pad_token_id == added.view.embedding.num_embeddings, "beyond the embedding"
    for task in ("tiny_choice", "tiny_generate"):
        assert evaluated(bare, folder, task) == evaluated(added, folder, task) == evaluated(loaded, folder, task)
    assert added.tokenizer.pad_token == "<|pad|>", "the model's own tokenizer stays as it is"


def test_a_tokenizer_without_an_end_of_text_takes_the_models_or_is_refused(folder):
    loaded, bare = tiny_loaded(layers=1), tiny_loaded(layers=1)
    bare.tokenizer.pad_token = bare.tokenizer.eos_token = None
    for task in ("tiny_choice", "tiny_generate"):
        assert evaluated(bare, folder, task) == evaluated(loaded, folder, task)
    bare.model.config.eos_token_id = None
    for task in ("tiny_choice", "tiny_rolling", "tiny_generate"):
        with pytest.raises(
            WinaError, match=r"tokenizer of tiny-llama names neither .* set eos_token in its tokenizer_c"
        ):
            evaluated(bare, folder, task)
    bare.tokenizer.bos_token = "<|end|>"
    assert evaluated(bare, folder, "tiny_choice") == evaluated(loaded, folder, "tiny_choice")
    with pytest.raises(WinaError, match=r"tokenizer of tiny-llama names no end of a text, which lm-eval needs here"):
        evaluated(bare, folder, "tiny_generate")
