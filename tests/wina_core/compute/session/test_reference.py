"""The reference of a model on a text: one dense pass for all configurations, ever."""

from pathlib import Path

import filelock
import pytest
import torch

from tests.wina_core.compute.reporters import RecordingReporter
from tests.wina_core.tiny import tiny_folder, tiny_text
from wina_core.compute import stages as alone_module
from wina_core.compute.evaluation import original as original_module
from wina_core.compute.reporter import NullReporter
from wina_core.compute.session import model_session as session_module
from wina_core.compute.session.model_session import Session
from wina_core.engine.server.run_job import run_job
from wina_core.errors import Cancelled, WinaError
from wina_core.files.paths import cache_folder
from wina_core.jobs import EvaluateJob, Partial, PendingRun, RunFailed
from wina_core.model_info import products
from wina_core.records import UnitRecord
from wina_core.specs import (
    DENSE,
    NO_ROTATION,
    ORIGINAL,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    RotationSpec,
    RunSpec,
    TextSpec,
)
from wina_core.specs.plans import UniformSparsity

GLOBAL = RotationSpec(mode="global", attention_basis=("qkv",), mlp_basis=("gate_up",), per_head=False)


@pytest.fixture
def model(tmp_path: Path) -> ModelSource:
    return ModelSource(location=str(tiny_folder(tmp_path / "model")))


