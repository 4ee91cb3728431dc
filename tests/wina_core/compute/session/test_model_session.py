"""Models and calibrations that an engine keeps, and the keys that distinguish them."""

from pathlib import Path

import filelock
import pytest
import torch

from tests.wina_core.compute.reporters import RecordingReporter
from tests.wina_core.tiny import tiny_folder, tiny_loaded, tiny_text, tiny_tokens
from wina_core.compute import stages as alone_module
from wina_core.compute.evaluation import original as original_module
from wina_core.compute.gating.tuning import correct_fractions, tuned_calibration
from wina_core.compute.models.loading import LoadedModel, load_model
from wina_core.compute.models.shortcuts import ROTATION_FILE, RotationFile
from wina_core.compute.reporter import NullReporter, Reporter
from wina_core.compute.session import model_session as session_module
from wina_core.compute.session.model_session import Session, calibration_key
from wina_core.engine.server.run_job import run_job
from wina_core.errors import Cancelled, WinaError
from wina_core.files.paths import cache_folder
from wina_core.jobs import EvaluateJob, Partial, PendingRun, RotateJob, RunFailed
from wina_core.model_info import products
from wina_core.model_info.resolve import resolve
from wina_core.records import UnitRecord
from wina_core.specs import (
    DENSE,
    MATRICES_FILE,
    NO_ROTATION,
    ORIGINAL,
    CalibrationSpec,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    RotationSpec,
    RunSpec,
    TextSpec,
)
from wina_core.specs.plans import ResolvedPlan, SparsityPlan, UniformSparsity

