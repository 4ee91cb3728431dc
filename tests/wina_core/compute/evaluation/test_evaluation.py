"""lm-eval in-process: the stock numbers, progress, cancel, and tasks that cannot be run."""

import json
import math
import sys
from pathlib import Path

import pytest
import torch
from lm_eval import simple_evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

from tests.wina_core.compute.evaluation.task_files import LIKELIHOOD, consent, spec_of, write_rows, write_tasks
from tests.wina_core.compute.reporters import RecordingReporter
from tests.wina_core.tiny import tiny_folder, tiny_loaded
from wina_core.analysis.comparison.compare_tasks import aggregate
from wina_core.compute.evaluation import language_model, shared_passes
from wina_core.compute.evaluation.harness import evaluate_task
from wina_core.compute.evaluation.shared_passes import Batches
from wina_core.compute.gating import attach
from wina_core.compute.models.loading import LoadedModel, load_model
from wina_core.compute.reporter import NullReporter
from wina_core.errors import Cancelled, WinaError, ran_out_of_memory
from wina_core.files.hardware import MEMORY_VARIABLE
from wina_core.records import METRIC_UNITS, MetricRecord, SampleRecord
from wina_core.specs import EvaluationSpec, MethodSpec, ModelSource, TaskSpec
from wina_core.specs.plans import UniformSparsity


def stock(loaded, folder: Path, name: str, monkeypatch, softmax_dtype=None, **arguments) -> dict:
    """The same task by lm-eval alone, on a plain HFLM."""
    monkeypatch.chdir(folder)
    lm = HFLM(pretrained=loaded.model, tokenizer=loaded.tokenizer, batch_size=4, softmax_dtype=softmax_dtype)
    manager = TaskManager(include_defaults=False, include_path=str(folder))
    return simple_evaluate(lm, tasks=[name], task_manager=manager, **arguments)["results"][name]


CHAT = (
    "{% for message in messages %}<{{ message.role }}> {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant> {% endif %}"
)


def with_template(template: str):
    loaded = tiny_loaded(layers=1)
    loaded.tokenizer.chat_template = template
    return loaded


@pytest.mark.parametrize("task", ["tiny_choice", "tiny_generate"])
def test_within_the_chat_template_numbers_are_lm_evals_own(folder, monkeypatch, task):
    loaded, shots = with_template(CHAT), {"num_fewshot": 2, "limit": 4}
    expected = stock(loaded, folder, task, monkeypatch, apply_chat_template=True, **shots)
    spec = spec_of(folder, task, chat_template=True, **shots)
    records = evaluate_task(loaded, None, spec, task, NullReporter())
    plain = evaluate_task(loaded, None, spec.model_copy(update={"chat_template": False}), task, NullReporter())
    assert {record.metric: record.value for record in records} == {
        name.removesuffix(",none"): value
        for name, value in expected.items()
        if "," in name and "stderr" not in name and not isinstance(value, str)
    }
    assert {record.prompt_hash for record in records}.isdisjoint(record.prompt_hash for record in plain)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("", "has no chat template; evaluate the tasks without one"),
        ("{{ raise_exception('only tools') }}", "refuses this prompt .only tools.; evaluate tiny_choice without it"),
        ("{{ 'a' * 3000000 }}", "adds more than 1,048,576 characters; evaluate tiny_choice without it"),
        ("{{ ''.__class__.__mro__ }}", "The chat template refuses this prompt .*unsafe"),
    ],
)
def test_a_chat_template_that_fails_is_one_sentence(folder, template, message):
    loaded = with_template(template)
    with pytest.raises(WinaError, match=message):
        evaluate_task(loaded, None, spec_of(folder, "tiny_choice", chat_template=True), "tiny_choice", NullReporter())


def test_likelihoods_of_16_bit_models_are_summed_in_32_bits(folder, monkeypatch):
    loaded = tiny_loaded(dtype=torch.bfloat16, layers=1)
    rounded, expected = (
        stock(loaded, folder, "tiny_rolling", monkeypatch, dtype, bootstrap_iters=0) for dtype in (None, "float32")
    )
    (record,) = evaluate_task(loaded, None, spec_of(folder, "tiny_rolling"), "tiny_rolling", NullReporter())
    assert record.value == expected["bits_per_byte,none"] != rounded["bits_per_byte,none"]