@pytest.fixture
def text(tmp_path: Path) -> TextSpec:
    return TextSpec(source=tiny_text(tmp_path), tokens=256, sequence=64)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The dense passes over a text, and the models that were loaded, in order, from an empty cache."""
    monkeypatch.setenv("WINA_HOME", str(tmp_path / "home"))
    calls: list[str] = []
    make, load = original_module.make_reference, session_module.load_model
    monkeypatch.setattr(session_module, "make_reference", lambda *given: (calls.append("dense pass"), make(*given))[1])
    monkeypatch.setattr(session_module, "load_model", lambda *given: (calls.append("load"), load(*given))[1])
    return calls


def measured(session: Session, text: TextSpec, *configurations) -> list[UnitRecord]:
    evaluation = EvaluationSpec(fidelity=None, original=text, batch_size=4)
    runs = [
        RunSpec(model=source, rotation=rotation, method=method, plan=plan, evaluation=evaluation)
        for source, rotation, method, plan in configurations
    ]
    events: list = []
    job = EvaluateJob(runs=tuple(PendingRun(spec=run, units=(ORIGINAL,)) for run in runs))
    run_job(job, session, events.append, NullReporter())
    assert not [event.error for event in events if isinstance(event, RunFailed)]
    return [event.unit for event in events if isinstance(event, Partial)]


def kl(unit: UnitRecord) -> float:
    return next(metric.value for metric in unit.metrics if metric.metric == "kl")


def test_all_configurations_share_one_dense_pass_and_a_later_engine_makes_none(model, text, passes):
    none, half = UniformSparsity(sparsity=0.0), UniformSparsity(sparsity=0.5)
    int8 = model.model_copy(update={"quantization": "int8"})
    wina = MethodSpec(name="wina")
    rotated, bits, gated = measured(
        Session(), text, (model, GLOBAL, DENSE, none), (int8, GLOBAL, DENSE, none), (int8, GLOBAL, wina, half)
    )
    assert passes == ["load", "dense pass", "load", "load"]  # the original, dropped; rotated; rotated in 8 bits
    assert abs(kl(rotated)) < 1e-6
    assert kl(rotated) < kl(bits) < kl(gated)
    assert bits.gated_sparsity == 0.0
    passes.clear()
    (alone,) = measured(Session(), text, (int8, NO_ROTATION, wina, half))
    assert passes == ["load"]
    assert kl(alone) > kl(bits)


def test_the_original_stays_in_memory_only_if_it_was_there(model, text, passes):
    session = Session()
    session.reference(model, text, 4, NullReporter())
    session.prepare(model, NO_ROTATION, NullReporter())
    assert passes == ["load", "dense pass", "load"]
    other = text.model_copy(update={"tokens": 128})
    session.reference(model, other, 4, NullReporter())
    session.prepare(model, NO_ROTATION, NullReporter())
    assert passes == ["load", "dense pass", "load", "dense pass"]


def test_another_dtype_text_or_weights_have_a_reference_of_their_own(model, text, passes, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("Another text, of the same length.\n" * 80, encoding="utf-8")
    copy = ModelSource(location=str(tiny_folder(tmp_path / "copy")))
    changed = ModelSource(location=str(tiny_folder(tmp_path / "changed", dtype=torch.bfloat16)))
    session = Session()
    for source, one in (
        (model, text),
        (model.model_copy(update={"dtype": "float64"}), text),
        (model, text.model_copy(update={"source": str(other)})),
        (changed, text),
    ):
        session.reference(source, one, 4, NullReporter())
    assert passes.count("dense pass") == 4
    int4 = model.model_copy(update={"quantization": "int4", "device": "cpu"})
    for source in (copy, int4):  # the same files, elsewhere; other bits, another name of the device
        Session().reference(source, text, 4, NullReporter())
    assert passes.count("dense pass") == 4


def test_a_damaged_file_is_computed_again_with_a_warning(model, text, passes):
    first = Session().reference(model, text, 4, NullReporter()).codes(3).clone()
    (file,) = (cache_folder() / "references").glob("*.safetensors")
    content = bytearray(file.read_bytes())
    content[-7] ^= 1
    file.write_bytes(content)
    reporter = RecordingReporter()
    again = Session().reference(model, text, 4, reporter)
    assert passes.count("dense pass") == 2
    assert torch.equal(again.codes(3), first)
    assert [line for line in reporter.lines if "computed again" in line and "damaged" in line]


def test_an_engine_waits_for_another_that_computes_the_reference_and_can_be_cancelled(model, text, passes, monkeypatch):
    monkeypatch.setattr(alone_module, "_WAIT_SECONDS", 0.01)
    file = products.reference_file(model, Path(model.location), text)
    file.parent.mkdir(parents=True)
    reporter = RecordingReporter(after=5)
    with filelock.FileLock(file.with_suffix(".lock")), pytest.raises(Cancelled):
        Session().reference(model, text, 4, reporter)
    assert {call[3] for call in reporter.calls} == {"another engine computes the log-probabilities of the original"}
    assert passes == []
    Session().reference(model, text, 4, NullReporter())
    assert passes == ["load", "dense pass"]


def test_a_text_that_takes_too_much_disk_is_refused_with_the_largest_that_fits(model, text, passes, monkeypatch):
    monkeypatch.setattr(session_module, "MAX_REFERENCE_BYTES", 2 * 257 * 200)
    with pytest.raises(WinaError, match=r"256 tokens and a vocabulary of 257 .* choose at most 192 tokens"):
        Session().reference(model, text, 4, NullReporter())
    assert passes == [], "the model was not even loaded"


@pytest.mark.parametrize("dtype", ["auto", "bfloat16", "float16"])
def test_the_original_of_a_model_in_16_bits_is_the_stored_weights_in_float32(dtype, text, passes, tmp_path):
    folder = tiny_folder(tmp_path / "halves", dtype=torch.bfloat16)
    source = ModelSource(location=str(folder), dtype=dtype)
    reference = Session().reference(source, text, 4, NullReporter())
    widened = session_module.load_model(source.model_copy(update={"dtype": "float32"}), NullReporter())
    with torch.no_grad():
        log = widened.model(reference.tokens).logits.log_softmax(-1)
    likelihoods = log[:, :-1].gather(-1, reference.tokens[:, 1:, None])[..., 0]
    assert torch.allclose(torch.from_numpy(reference.likelihoods), likelihoods, atol=1e-5)
    dense = UniformSparsity(sparsity=0.0)
    (floor,) = measured(Session(), text, (source, NO_ROTATION, DENSE, dense))
    assert 1e-6 < kl(floor) < 0.1, "the dense run is what 16 bits cost"
    passes.clear()
    Session().reference(source.model_copy(update={"dtype": "float32"}), text, 4, NullReporter())
    assert passes == [], "one reference for all data types"
