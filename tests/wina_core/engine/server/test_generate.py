"""Answers to a prompt: greedy as transformers decodes, drawn with shared noise, and compared with the dense model."""

import math
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from tests.wina_core.compute.reporters import RecordingReporter
from tests.wina_core.engine.engine_events import Impatient
from tests.wina_core.tiny import tiny_loaded
from wina_core.compute import render_limits
from wina_core.compute.gating import attach
from wina_core.compute.generation.reader import Pieces, choose
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import divergences, log_probabilities
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation import rotate
from wina_core.compute.session.model_session import Session
from wina_core.engine.server.generate import generate
from wina_core.errors import Cancelled, WinaError
from wina_core.jobs import CompletionFinished, Event, GenerateJob, Token
from wina_core.jobs.completion import Completion, first_difference
from wina_core.specs import MethodSpec, ModelSource, RotationSpec
from wina_core.specs.generation import CompletionSpec, SamplingSpec
from wina_core.specs.plans import UniformSparsity

PROMPT = "A sparse input"
WINA = MethodSpec(name="wina")
SPARSE = CompletionSpec(method=WINA, plan=UniformSparsity(sparsity=0.5))


class Held(Session):
    """Has one model, whatever it is asked for."""

    def __init__(self, loaded: LoadedModel) -> None:
        super().__init__()
        self.loaded = loaded

    def prepare(self, *_: object) -> LoadedModel:
        return self.loaded


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    return tiny_loaded()


def job(*configurations: CompletionSpec, **settings: object) -> GenerateJob:
    return GenerateJob.model_validate(
        {
            "model": ModelSource(location="tiny"),
            "prompt": PROMPT,
            "new_tokens": 12,
            "configurations": configurations,
            **settings,
        }
    )


def completions(loaded: LoadedModel, wanted: GenerateJob, reporter: NullReporter | None = None) -> list[Completion]:
    found = [Completion(spec) for spec in wanted.configurations]

    def on_event(event: Event) -> None:
        if isinstance(event, Token):
            found[event.configuration].tokens.append(event)
        elif isinstance(event, CompletionFinished):
            found[event.configuration].ended = event

    with suppress(Cancelled):
        generate(wanted, Held(loaded), on_event, reporter or NullReporter(), "job")
    return found


def greedy(loaded: LoadedModel, length: int = 12) -> list[int]:
    ids = torch.tensor([loaded.tokenizer(PROMPT).input_ids])
    made = loaded.model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=length)
    return made[0, ids.shape[1] :].tolist()


def test_a_dense_answer_is_transformers_own_greedy_one(loaded: LoadedModel) -> None:
    (dense,) = completions(loaded, job(CompletionSpec()), reporter := RecordingReporter())
    assert reporter.stages == [""], "nothing is prepared any more"
    assert list(dense.ids) == greedy(loaded)
    assert dense.ended is not None
    assert (dense.ended.end, dense.ended.prompt_tokens, dense.ended.sparsity) == ("length", len(PROMPT), None)
    assert [token.read for token in dense.tokens] == [len(PROMPT), *[1] * 11]
    assert dense.divergence is None
    assert dense.speed.rate is not None
    assert (dense.speed.dense_rate, dense.speed.speedup) == (None, None)


def test_a_gated_answer_is_what_the_gated_model_decodes_with_its_divergence_from_dense(loaded: LoadedModel) -> None:
    dense, sparse = completions(loaded, job(CompletionSpec(), SPARSE))
    with attach(loaded, WINA, UniformSparsity(sparsity=0.5), kernels=True):
        assert list(sparse.ids) == greedy(loaded)
    assert list(dense.ids) == greedy(loaded)  # and the gates are gone
    assert sparse.ended is not None
    assert sparse.ended.sparsity == pytest.approx(0.5)
    ids = torch.tensor([[*loaded.tokenizer(PROMPT).input_ids, *sparse.ids[:-1]]])
    with torch.no_grad():
        plain = log_probabilities(loaded.model(ids).logits[0, len(PROMPT) - 1 :])
        with attach(loaded, WINA, UniformSparsity(sparsity=0.5)):
            gated = log_probabilities(loaded.model(ids).logits[0, len(PROMPT) - 1 :])
    chosen = torch.tensor(sparse.ids)[:, None]
    expected = divergences(plain, gated).tolist()
    assert [token.divergence for token in sparse.tokens] == pytest.approx(expected, abs=1e-5)
    assert sparse.divergence == pytest.approx(sum(expected) / 12, abs=1e-5)
    for name, table in (("log_probability", gated), ("dense_log_probability", plain)):
        told = [getattr(token, name) for token in sparse.tokens]
        assert told == pytest.approx(table.gather(-1, chosen)[:, 0].tolist(), abs=1e-4)