def test_padding_is_not_counted(folder):
    """Counted inputs are those of the real tokens: the batch size, which decides the padding, does not matter."""
    loaded = tiny_loaded(layers=1)
    seen = []
    for batch_size in (1, 12):
        with attach(loaded, MethodSpec(name="wina"), UniformSparsity(sparsity=0.5), dense_prefix=0.25) as gates:
            spec = spec_of(folder, "tiny_choice").model_copy(update={"batch_size": batch_size})
            evaluate_task(loaded, gates, spec, "tiny_choice", NullReporter())
            seen.append((gates.gated_sparsity, [group.counted()[1] for group in gates._mask_groups]))
    assert seen[0] == seen[1]
    assert 0.3 < seen[0][0] < 0.4


@pytest.mark.parametrize(("name", "total"), [("tiny_choice", 36), ("tiny_rolling", 3), ("tiny_generate", 12)])
def test_progress_counts_requests_up_to_the_total(folder, name, total):
    recorder = RecordingReporter()
    evaluate_task(tiny_loaded(layers=1), None, spec_of(folder, name), name, recorder)
    done = [call[0] for call in recorder.calls]
    assert len(done) > 1
    assert done == sorted(done)
    assert recorder.calls[-1] == (pytest.approx(total), total, "requests", name)


@pytest.mark.parametrize("name", ["tiny_choice", "tiny_generate"])
def test_cancel_is_asked_for_before_every_forward_pass_and_leaves_no_trace(folder, name):
    loaded = tiny_loaded(layers=1)
    passes = []
    loaded.model.register_forward_hook(lambda *_: passes.append(1))
    patient = RecordingReporter()
    evaluate_task(loaded, None, spec_of(folder, name), name, patient)
    needed, checks = len(passes), patient.checks
    assert checks > needed
    passes.clear()
    with attach(loaded, MethodSpec(name="teal"), UniformSparsity(sparsity=0.0)):
        with pytest.raises(Cancelled):
            evaluate_task(loaded, None, spec_of(folder, name), name, RecordingReporter(checks - 1))
        assert 0 < len(passes) < needed
    assert not loaded.model._forward_pre_hooks


def test_cancel_works_while_requests_are_tokenized(folder):
    loaded = tiny_loaded(layers=1)
    loaded.model.register_forward_pre_hook(lambda *_: pytest.fail("ran the model"))
    with pytest.raises(Cancelled):
        evaluate_task(loaded, None, spec_of(folder, "tiny_choice"), "tiny_choice", RecordingReporter(after=5))


# ---- models that memory does not hold --------------------------------------------------------------------------------

ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="memory is given back on Linux alone")


@pytest.fixture
def spec(tmp_path):
    return spec_of(write_tasks(tmp_path), "tiny_choice", "tiny_rolling", "tiny_generate", batch_size=2)


@pytest.fixture
def source(tmp_path):
    return ModelSource(location=str(tiny_folder(tmp_path / "model")))


def measured(
    loaded: LoadedModel, spec: EvaluationSpec, task: str, sparsity: float
) -> tuple[tuple[MetricRecord, ...], list[SampleRecord], list[tuple[int, int]]]:
    """Metrics, the scores of every document, and the counts of the gates."""
    samples: list[SampleRecord] = []
    with attach(loaded, MethodSpec(name="wina"), UniformSparsity(sparsity=sparsity)) as gates:
        metrics = evaluate_task(loaded, gates, spec, task, NullReporter(), samples)
        counts = [group.counted() for forward in gates.forwards for group in forward.groups]
    return metrics, samples, counts


@ON_LINUX
@pytest.mark.parametrize("task", ["tiny_choice", "tiny_rolling", "tiny_generate"])
def test_scores_and_counts_are_those_of_a_model_in_memory(spec, source, task, monkeypatch):
    expected = measured(load_model(source, NullReporter()), spec, task, 0.5)
    monkeypatch.setenv(MEMORY_VARIABLE, "1M")
    assert measured(load_model(source, NullReporter()), spec, task, 0.5) == expected


@ON_LINUX
def test_all_batches_pass_a_layer_before_the_next(spec, source, monkeypatch):
    monkeypatch.setenv(MEMORY_VARIABLE, "1M")
    loaded = load_model(source, NullReporter())
    called: list[int] = []
    for layer in loaded.view.layers:
        mlp = layer.mlp[0]  # which nothing replaces on the way in and out
        mlp.register_forward_hook(lambda *_, index=layer.index: called.append(index))
    evaluate_task(loaded, None, spec, "tiny_choice", NullReporter())
    assert called == sorted(called)
    assert len(called) > 2 * len(loaded.view.layers), "several batches"