WEIGHTS_ONLY = RotationSpec(attention_basis=("qkv",), mlp_basis=("gate_up",))
WINA = MethodSpec(name="wina")


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Locations of the models that were really loaded."""
    calls: list[str] = []

    def counted(source: ModelSource, reporter: Reporter) -> LoadedModel:
        calls.append(Path(source.location).name)
        return load_model(source, reporter)

    monkeypatch.setattr(session_module, "load_model", counted)
    return calls


@pytest.fixture
def models(tmp_path: Path) -> tuple[ModelSource, ...]:
    return tuple(ModelSource(location=str(tiny_folder(tmp_path / name))) for name in "abc")


def test_the_least_recently_used_model_gives_way(models: tuple[ModelSource, ...], loads: list[str]) -> None:
    session = Session(capacity=2)
    for index in (0, 1, 0, 2, 0, 1):
        session.prepare(models[index], NO_ROTATION, NullReporter())
    assert loads == ["a", "b", "c", "b"]


def test_a_rotated_model_is_made_from_a_fresh_load_and_kept_beside_the_plain_one(models, loads, tmp_path):
    session, text = Session(), TextSpec(source=tiny_text(tmp_path))
    rotation = WEIGHTS_ONLY.model_copy(update={"text": text})
    plain = session.prepare(models[0], NO_ROTATION, NullReporter())
    before = {name: tensor.clone() for name, tensor in plain.model.state_dict().items()}
    rotated = session.prepare(models[0], rotation, NullReporter())
    assert rotated.rotation == rotation
    assert rotated.rotation_report is not None
    assert all((tensor == before[name]).all() for name, tensor in plain.model.state_dict().items())
    assert session.prepare(models[0], rotation, NullReporter()) is rotated
    assert session.prepare(models[0], NO_ROTATION, NullReporter()) is plain
    assert loads == ["a", "a"]


@pytest.mark.parametrize("mode", ["none", "global", "per_site"])
def test_the_matrices_of_an_export_rotate_the_original_to_the_same_logits(models, loads, tmp_path, mode):
    text = TextSpec(source=tiny_text(tmp_path), tokens=256, sequence=64)
    rotation = RotationSpec.model_validate({"mode": mode, "text": text})
    session, folder = Session(), tmp_path / "exported"
    session.prepare(models[0], rotation, NullReporter())
    job = RotateJob(model=models[0], rotation=rotation, export_to=str(folder))
    run_job(job, session, lambda _: None, NullReporter())
    assert loads == ["a", "a"], "the plain model is compared with; the rotated one that is held is exported"
    assert RotationFile.model_validate_json((folder / ROTATION_FILE).read_bytes()).matrices == MATRICES_FILE
    with_matrices = rotation.model_copy(update={"matrices": str(folder / MATRICES_FILE)})
    again = session.prepare(models[0], with_matrices, NullReporter())
    exported = session.prepare(ModelSource(location=str(folder)), NO_ROTATION, NullReporter())
    assert again.model(tiny_tokens()).logits.equal(exported.model(tiny_tokens()).logits)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c", "exported", "text.txt"]


def test_a_resolved_source_and_a_plain_one_are_the_same_model(models, loads):
    session = Session()
    first = session.prepare(models[0], NO_ROTATION, NullReporter())
    assert session.prepare(resolve(models[0]), NO_ROTATION, NullReporter()) is first
    assert loads == ["a"]


def test_edited_weights_are_loaded_anew_and_not_taken_for_the_planned_ones(models, loads):
    session, planned = Session(), resolve(models[0])
    session.prepare(models[0], NO_ROTATION, NullReporter())
    weights = Path(models[0].location) / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    session.prepare(models[0], NO_ROTATION, NullReporter())
    assert loads == ["a", "a"]
    with pytest.raises(WinaError, match="have changed since this was set up; open the model again"):
        session.prepare(planned, NO_ROTATION, NullReporter())


def test_the_key_of_a_calibration_depends_on_everything_that_it_is_made_from(tmp_path: Path) -> None:
    loaded = tiny_loaded()
    spec = CalibrationSpec(text=TextSpec(source=tiny_text(tmp_path), tokens=128, sequence=32))

    def key(rotation: RotationSpec = NO_ROTATION, method: MethodSpec = WINA, spec: CalibrationSpec = spec) -> str:
        return calibration_key(loaded, rotation, method, spec)

    longer = CalibrationSpec(text=spec.text.model_copy(update={"tokens": 256}))
    keys = [key(), key(rotation=WEIGHTS_ONLY), key(method=MethodSpec(name="teal")), key(spec=longer)]
    assert key(method=WINA.model_copy(update={"selection": "threshold"})) == keys[0]
    for version in ("BASES_VERSION", "CALIBRATION_VERSION"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(products, version, "another")
            keys.append(key())
    tiny_text(tmp_path, "Another text in the same file. " * 90)
    keys.append(key())
    assert len(set(keys)) == len(keys)


# ---- corrected thresholds --------------------------------------------------------------------------------------------

THRESHOLD = MethodSpec(name="wina", selection="threshold")
HALF = UniformSparsity(sparsity=0.5)


@pytest.fixture
def text(tmp_path: Path) -> TextSpec:
    return TextSpec(source=tiny_text(tmp_path), tokens=128, sequence=32)


@pytest.fixture
def corrected(monkeypatch: pytest.MonkeyPatch) -> list[ResolvedPlan]:
    """The tables whose cuts were really corrected."""
    resolved_plans: list[ResolvedPlan] = []

    def counted(loaded, method, plan, *rest):
        resolved_plans.append(plan)
        return correct_fractions(loaded, method, plan, *rest)

    monkeypatch.setattr(session_module, "correct_fractions", counted)
    return resolved_plans


def test_corrected_thresholds_are_read_from_the_cache_the_second_time(home, text, corrected):
    loaded, spec = tiny_loaded(layers=1), CalibrationSpec(text=text)
    first = Session().gating(loaded, NO_ROTATION, THRESHOLD, HALF, spec, NullReporter())[1]
    assert len(corrected) == 1
    assert first.fractions != corrected[0].fractions
    assert first.targets == corrected[0].targets
    again = Session().gating(loaded, NO_ROTATION, THRESHOLD, HALF, spec, NullReporter())[1]
    assert (again, len(corrected)) == (first, 1)
    (file,) = (home / "cache" / "thresholds").iterdir()
    table = SparsityPlan.uniform(loaded.view.layout, 0.5).model_copy(update={"provenance": "edited"})
    same = Session().gating(loaded, NO_ROTATION, THRESHOLD, table, spec, NullReporter())[1]
    assert same.fractions == first.fractions
    assert len(corrected) == 1, "wherever its numbers came from, it is the same table"

    other_model = tiny_loaded(layers=1, seed=1)
    other_model.source = other_model.source.model_copy(update={"location": "another"})
    changes = [
        (loaded, THRESHOLD, UniformSparsity(sparsity=0.6), spec),
        (loaded, THRESHOLD.model_copy(update={"masks": "shared"}), HALF, spec),
        (loaded, THRESHOLD.model_copy(update={"selection": "statistical"}), HALF, spec),
        (loaded, THRESHOLD, HALF, CalibrationSpec(text=text.model_copy(update={"tokens": 64}))),
        (other_model, THRESHOLD, HALF, spec),
    ]
    for count, (model, method, plan, other) in enumerate(changes, start=2):
        Session().gating(model, NO_ROTATION, method, plan, other, NullReporter())
        assert len(corrected) == count
    assert file in (home / "cache" / "thresholds").iterdir()


def test_tuned_biases_are_read_from_the_cache_the_second_time(home, text, monkeypatch):
    results = []

    def counted(*arguments):
        results.append(tuned_calibration(*arguments))
        return results[-1]

    monkeypatch.setattr(session_module, "tuned_calibration", counted)
    loaded, spec = tiny_loaded(layers=1), CalibrationSpec(text=text)
    for method in (MethodSpec(name="wina", correction="tuned"), THRESHOLD.model_copy(update={"correction": "tuned"})):
        first = Session().gating(loaded, NO_ROTATION, method, HALF, spec, NullReporter())
        again = Session().gating(loaded, NO_ROTATION, method, HALF, spec, NullReporter())
        assert len(results) == 1
        assert again[0].digest == first[0].digest
        assert again[1] == first[1]
        (file,) = (home / "cache" / "tuned").iterdir()
        file.unlink()
        results.clear()
    calibrations = home / "cache" / "calibrations"
    assert len(list(calibrations.iterdir())) == 1, "top k reads none, thresholds are those without biases"
    Session().gating(loaded, NO_ROTATION, THRESHOLD, HALF, spec, NullReporter())
    assert len(list(calibrations.iterdir())) == 1


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"null", b"of another model"])
def test_damaged_corrected_thresholds_are_corrected_again(home, text, corrected, content):
    loaded, spec, reporter = tiny_loaded(layers=1), CalibrationSpec(text=text), RecordingReporter()
    first = Session().gating(loaded, NO_ROTATION, THRESHOLD, HALF, spec, reporter)[1]
    (file,) = (home / "cache" / "thresholds").iterdir()
    other = SparsityPlan.uniform(tiny_loaded(layers=2).view.layout, 0.5).model_dump_json().encode()
    file.write_bytes(other if content == b"of another model" else content)
    assert not reporter.lines
    assert Session().gating(loaded, NO_ROTATION, THRESHOLD, HALF, spec, reporter)[1] == first
    assert len(corrected) == 2
    (warning,) = reporter.lines
    assert warning.startswith("warning: The correction of thresholds is computed again, ")
    assert Session().gating(loaded, NO_ROTATION, THRESHOLD, HALF, spec, NullReporter())[1] == first
    assert len(corrected) == 2, "the file is whole again"


def test_a_folder_that_cannot_be_made_keeps_no_thresholds_and_prevents_none(home: Path, text: TextSpec) -> None:
    (home / "cache").mkdir(parents=True)
    (home / "cache" / "thresholds").touch()
    loaded, spec, reporter = tiny_loaded(layers=1), CalibrationSpec(text=text), RecordingReporter()
    resolved = Session().gating(loaded, NO_ROTATION, THRESHOLD, HALF, spec, reporter)[1]
    assert resolved.fractions != resolved.masks
    while_computing, afterwards = reporter.lines
    assert while_computing.startswith("warning: This could not continue from here if it ended now: ")
    assert afterwards.startswith("warning: The correction of thresholds is not kept for later. ")


@pytest.mark.parametrize(
    ("method", "thresholds", "calibrated"),
    [
        (WINA, "gated", False),
        (MethodSpec(name="dense"), "gated", False),
        (MethodSpec(name="scap"), "gated", True),
        (WINA.model_copy(update={"correction": "mean"}), "gated", True),
        (THRESHOLD, "dense", True),
        (MethodSpec(name="teal", selection="top_p"), "dense", True),
    ],
    ids=lambda each: f"{each.label} {each.selection}" if isinstance(each, MethodSpec) else str(each),
)
def test_top_k_and_dense_thresholds_are_never_corrected(home, text, corrected, method, thresholds, calibrated):
    loaded, spec = tiny_loaded(layers=1), CalibrationSpec.model_validate({"text": text, "thresholds": thresholds})
    plan = UniformSparsity(sparsity=0.3)
    calibration, resolved = Session().gating(loaded, NO_ROTATION, method, plan, spec, NullReporter())
    assert (calibration is not None, resolved.fractions) == (calibrated, resolved.masks)
    assert not corrected
    assert not (home / "cache" / "thresholds").exists()


# ---- references ------------------------------------------------------------------------------------------------------

GLOBAL = RotationSpec(mode="global", attention_basis=("qkv",), mlp_basis=("gate_up",), per_head=False)


@pytest.fixture
def model(tmp_path: Path) -> ModelSource:
    return ModelSource(location=str(tiny_folder(tmp_path / "model")))


@pytest.fixture
def passage(tmp_path: Path) -> TextSpec:
    return TextSpec(source=tiny_text(tmp_path), tokens=256, sequence=64)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The dense passes over a passage, and the models that were loaded, in order, from an empty cache."""
    monkeypatch.setenv("WINA_HOME", str(tmp_path / "home"))
    calls: list[str] = []
    make, load = original_module.make_reference, session_module.load_model
    monkeypatch.setattr(session_module, "make_reference", lambda *given: (calls.append("dense pass"), make(*given))[1])
    monkeypatch.setattr(session_module, "load_model", lambda *given: (calls.append("load"), load(*given))[1])
    return calls


