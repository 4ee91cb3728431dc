"""lm-eval in-process: the stock numbers, progress, cancel, and tasks that cannot be run."""

from pathlib import Path

import pytest
import torch
from lm_eval import simple_evaluate
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager

from tests.wina_core.compute.evaluation.task_files import CHOICE, spec_of
from tests.wina_core.compute.reporters import RecordingReporter
from tests.wina_core.tiny import tiny_loaded
from wina_core.compute.evaluation import tasks
from wina_core.compute.evaluation.harness import evaluate_task
from wina_core.compute.evaluation.tasks import check_tasks
from wina_core.compute.gating import attach
from wina_core.compute.reporter import NullReporter
from wina_core.errors import Cancelled, WinaError
from wina_core.specs import MethodSpec
from wina_core.specs.plans import UniformSparsity


def stock(loaded, folder: Path, name: str, monkeypatch, softmax_dtype=None, **arguments) -> dict:
    """The same task by lm-eval alone, on a plain HFLM."""
    monkeypatch.chdir(folder)
    lm = HFLM(pretrained=loaded.model, tokenizer=loaded.tokenizer, batch_size=4, softmax_dtype=softmax_dtype)
    manager = TaskManager(include_defaults=False, include_path=str(folder))
    return simple_evaluate(lm, tasks=[name], task_manager=manager, **arguments)["results"][name]


@pytest.mark.parametrize("arguments", [{}, {"num_fewshot": 2, "limit": 5}])
def test_dense_multiple_choice_is_lm_evals_own_number(folder, monkeypatch, arguments):
    loaded = tiny_loaded(layers=1)
    expected = stock(loaded, folder, "tiny_choice", monkeypatch, **arguments)
    monkeypatch.chdir("/")
    records = evaluate_task(loaded, None, spec_of(folder, "tiny_choice", **arguments), "tiny_choice", NullReporter())
    assert [record.metric for record in records] == ["acc", "acc_norm"]
    for record in records:
        assert record.value == expected[f"{record.metric},none"]
        assert record.stderr == expected[f"{record.metric}_stderr,none"]
        assert (record.task, record.n) == ("tiny_choice", arguments.get("limit", 12))
        assert record.higher_is_better is True


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


def test_what_is_no_task_is_refused(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(tasks, "_stock_paths", lambda: {"hellaswag": "hellaswag/hellaswag.yaml", "piqa": "piqa.yaml"})
    (tmp_path / "choice.yaml").write_text(CHOICE + "no_such_setting: 1\n", encoding="utf-8")
    for of, name, message in (
        (folder, "tiny_chioce", "did you mean tiny_choice"),
        (folder, "helaswag", "did you mean hellaswag"),
        (folder, "zzzzzz", "check its name"),
        (tmp_path / "nowhere", "tiny_choice", "nowhere does not exist"),
        (tmp_path, "tiny_choice", "cannot be built"),
    ):
        with pytest.raises(WinaError, match=message):
            check_tasks(spec_of(of, "tiny_choice", name))
