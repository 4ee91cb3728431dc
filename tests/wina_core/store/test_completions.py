"""Completions of prompts in the results database."""

import pytest

from tests.wina_core.samples import ENVIRONMENT, completion
from wina_core.errors import WinaError
from wina_core.jobs import CompletionFinished, Done, GenerateJob
from wina_core.records import Environment
from wina_core.records.completions import CompletionRecord
from wina_core.store import Recorder, Store

GATED, DENSE = completion(), completion(None)
ELSEWHERE = Environment(device="cuda", hardware="a GPU", versions={})


def job(*records: CompletionRecord) -> GenerateJob:
    point = records[0].point
    return GenerateJob(
        model=point.model,
        prompt=point.prompt,
        new_tokens=point.new_tokens,
        configurations=tuple(record.point.configuration for record in records),
    )


def finished(record: CompletionRecord, configuration: int = 0) -> CompletionFinished:
    return CompletionFinished(
        job_id="1",
        configuration=configuration,
        **record.model_dump(include={"end", "prompt_tokens", "sparsity", "tokens"}),
    )


def test_a_finished_completion_is_stored_with_all_that_shows_it_again(store: Store) -> None:
    recorder = Recorder(store, job(DENSE, GATED), ENVIRONMENT)
    recorder.record(finished(GATED, 1).model_copy(update={"tokens": ()}))
    assert store.completions() == []
    recorder.record(finished(GATED, 1))
    recorder.record(finished(DENSE))
    recorder.record(Done(job_id="1"))
    dense, gated = store.completions()
    assert (gated.configuration, gated.prompt, gated.tokens) == ("wina 50 %", "def median(data):", 20)
    assert (gated.tokens_per_second, gated.dense_tokens_per_second, gated.speedup) == (100.0, 50.0, 2.0)
    assert (gated.first_token_seconds, gated.divergence, gated.sparsity) == (0.01, 0.25, 0.49)
    assert (dense.speedup, dense.divergence, dense.hardware) == (None, None, "a processor")
    stored = store.completion(gated.id)
    assert (stored.record, stored.dense) == (GATED, DENSE)
    assert store.completion(dense.id).dense is None


def test_the_same_completion_is_stored_once_for_each_environment_and_a_stopped_one_replaces_no_whole_one(
    store: Store,
) -> None:
    stopped = GATED.model_copy(update={"end": "stopped", "tokens": GATED.tokens[:17]})
    for record in (stopped, GATED, stopped, GATED.model_copy(update={"environment": ELSEWHERE})):
        store.record_completion(record)
    assert [(row.hardware, row.end, row.tokens) for row in store.completions()] == [
        ("a GPU", "length", 20),
        ("a processor", "length", 20),
    ]
    store.record_completion(GATED)
    assert store.completions()[0].hardware == "a processor"  # the latest comes first


def test_completions_are_searched_by_all_words_and_listed_in_pairs(store: Store) -> None:
    other = completion(0.7, prompt="The capital of 100% France_", text="Paris")
    for record in (DENSE, GATED, other, completion(None, prompt="alone")):
        store.record_completion(record)
    assert [row.prompt for row in store.completions("MEDIAN wina")] == [GATED.point.prompt]
    assert [row.configuration for row in store.completions("100% paris")] == ["wina 70 %"]
    assert store.completions("e_n") == []
    assert [row.configuration for row in store.completions(pairs=True)] == ["dense", "wina 70 %", "wina 50 %"]
    assert len(store.completions(limit=2)) == 2


def test_a_dense_completion_is_deleted_with_the_last_one_beside_it(store: Store) -> None:
    for record in (DENSE, GATED, completion(0.7), completion(None, prompt="alone")):
        store.record_completion(record)
    ids = {row.configuration: row.id for row in store.completions("median")}
    store.delete_completions([ids["wina 50 %"]])
    assert len(store.completions("median")) == 2
    store.delete_completions([ids["wina 70 %"]])
    assert [row.prompt for row in store.completions()] == ["alone"]
    with pytest.raises(WinaError, match="No completion 99 is stored"):
        store.delete_completions([99])
    with pytest.raises(WinaError, match="No completion 99 is stored"):
        store.completion(99)