def measured(session: Session, passage: TextSpec, *configurations) -> list[UnitRecord]:
    evaluation = EvaluationSpec(fidelity=None, original=passage, batch_size=4)
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


def test_all_configurations_share_one_dense_pass_and_a_later_engine_makes_none(model, passage, passes):
    none, half = UniformSparsity(sparsity=0.0), UniformSparsity(sparsity=0.5)
    int8 = model.model_copy(update={"quantization": "int8"})
    wina = MethodSpec(name="wina")
    rotated, bits, gated = measured(
        Session(), passage, (model, GLOBAL, DENSE, none), (int8, GLOBAL, DENSE, none), (int8, GLOBAL, wina, half)
    )
    assert passes == ["load", "dense pass", "load", "load"]  # the original, dropped; rotated; rotated in 8 bits
    assert abs(kl(rotated)) < 1e-6
    assert kl(rotated) < kl(bits) < kl(gated)
    assert bits.gated_sparsity == 0.0
    passes.clear()
    (alone,) = measured(Session(), passage, (int8, NO_ROTATION, wina, half))
    assert passes == ["load"]
    assert kl(alone) > kl(bits)


def test_the_original_stays_in_memory_only_if_it_was_there(model, passage, passes):
    session = Session()
    session.reference(model, passage, 4, NullReporter())
    session.prepare(model, NO_ROTATION, NullReporter())
    assert passes == ["load", "dense pass", "load"]
    other = passage.model_copy(update={"tokens": 128})
    session.reference(model, other, 4, NullReporter())
    session.prepare(model, NO_ROTATION, NullReporter())
    assert passes == ["load", "dense pass", "load", "dense pass"]