def test_the_dense_side_takes_turns_with_the_first_gated_one(loaded: LoadedModel) -> None:
    events: list[Event] = []
    more = CompletionSpec(method=MethodSpec(name="teal"), plan=UniformSparsity(sparsity=0.8))
    generate(job(SPARSE, CompletionSpec(), more, new_tokens=3), Held(loaded), events.append, NullReporter(), "job")
    assert [event.configuration for event in events if isinstance(event, Token)] == [1, 0, 1, 0, 1, 0, 2, 2, 2]
    assert [event.configuration for event in events if isinstance(event, CompletionFinished)] == [1, 0, 2]


@pytest.mark.parametrize("sampling", [SamplingSpec(), SamplingSpec(temperature=1.5, top_p=0.9, seed=3)])
def test_an_answer_that_is_taken_up_again_goes_on_as_it_would_have(loaded: LoadedModel, sampling: SamplingSpec) -> None:
    (whole,) = completions(loaded, job(CompletionSpec(), sampling=sampling))
    (rest,) = completions(loaded, job(CompletionSpec(prefix=whole.ids[:5]), sampling=sampling))
    assert rest.ids == whole.ids[5:]
    (none,) = completions(loaded, job(CompletionSpec(prefix=whole.ids), sampling=sampling))
    assert none.tokens == []
    assert none.is_whole


def test_what_is_to_be_stored_comes_with_the_end(loaded: LoadedModel) -> None:
    dense, sparse = completions(loaded, job(CompletionSpec(), SPARSE))
    (rest,) = completions(loaded, job(CompletionSpec(prefix=dense.ids[:5])))
    assert dense.ended is not None
    assert sparse.ended is not None
    assert rest.ended is not None
    assert [token.text for token in sparse.ended.tokens] == [token.text for token in sparse.tokens]
    stored = rest.ended.tokens  # the prefix's text is stored too
    assert [(token.id, token.text) for token in stored] == [(token.id, token.text) for token in dense.tokens]
    assert [token.read for token in stored] == [0] * 5 + [len(PROMPT) + 5] + [1] * 6
    (kept,) = completions(loaded, job(CompletionSpec(), store=False))
    stopped, _ = completions(loaded, job(CompletionSpec(), SPARSE, new_tokens=400), Impatient(80))
    for completion in (kept, stopped):
        assert completion.ended is not None
        assert completion.tokens
        assert completion.ended.tokens == ()


def test_a_rotation_with_shortcuts_is_compared_with_the_model_that_is_not_rotated() -> None:
    plain, rotated = tiny_loaded(dtype=torch.float64), tiny_loaded(dtype=torch.float64)
    spec = RotationSpec(mode="per_site", attention_basis=("qkv",), mlp_basis=("gate_up",))
    rotate(rotated, spec, NullReporter())

    class Two(Held):
        def prepare(self, _: object, rotation: RotationSpec, __: object) -> LoadedModel:
            return plain if rotation.is_identity else rotated

    events: list[Event] = []
    nearly_dense = CompletionSpec(rotation=spec, method=WINA, plan=UniformSparsity(sparsity=0.0))
    generate(job(CompletionSpec(), nearly_dense, new_tokens=4), Two(plain), events.append, NullReporter(), "job")
    tokens = [event for event in events if isinstance(event, Token)]
    assert [token.id for token in tokens if token.configuration == 0] == [
        token.id for token in tokens if token.configuration == 1
    ]
    assert all(token.divergence < 1e-9 for token in tokens if token.divergence is not None)


def test_an_answer_ends_at_an_end_token(loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = greedy(loaded)
    last = next(at for at in range(1, 12) if ids[at] not in ids[:at])
    monkeypatch.setattr(loaded.model.generation_config, "eos_token_id", [ids[last]])
    (dense,) = completions(loaded, job(CompletionSpec()))
    assert list(dense.ids) == ids[: last + 1]
    assert dense.ended is not None
    assert dense.ended.end == "end"


def test_cancelling_tells_how_far_each_side_came(loaded: LoadedModel) -> None:
    dense, sparse = completions(loaded, job(CompletionSpec(), SPARSE, new_tokens=400), Impatient(300))
    assert 0 < len(sparse.tokens) < 400
    assert [completion.ended and completion.ended.end for completion in (dense, sparse)] == ["stopped", "stopped"]
    assert list(dense.ids) == greedy(loaded, len(dense.ids))
    assert not loaded.model._forward_pre_hooks


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"new_tokens": 500}, "14 tokens and 500 new ones are requested, but the model's context has 512"),
        ({"prompt": "x" * 600}, "shorten the prompt"),
        ({"chat": True}, "no chat template"),
        ({"configurations": (CompletionSpec(method=MethodSpec(name="waldo")),)}, 'no method "waldo"'),
    ],
)
def test_what_cannot_be_answered_is_told(loaded: LoadedModel, settings: dict[str, object], message: str) -> None:
    with pytest.raises(WinaError, match=message):
        generate(job(CompletionSpec()).model_copy(update=settings), Held(loaded), lambda _: None, NullReporter(), "job")