# ---- batch sizes -----------------------------------------------------------------------------------------------------


@pytest.fixture
def loaded():
    return tiny_loaded(layers=1)


def holding(loaded, most: int, error: Exception) -> list[int]:
    """Lets the model take so many sequences at once; the sizes of the batches that it was given."""
    sizes: list[int] = []

    def check(_model, arguments, named):
        sizes.append(len(arguments[0] if arguments else named["input_ids"]))
        if sizes[-1] > most:
            raise error

    loaded.model.register_forward_pre_hook(check, with_kwargs=True)
    return sizes


@pytest.mark.parametrize(
    ("task", "error"), [("tiny_choice", torch.OutOfMemoryError("CUDA out of memory")), ("tiny_generate", MemoryError())]
)
def test_a_task_is_repeated_with_half_the_batch_until_it_fits(folder, loaded, monkeypatch, task, error):
    monkeypatch.setattr(shared_passes, "MAX_AUTO_BATCH", 4)
    monkeypatch.setattr(shared_passes, "_TOKENS", 10**6)
    sizes = holding(loaded, 3, error)
    logs = RecordingReporter()
    with attach(loaded, MethodSpec(name="wina"), UniformSparsity(sparsity=0.5)) as gates:
        records = evaluate_task(loaded, gates, spec_of(folder, task, batch_size="auto"), task, logs)
        seen = [group.counted()[1] for group in gates._mask_groups]
        assert records == evaluate_task(loaded, gates, spec_of(folder, task, batch_size=2), task, NullReporter())
        assert [group.counted()[1] for group in gates._mask_groups] == seen, (
            "only what was measured in the end is counted"
        )
    assert sizes[0] == 4
    assert max(sizes[1:]) == 2
    assert logs.lines == [
        f"warning: {task}: memory ran out at 4 sequences at once; trying 2.",
        f"info: {task}: at most 2 sequences at once.",
    ]


@pytest.mark.parametrize(("batch_size", "tried"), [(8, [8]), ("auto", [4, 2, 1])])
def test_a_fixed_batch_fails_and_so_does_a_single_sequence(folder, loaded, monkeypatch, batch_size, tried):
    monkeypatch.setattr(shared_passes, "MAX_AUTO_BATCH", 4)
    sizes = holding(loaded, 0, MemoryError())
    with pytest.raises(MemoryError):
        evaluate_task(
            loaded, None, spec_of(folder, "tiny_choice", batch_size=batch_size), "tiny_choice", NullReporter()
        )
    assert sizes == tried


def test_other_errors_are_not_taken_for_it(folder, loaded):
    sizes = holding(loaded, 0, RuntimeError("shapes do not fit"))
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        evaluate_task(loaded, None, spec_of(folder, "tiny_choice", batch_size="auto"), "tiny_choice", NullReporter())
    assert len(sizes) == 1
    with pytest.raises(RuntimeError) as raised:
        torch.empty(2**60)
    assert ran_out_of_memory(raised.value)


def test_logits_are_made_at_scored_positions_alone(folder, loaded):
    """Of a large vocabulary, those of all positions would take most of the memory and of the time."""
    made, read = [], []
    loaded.model.lm_head.register_forward_hook(lambda *call: made.append(call[2].shape[:2]))
    loaded.model.model.register_forward_pre_hook(
        lambda *call: read.append(call[2]["input_ids"].shape), with_kwargs=True
    )
    evaluate_task(loaded, None, spec_of(folder, "tiny_likelihood", batch_size=1), "tiny_likelihood", NullReporter())
    assert all(made_row[1] == min(made_row[1], read_row[1]) for made_row, read_row in zip(made, read, strict=True))
    assert sum(map(math.prod, made)) < sum(map(math.prod, read)), "of long questions"


def test_rows_that_end_with_the_id_of_the_padding_are_scored_whole():
    spans = language_model._scored_positions([([5, 6, 7], 2), ([5, 6, 7], 1), ([5, 0], 1), ([5, 0, 0], 1), ([8, 0], 0)])
    assert spans[language_model._key([5, 6, 7, 0, 0])] == (1, 3)
    assert spans[language_model._key([5])] is None, "one and two zeros may be of the row"
    assert spans[language_model._key([8, 0, 0])] == (0, 2)


def test_a_batch_on_a_processor_is_no_larger_than_is_fast(loaded, monkeypatch):
    monkeypatch.setattr(shared_passes, "free_bytes", lambda _: 10**12)
    batches = Batches(loaded, 64, estimated=True)
    assert [batches.size(tokens) for tokens in (16, 128, 1024, 5000)] == [64, 8, 1, 1]