def test_another_dtype_text_or_weights_have_a_reference_of_their_own(model, passage, passes, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("Another passage, of the same length.\n" * 80, encoding="utf-8")
    copy = ModelSource(location=str(tiny_folder(tmp_path / "copy")))
    changed = ModelSource(location=str(tiny_folder(tmp_path / "changed", dtype=torch.bfloat16)))
    session = Session()
    for source, one in (
        (model, passage),
        (model.model_copy(update={"dtype": "float64"}), passage),
        (model, passage.model_copy(update={"source": str(other)})),
        (changed, passage),
    ):
        session.reference(source, one, 4, NullReporter())
    assert passes.count("dense pass") == 4
    int4 = model.model_copy(update={"quantization": "int4", "device": "cpu"})
    for source in (copy, int4):  # the same files, elsewhere; other bits, another name of the device
        Session().reference(source, passage, 4, NullReporter())
    assert passes.count("dense pass") == 4


def test_a_damaged_file_is_computed_again_with_a_warning(model, passage, passes):
    first = Session().reference(model, passage, 4, NullReporter()).codes(3).clone()
    (file,) = (cache_folder() / "references").glob("*.safetensors")
    content = bytearray(file.read_bytes())
    content[-7] ^= 1
    file.write_bytes(content)
    reporter = RecordingReporter()
    again = Session().reference(model, passage, 4, reporter)
    assert passes.count("dense pass") == 2
    assert torch.equal(again.codes(3), first)
    assert [line for line in reporter.lines if "computed again" in line and "damaged" in line]


def test_an_engine_waits_for_another_that_computes_the_reference_and_can_be_cancelled(
    model, passage, passes, monkeypatch
):
    monkeypatch.setattr(alone_module, "_WAIT_SECONDS", 0.01)
    file = products.reference_file(model, Path(model.location), passage)
    file.parent.mkdir(parents=True)
    reporter = RecordingReporter(after=5)
    with filelock.FileLock(file.with_suffix(".lock")), pytest.raises(Cancelled):
        Session().reference(model, passage, 4, reporter)
    assert {call[3] for call in reporter.calls} == {"another engine computes the log-probabilities of the original"}
    assert passes == []
    Session().reference(model, passage, 4, NullReporter())
    assert passes == ["load", "dense pass"]


def test_a_text_that_takes_too_much_disk_is_refused_with_the_largest_that_fits(model, passage, passes, monkeypatch):
    monkeypatch.setattr(session_module, "MAX_REFERENCE_BYTES", 2 * 257 * 200)
    with pytest.raises(WinaError, match=r"256 tokens and a vocabulary of 257 .* choose at most 192 tokens"):
        Session().reference(model, passage, 4, NullReporter())
    assert passes == [], "the model was not even loaded"


@pytest.mark.parametrize("dtype", ["auto", "bfloat16", "float16"])
def test_the_original_of_a_model_in_16_bits_is_the_stored_weights_in_float32(dtype, passage, passes, tmp_path):
    folder = tiny_folder(tmp_path / "halves", dtype=torch.bfloat16)
    source = ModelSource(location=str(folder), dtype=dtype)
    reference = Session().reference(source, passage, 4, NullReporter())
    widened = session_module.load_model(source.model_copy(update={"dtype": "float32"}), NullReporter())
    with torch.no_grad():
        log = widened.model(reference.tokens).logits.log_softmax(-1)
    likelihoods = log[:, :-1].gather(-1, reference.tokens[:, 1:, None])[..., 0]
    assert torch.allclose(torch.from_numpy(reference.likelihoods), likelihoods, atol=1e-5)
    dense = UniformSparsity(sparsity=0.0)
    (floor,) = measured(Session(), passage, (source, NO_ROTATION, DENSE, dense))
    assert 1e-6 < kl(floor) < 0.1, "the dense run is what 16 bits cost"
    passes.clear()
    Session().reference(source.model_copy(update={"dtype": "float32"}), passage, 4, NullReporter())
    assert passes == [], "one reference for all data types"
