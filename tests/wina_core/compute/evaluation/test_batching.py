"""Batch sizes: an estimate of what memory allows, halved where it was too much; a fixed one stays as it is."""

import math

import pytest
import torch

from tests.wina_core.compute.evaluation.task_files import spec_of
from tests.wina_core.compute.reporters import RecordingReporter
from tests.wina_core.tiny import tiny_loaded
from wina_core.compute.evaluation import language_model, shared_passes
from wina_core.compute.evaluation.harness import evaluate_task
from wina_core.compute.evaluation.shared_passes import Batches, sequence_bytes
from wina_core.compute.gating import attach
from wina_core.compute.reporter import NullReporter
from wina_core.errors import ran_out_of_memory
from wina_core.specs import MethodSpec
from wina_core.specs.plans import UniformSparsity


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


def test_the_first_batch_is_half_of_the_free_memory(loaded, monkeypatch):
    """Every number of the estimate by hand: 257 logits in 32 bits, and twice as many; keys and values of one layer, two
    heads of 8; eight vectors of 32 and four of 80."""
    monkeypatch.setattr(shared_passes, "_TOKENS", 10**6)
    tokens = 100
    assert sequence_bytes(loaded, tokens) == tokens * 4 * (3 * 257 + 2 * 2 * 8 + 8 * 32 + 4 * 80)
    for sequences, expected in [(10, 10), (0.5, 1), (1000, 12)]:
        free = 2 * sequences * sequence_bytes(loaded, tokens) + 1
        monkeypatch.setattr(shared_passes, "free_bytes", lambda _, free=free: free)
        batches = Batches(loaded, 12, estimated=True)
        assert batches.size(tokens) == batches.largest == expected
    assert Batches(loaded, 500, estimated=False).size(tokens) == 500


def test_a_batch_on_a_processor_is_no_larger_than_is_fast(loaded, monkeypatch):
    monkeypatch.setattr(shared_passes, "free_bytes", lambda _: 10**12)
    batches = Batches(loaded, 64, estimated=True)
    assert [batches.size(tokens) for tokens in (16, 128, 1024, 5000)] == [64, 8, 1, 1]