# ---- records beside the numbers --------------------------------------------------------------------------------------

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
def groups(tmp_path_factory):
    path = write_tasks(tmp_path_factory.mktemp("tasks"))
    for name, text in {"group.yaml": GROUP, "pairs.yaml": PAIRS, "pairs.py": PROCESS}.items():
        (path / name).write_text(text, encoding="utf-8")
    write_rows(path / "pairs.jsonl", [{"more": f"They are {word}.", "less": f"We are {word}."} for word in "abcdefg"])
    return path


def evaluated(loaded, groups, task, samples=None, reporter=None, **fields) -> dict[tuple[str, str], MetricRecord]:
    spec = spec_of(groups, *fields.pop("tasks", (task,)), **fields)
    code = consent(groups)
    records = evaluate_task(loaded, None, spec, task, reporter or NullReporter(), samples, task_code=code)
    return {(record.task, record.metric): record for record in records}


def test_equal_prompts_have_equal_hashes_and_others_do_not(loaded, groups):
    def prompts(**fields) -> str:
        return evaluated(loaded, groups, "tiny_choice", **fields)["tiny_choice", "acc"].prompt_hash

    likelihood = evaluated(loaded, groups, "tiny_likelihood")["tiny_likelihood", "acc"]
    assert (likelihood.version, likelihood.num_fewshot, likelihood.truncated) == ("2.5", 0, 0)
    assert prompts() == prompts(batch_size=7)
    few = TaskSpec(name="tiny_choice", num_fewshot=1)
    different = [prompts(), prompts(limit=11), prompts(tasks=(few,)), prompts(tasks=(few,), seed=5)]
    assert len(set(different)) == 4
    assert evaluated(loaded, groups, "tiny_choice", tasks=(few,))["tiny_choice", "acc"].num_fewshot == 1


def test_a_groups_members_have_their_own_and_its_aggregates_none(loaded, groups):
    records = evaluated(loaded, groups, "tiny_group")
    assert records.keys() == {
        ("tiny_choice", "acc"),
        ("tiny_choice", "acc_norm"),
        ("tiny_generate", "exact_match"),
        ("tiny_group", "acc"),
    }
    alone = evaluated(loaded, groups, "tiny_choice")["tiny_choice", "acc"]
    assert records["tiny_choice", "acc"] == alone
    assert records["tiny_generate", "exact_match"].prompt_hash not in (None, alone.prompt_hash)
    group = records["tiny_group", "acc"]
    assert group.value == alone.value
    assert (group.version, group.num_fewshot, group.prompt_hash, group.truncated) == (None, None, None, None)


@pytest.mark.parametrize("task", ["tiny_choice", "tiny_generate", "tiny_rolling"])
def test_prompts_that_lose_their_beginning_are_counted_and_reported(groups, task):
    """The tiny tokenizer has one token a byte."""
    loaded, window = tiny_loaded(layers=1), 24 if task == "tiny_generate" else 18
    loaded.model.config.max_position_embeddings = window
    docs = [json.loads(line) for line in (groups / "choice.jsonl").read_text(encoding="utf-8").splitlines()]
    requests = [(doc["question"], " " + choice) for doc in docs for choice in doc["choices"]]
    expected = {
        "tiny_choice": sum(len(question + answer) > window + 1 for question, answer in requests),
        "tiny_generate": sum(len(doc["question"]) > window - 12 for doc in docs),
        "tiny_rolling": 0,
    }[task]
    logs = RecordingReporter()
    records = evaluated(loaded, groups, task, reporter=logs)
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


def test_what_cannot_fit_into_the_window_at_all_is_refused(groups, tmp_path):
    loaded = tiny_loaded(layers=1)
    loaded.model.config.max_position_embeddings = 12
    with pytest.raises(WinaError, match=r'"tiny_generate" has 12 tokens generated, but the model\'s window has 12;'):
        evaluated(loaded, groups, "tiny_generate")
    loaded.model.config.max_position_embeddings = 5
    with pytest.raises(WinaError, match=r"' ranks' is, which has 6 tokens where 1 to 5 fit"):
        evaluated(loaded, groups, "tiny_choice")
    write_tasks(tmp_path)
    (tmp_path / "likelihood.yaml").write_text(
        LIKELIHOOD.replace(" {{choices[0]}}", "{{question[:0]}}"), encoding="utf-8"
    )
    with pytest.raises(WinaError, match="'' is, which has 0 tokens where 1 to 512 fit"):
        evaluated(tiny_loaded(layers=1), tmp_path, "tiny_likelihood")


