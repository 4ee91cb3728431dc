"""The rotation `auto`: it is measured on text that no basis was computed from, taken only where it is better than none,
and kept."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.wina_core.compute.reporters import RecordingReporter
from tests.wina_core.tiny import tiny_loaded, tiny_model, tiny_tokenizer
from wina_core.compute.gating import attach
from wina_core.compute.models.text_tokens import read_other_tokens, read_tokens
from wina_core.compute.reporter import NullReporter
from wina_core.compute.session import auto_rotation
from wina_core.compute.session.cache import bases_file
from wina_core.compute.session.model_session import Session
from wina_core.engine.server.run_job import run_job
from wina_core.errors import Cancelled, WinaError
from wina_core.jobs import RotateJob
from wina_core.records import RotationReport
from wina_core.specs import AUTO_ROTATION, NO_ROTATION, MethodSpec, ModelSource, RotationSpec, TextSpec
from wina_core.specs.plans import UniformSparsity

SHARED = MethodSpec(name="wina", masks="shared")


@pytest.fixture
def auto(tmp_path: Path) -> RotationSpec:
    """Reads 1,024 tokens, and is compared on others of a text of random letters."""
    letters = torch.randint(32, 123, (6000,), generator=torch.Generator().manual_seed(1))
    file = tmp_path / "text.txt"
    file.write_text("".join(map(chr, letters.tolist())))
    text = TextSpec(source=str(file), tokens=1024, sequence=256)
    return AUTO_ROTATION.model_copy(update={"text": text})


def _source(folder: Path, embedding: torch.Tensor) -> ModelSource:
    """A model of two layers whose stream is all but its embedding, and whose values do nothing."""
    model: Any = tiny_model(layers=2)
    with torch.no_grad():
        model.model.embed_tokens.weight.copy_(embedding)
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.zero_()
            layer.self_attn.o_proj.bias.zero_()
            layer.mlp.down_proj.weight.mul_(1e-2)
            layer.mlp.down_proj.bias.zero_()
            layer.input_layernorm.weight.fill_(1.0)
            layer.post_attention_layernorm.weight.fill_(1.0)
    model.save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return ModelSource(location=str(folder))


@pytest.fixture
def sparse(tmp_path: Path) -> ModelSource:
    """Each input has few entries that are not zero, so that any rotation spreads them."""
    generator = torch.Generator().manual_seed(2)
    embedding = torch.randn(257, 32, generator=generator)
    is_active = torch.rand(257, 32, generator=generator).argsort(1) < 6
    return _source(tmp_path / "sparse", embedding * is_active)


@pytest.fixture
def low_rank(tmp_path: Path) -> ModelSource:
    """All inputs lie in 8 of 32 dimensions, along no axis."""
    generator = torch.Generator().manual_seed(3)
    basis = torch.linalg.qr(torch.randn(32, 32, generator=generator)).Q
    return _source(tmp_path / "low", torch.randn(257, 8, generator=generator) @ basis[:8])


def _report(session: Session, source: ModelSource, rotation: RotationSpec, **given: Any) -> RotationReport:
    events: list[Any] = []
    run_job(RotateJob(model=source, rotation=rotation, **given), session, events.append, NullReporter())
    value = events[-1].value
    assert isinstance(value, RotationReport)
    return value


def test_auto_takes_no_rotation_where_each_is_worse(sparse, auto):
    session = Session()
    report = _report(session, sparse, auto)
    assert report.choice is not None
    none, heads, *rotated = report.choice.candidates
    assert report.choice.rotation == NO_ROTATION
    assert heads.rotation.mode == "none"
    assert rotated
    assert all(candidate.change > candidate.change_stderr for candidate in rotated)
    assert "No rotation" in report.choice.verdict
    assert report.rotation == auto.content_hash()
    assert report.residuals
    prepared = session.prepare(sparse, auto, NullReporter())
    assert prepared.rotation is None
    assert prepared is session.prepare(sparse, NO_ROTATION, NullReporter())
    assert none.kl > 0


def test_auto_takes_the_best_rotation_and_it_is_the_best_on_other_text(low_rank, auto):
    session = Session()
    choice = session.choice(low_rank, auto, NullReporter())
    assert choice.rotation.mode == "global"
    assert min(candidate.kl for candidate in choice.candidates) == pytest.approx(
        choice.candidates[choice.chosen].kl, rel=0.5
    )
    assert f"Chosen of {len(choice.candidates)} candidates" in choice.verdict
    loaded = session.prepare(low_rank, auto, NullReporter())
    assert loaded.rotation == choice.rotation
    unseen = torch.randint(32, 123, (4, 64), generator=torch.Generator().manual_seed(9))
    measured = {}
    for rotation in (NO_ROTATION, choice.rotation):
        model = session.prepare(low_rank, rotation, NullReporter())
        with torch.no_grad():
            dense = model.model(unseen).logits.log_softmax(-1)
            with attach(model, SHARED, UniformSparsity(sparsity=0.5)):
                gated = model.model(unseen).logits.log_softmax(-1)
        measured[rotation] = float((dense.exp() * (dense - gated)).sum(-1).mean())
    assert measured[choice.rotation] < measured[NO_ROTATION] / 2


def test_a_choice_is_kept_and_needs_no_model_again(low_rank, auto, monkeypatch):
    choice = Session().choice(low_rank, auto, NullReporter())

    def refuse(*_: object) -> None:
        raise AssertionError("compared again")

    monkeypatch.setattr(auto_rotation, "compare_rotations", refuse)
    monkeypatch.setattr("wina_core.compute.session.model_session.load_model", refuse)
    assert Session().choice(low_rank, auto, NullReporter()) == choice
    monkeypatch.undo()
    other = Session().choice(low_rank, auto.model_copy(update={"sparsity": 0.65}), NullReporter())
    assert other.candidates[0].kl > choice.candidates[0].kl


def test_the_bases_of_the_chosen_rotation_are_kept_for_rotating(low_rank, auto):
    session = Session()
    choice = session.choice(low_rank, auto, NullReporter())
    plain = session.prepare(low_rank, NO_ROTATION, NullReporter())
    has_bases = {candidate.rotation: bases_file(plain, candidate.rotation).exists() for candidate in choice.candidates}
    assert [rotation for rotation, exists in has_bases.items() if exists] == [choice.rotation]
    reporter = RecordingReporter()
    assert session.prepare(low_rank, auto, reporter).rotation == choice.rotation
    assert "moments of inputs" not in reporter.stages


class _CancelledInComparison(RecordingReporter):
    """Cancel once the comparison has begun."""

    def progress(self, done: float, total: float | None, unit: str, metric: str = "") -> None:
        super().progress(done, total, unit, metric)
        if self.stages[-1] == "comparison of rotations":
            self.after = 0


def test_a_cancelled_choice_continues_without_computing_its_bases_again(low_rank, auto):
    other = auto.model_copy(update={"sparsity": 0.5001})  # another choice with the same numbers
    whole = Session().choice(low_rank, other, NullReporter())
    for reporter in (RecordingReporter(after=0), _CancelledInComparison()):
        with pytest.raises(Cancelled):
            Session().choice(low_rank, auto, reporter)
    continued = RecordingReporter()
    choice = Session().choice(low_rank, auto, continued)
    assert choice.candidates[-1].kl == pytest.approx(whole.candidates[-1].kl, rel=1e-3)
    assert "comparison of rotations" in continued.stages
    assert "moments of inputs" not in continued.stages


def test_a_given_rotation_is_compared_with_none_and_remarked_on_where_it_does_harm(sparse, low_rank, auto):
    rotation = RotationSpec(attention_basis=("activations",), mlp_basis=("activations",), text=auto.text)
    harm = _report(Session(), sparse, rotation).choice
    help_ = _report(Session(), low_rank, rotation).choice
    assert harm is not None
    assert help_ is not None
    assert [candidate.rotation for candidate in harm.candidates] == [NO_ROTATION, rotation]
    assert (harm.harms, help_.harms) == (True, False)
    assert harm.verdict.startswith("Worse than no rotation")
    assert help_.verdict.startswith("Better than no rotation")


def test_a_model_that_memory_does_not_hold_is_chosen_for_as_any(low_rank, auto, monkeypatch):
    in_memory = Session().choice(low_rank, auto.model_copy(update={"sparsity": 0.5001}), NullReporter())
    monkeypatch.setenv("WINA_MEMORY", "100K")
    session = Session()
    choice = session.choice(low_rank, auto, NullReporter())
    assert choice.rotation == in_memory.rotation
    assert [candidate.kl for candidate in choice.candidates] == pytest.approx(
        [candidate.kl for candidate in in_memory.candidates], rel=1e-5
    )
    assert session.prepare(low_rank, auto, NullReporter()).view.mapped is not None


def test_an_objective_adds_the_best_refined(low_rank, auto):
    refining = auto.model_copy(update={"objective": "error", "steps": 4})
    choice = Session().choice(low_rank, refining, NullReporter())
    last = choice.candidates[-1].rotation
    assert (last.objective, last.steps, last.text) == ("error", 4, auto.text)
    assert len(choice.candidates) == 6


def test_compared_rows_share_no_token_with_those_of_the_bases(tmp_path):
    tokenizer = tiny_loaded().tokenizer
    file = tmp_path / "numbered.txt"
    file.write_text("".join(chr(0x4E00 + index) for index in range(1000)))  # three tokens each, all different
    read, other = (
        TextSpec(source=str(file), tokens=1200, sequence=300),
        TextSpec(source=str(file), tokens=900, sequence=90),
    )
    seen = {tuple(row) for row in read_tokens(read, tokenizer).view(-1, 3).tolist()}
    rows = read_other_tokens(other, [read], tokenizer)
    assert rows.shape == (10, 90)
    assert not seen & {tuple(row) for row in rows.view(-1, 3).tolist()}
    with pytest.raises(WinaError, match="longer text"):
        read_other_tokens(other.model_copy(update={"tokens": 2700}), [read], tokenizer)


def test_a_text_too_short_for_a_comparison_rotates_with_a_warning(low_rank, tmp_path):
    file = tmp_path / "short.txt"
    file.write_text("abcdefgh" * 130)
    rotation = RotationSpec(text=TextSpec(source=str(file), tokens=1024, sequence=256))
    reporter, events = RecordingReporter(), list[Any]()
    run_job(RotateJob(model=low_rank, rotation=rotation), Session(), events.append, reporter)
    assert events[-1].value.choice is None
    assert any("not compared" in line for line in reporter.lines)