def test_a_chat_template_frames_the_prompt_and_may_refuse_it(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaded.tokenizer, "chat_template", "<{{ messages[0]['content'] }}>")
    (dense,) = completions(loaded, job(CompletionSpec(), chat=True))
    assert dense.tokens[0].read == len(PROMPT) + 2
    monkeypatch.setattr(loaded.tokenizer, "chat_template", "{{ raise_exception('no system message') }}")
    with pytest.raises(WinaError, match=r"refuses this prompt \(no system message\)"):
        completions(loaded, job(CompletionSpec(), chat=True))


_LOOP = "{% set l = range(99999)|list %}{% for a in l %}{% for b in l %}{% endfor %}{% endfor %}"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ cycler.__init__.__globals__.os.system('touch canary') }}", "refuses this prompt"),
        ("{% for _ in range(10**9) %}x{% endfor %}", "refuses this prompt .*Range too big"),
        (_LOOP, "takes more than 0.3 seconds of processor time to render; send the prompt as plain text"),
        ("{{ 'a' * 10**10 }}", "takes more than 512 MiB of memory"),
        ("{{ 'a' * 2**21 }}", "adds more than 1,048,576 characters"),
        ("{% for a in range(9) recursive %}{{ loop(range(9)) }}{% endfor %}", "refuses this prompt .*recursion"),
        ("{{ messages[0].missing.attribute }}", "refuses this prompt"),
        ("{% if %}", "refuses this prompt"),
    ],
)
def test_a_hostile_chat_template_ends_in_one_sentence(
    loaded: LoadedModel, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, template: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(render_limits, "SECONDS", 0.3)
    monkeypatch.setattr(loaded.tokenizer, "chat_template", template)
    with pytest.raises(WinaError, match=message):
        completions(loaded, job(CompletionSpec(), chat=True))
    assert not list(tmp_path.iterdir())


def test_pieces_never_show_half_a_character(loaded: LoadedModel) -> None:
    text = "naïve 稀疏 🙂 end"
    ids = loaded.tokenizer(text).input_ids
    pieces = Pieces(loaded.tokenizer)
    added = [pieces.add(token) for token in [*ids, 256]]
    assert "".join(added) == text + "<|end|>"
    assert "\N{REPLACEMENT CHARACTER}" not in "".join(added)


def test_drawing_follows_the_distribution_and_the_nucleus() -> None:
    logs = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    drawn = [choose(logs, SamplingSpec(temperature=1.0, seed=1), position) for position in range(2000)]
    shares = [drawn.count(token) / len(drawn) for token in range(4)]
    assert shares == pytest.approx([0.5, 0.3, 0.15, 0.05], abs=4 * math.sqrt(0.25 / 2000))
    nucleus = SamplingSpec(temperature=1.0, top_p=0.8, seed=1)
    assert {choose(logs, nucleus, position) for position in range(200)} == {0, 1}
    assert drawn[:50] == [choose(logs, SamplingSpec(temperature=1.0, seed=1), position) for position in range(50)]
    assert choose(logs, SamplingSpec(), 0) == 0


def test_the_first_difference_counts_an_answer_that_has_ended() -> None:
    def completion(ids: list[int], end: str | None = None) -> Completion:
        tokens = [
            Token(job_id="", configuration=0, id=each, text="", log_probability=0, read=1, seconds=1) for each in ids
        ]
        ended = end and CompletionFinished(job_id="", configuration=0, end=end, prompt_tokens=1)
        return Completion(CompletionSpec(), tokens, ended or None)

    assert first_difference(completion([1, 2, 3]), completion([1, 5])) == 1
    assert first_difference(completion([1, 2, 3]), completion([1, 2])) is None
    assert first_difference(completion([1, 2, 3]), completion([1, 2], "stopped")) is None
    assert first_difference(completion([1, 2], "end"), completion([1, 2, 3])) == 2