# ---- samples -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["tiny_group", "tiny_likelihood", "tiny_rolling", "tiny_pairs"])
def test_documents_add_up_to_the_reported_metrics_to_the_last_digit(loaded, groups, task):
    samples: list[SampleRecord] = []
    with attach(loaded, MethodSpec(name="wina"), UniformSparsity(sparsity=0.5)):
        records = evaluated(loaded, groups, task, samples)
        assert evaluated(loaded, groups, task) == records, "keeping samples changes no number"
    documents = {name: [sample.doc for sample in samples if sample.task == name] for name, _ in records}
    for (name, metric), record in records.items():
        if name == "tiny_group" or metric == "distance_from_unbiased":
            continue
        assert documents[name] == list(range(record.n))
        scores = [sample.scores[metric] for sample in samples if sample.task == name]
        assert aggregate(metric, *map(sum, zip(*scores, strict=True))) == record.value


def test_documents_store_the_target_and_the_response(loaded, groups):
    def first(task: str) -> SampleRecord:
        samples: list[SampleRecord] = []
        evaluated(loaded, groups, task, samples)
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


def test_documents_from_a_number_on_keep_their_numbers_and_scores(loaded, groups):
    every, some = [], []
    evaluated(loaded, groups, "tiny_choice", every, batch_size=1)
    later = TaskSpec(name="tiny_choice", first=5, limit=4)
    records = evaluated(loaded, groups, "tiny_choice", some, tasks=(later,), batch_size=1)
    assert [sample.doc for sample in some] == [5, 6, 7, 8]
    assert some == every[5:9]
    assert records["tiny_choice", "acc"].n == 4
    whole = evaluated(loaded, groups, "tiny_choice", tasks=(TaskSpec(name="tiny_choice", first=9),))
    assert whole["tiny_choice", "acc"].n == 3
    with pytest.raises(WinaError, match='"tiny_choice" has 12 documents, so none is left from number 12 on'):
        evaluated(loaded, groups, "tiny_choice", tasks=(TaskSpec(name="tiny_choice", first=12),))


def test_stereotypes_have_their_distance_from_none(loaded, groups):
    records = evaluated(loaded, groups, "tiny_pairs")
    share = records["tiny_pairs", "pct_stereotype"]
    distance = records["tiny_pairs", "distance_from_unbiased"]
    assert distance.value == abs(share.value - 0.5) > 0
    assert distance == share.model_copy(
        update={"metric": "distance_from_unbiased", "value": distance.value, "higher_is_better": False}
    )
    assert distance.metric in METRIC_UNITS


# ---- tokenizers --------------------------------------------------------------------------------------------------


def test_a_tokenizer_without_a_usable_pad_token_evaluates_as_with_one(groups):
    loaded, bare, added = (tiny_loaded(layers=1) for _ in range(3))
    bare.tokenizer.pad_token = None
    added.tokenizer.add_special_tokens({"pad_token": "<|pad|>"})
    assert added.tokenizer.pad_token_id == added.view.embedding.num_embeddings, "beyond the embedding"
    for task in ("tiny_choice", "tiny_generate"):
        assert evaluated(bare, groups, task) == evaluated(added, groups, task) == evaluated(loaded, groups, task)
    assert added.tokenizer.pad_token == "<|pad|>", "the model's own tokenizer stays as it is"


def test_a_tokenizer_without_an_end_of_text_takes_the_models_or_is_refused(groups):
    loaded, bare = tiny_loaded(layers=1), tiny_loaded(layers=1)
    bare.tokenizer.pad_token = bare.tokenizer.eos_token = None
    for task in ("tiny_choice", "tiny_generate"):
        assert evaluated(bare, groups, task) == evaluated(loaded, groups, task)
    bare.model.config.eos_token_id = None
    for task in ("tiny_choice", "tiny_rolling", "tiny_generate"):
        with pytest.raises(
            WinaError, match=r"tokenizer of tiny-llama names neither .* set eos_token in its tokenizer_c"
        ):
            evaluated(bare, groups, task)
    bare.tokenizer.bos_token = "<|end|>"
    assert evaluated(bare, groups, "tiny_choice") == evaluated(loaded, groups, "tiny_choice")
    with pytest.raises(WinaError, match=r"tokenizer of tiny-llama names no end of a text, which lm-eval needs here"):
        evaluated(bare, groups, "tiny_generate")
