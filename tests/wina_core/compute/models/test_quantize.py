"""Quantized models: what is stored, what is dequantized, and gating, calibrating and evaluating on top."""

import subprocess
import sys

import pytest
import torch
from torch.nn import functional
from wina_kernels.planes import in_planes
from wina_kernels.weights import QuantizedWeight

from tests.wina_core.compute.reporters import RecordingReporter
from tests.wina_core.tiny import tiny_folder, tiny_loaded, tiny_model, tiny_text, tiny_tokenizer, tiny_tokens
from wina_core.compute.calibration import calibrate
from wina_core.compute.gating import attach
from wina_core.compute.models.architectures import view
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.quantize import gated_linears, int4, int8, quantize
from wina_core.compute.models.quantized_linear import QuantizedLinear, form_of, tensors_of, weight_of
from wina_core.compute.models.shape import summarize
from wina_core.compute.reporter import NullReporter
from wina_core.compute.session.cache import bases_file
from wina_core.compute.session.model_session import Session
from wina_core.engine.server.run_job import run_job
from wina_core.errors import Cancelled, WinaError
from wina_core.jobs import InspectJob, Result, RotateJob
from wina_core.specs import (
    CalibrationSpec,
    MethodSpec,
    ModelSource,
    RotationSpec,
    TextSpec,
)
from wina_core.specs.plans import UniformSparsity

WINA = MethodSpec(name="wina")
HALF = UniformSparsity(sparsity=0.5)
BITS = ("int8", "int4")


def quantized(bits: str, family: str = "llama", dtype: torch.dtype = torch.float32) -> LoadedModel:
    loaded = tiny_loaded(family, dtype=dtype)
    quantize(loaded, bits, NullReporter())
    return loaded


def logits(loaded: LoadedModel) -> torch.Tensor:
    with torch.no_grad():
        return loaded.model(tiny_tokens()).logits


@pytest.mark.parametrize(("quantizer", "steps"), [(int8, 127), (int4, 7)])
def test_every_weight_is_off_by_at_most_half_a_step(quantizer, steps):
    linear = torch.nn.Linear(128, 48).requires_grad_(False)
    weight = linear.weight.clone()
    groups = weight.view(48, -1, 128 if quantizer is int8 else 64)
    step = groups.abs().amax(-1, keepdim=True) / steps
    error = (quantizer(linear).weight.view_as(groups) - groups).abs()
    # HQQ shifts its grid for a lower sparse error: a few weights at the ends of the range may be clipped further.
    assert (error <= step * 0.51).float().mean() > (0.999 if quantizer is int8 else 0.9)
    assert (error <= step * 2.5).all()


@pytest.mark.parametrize(
    "method",
    [
        MethodSpec(name="scap", variant="own"),
        WINA.model_copy(update={"selection": "threshold", "correction": "mean"}),
    ],
)
def test_replaced_inputs_are_not_read(tmp_path, method):
    loaded = quantized("int8")
    text = TextSpec(source=tiny_text(tmp_path), tokens=256, sequence=64)
    calibration = calibrate(loaded, method, CalibrationSpec(text=text), NullReporter())
    with attach(loaded, method, HALF, calibration) as gates:
        logits(loaded)
        assert gates.bits_read < 0.8 * gates.bits_held, "norms of so small a model take some"


@pytest.mark.parametrize("planes", [False, True])
def test_tensors_and_forms_that_fit_no_weight_are_refused(planes):
    weight = torch.randn(16, 8)
    codes = torch.randint(0, 16, (16, 8), dtype=torch.uint8)
    made = in_planes(weight, 3) if planes else QuantizedWeight.of(codes, torch.rand(2, 8), torch.rand(2, 8), 8, 4)
    form, tensors = form_of(made), tensors_of(made)
    assert torch.equal(weight_of(form, tensors).dequantize(), made.dequantize())
    broken = [
        (form, {**tensors, name: change(tensor)})
        for name, tensor in tensors.items()
        for change in (lambda rows: rows[:0], lambda rows: rows[..., :1], lambda rows: rows.long())
    ]
    broken += [(form, {**tensors, "scale": tensors["scale"] * value}) for value in (torch.nan, torch.inf)]
    broken += [({**form, name: value}, tensors) for name in form for value in (0, -1, 10**9, "x", [0.1])]
    for other, tensors in broken:
        with pytest.raises((KeyError, TypeError, ValueError)):
            weight_of(other, tensors)


@pytest.mark.parametrize(("bits", "family"), [("int8", "llama"), ("int4", "phi3"), ("int8", "opt")])
def test_the_gated_matrices_are_quantized_and_nothing_else(bits, family):
    before = tiny_loaded(family)
    loaded = quantized(bits, family)
    gated = gated_linears(loaded.view)
    assert {type(linear) for linear in gated.values()} == {QuantizedLinear}
    plain_parameters = {name: tensor for name, tensor in loaded.model.named_parameters() if "bias" not in name}
    originals = dict(before.model.named_parameters())
    assert all(torch.equal(tensor, originals[name]) for name, tensor in plain_parameters.items())
    assert loaded.view.embedding.weight.dtype == loaded.view.head.weight.dtype == torch.float32
    assert (type(loaded.view.head), loaded.view.layout) == (torch.nn.Linear, before.view.layout)


@pytest.mark.parametrize(("bits", "bytes_a_weight", "deviation"), [("int8", 1.0, 0.05), ("int4", 0.5, 1)])
def test_memory_is_that_of_what_is_stored(bits, bytes_a_weight, deviation):
    plain, loaded = tiny_loaded(), quantized(bits)
    assert deviation / 20 < loaded.quantization_report.logits_deviation < deviation
    assert loaded.quantization_report.kl > 0
    before, after = summarize(plain), summarize(loaded)
    assert (after.parameters, after.gated_parameters) == (before.parameters, before.gated_parameters)
    scales = 0
    for layer in plain.view.layers:
        for projection in layer.projections.values():
            m, n = projection.shape
            scales += 4 * m if bits == "int8" else 2 * 4 * m * n // (32 if n == 32 else 16)
    saved = before.gated_parameters * (4 - bytes_a_weight) - scales
    assert before.memory_bytes - after.memory_bytes == saved
    assert after.quantization == loaded.quantization_report


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("family", ["llama", "phi3"])
def test_a_gated_output_is_the_dequantized_matrix_times_the_masked_input(bits, family):
    """Fused layers too, whose rows have masks of their own."""
    loaded = quantized(bits, family)
    projections = loaded.view.layers[1].projections
    weights = {name: projection.weight for name, projection in projections.items()}
    with attach(loaded, WINA, HALF):
        for name, projection in projections.items():
            weight = weights[name]
            x = torch.randn(5, weight.shape[1], generator=torch.Generator().manual_seed(3))
            kept_inputs = (x.abs() * weight.norm(dim=0)).topk(weight.shape[1] // 2).indices
            masked = torch.zeros_like(x).scatter(-1, kept_inputs, x.gather(-1, kept_inputs))
            y = projection.linear(x[None])[0][..., projection.rows]
            expected = functional.linear(masked, weight, projection.bias)
            torch.testing.assert_close(y, expected, rtol=1e-3, atol=1e-3, msg=name)  # inputs have 14 bits there


@pytest.mark.parametrize(("bits", "dtype"), [("int8", torch.bfloat16), ("int4", torch.float16)])
def test_sixteen_bit_models_are_quantized_in_their_dtype(bits, dtype):
    loaded = quantized(bits, dtype=dtype)
    assert loaded.view.layers[0].projections["q"].weight.dtype == dtype
    assert logits(loaded).dtype == dtype
    assert logits(loaded).isfinite().all()


@pytest.mark.parametrize("bits", BITS)
def test_a_few_tokens_are_multiplied_without_dequantizing_the_matrix(bits, monkeypatch):
    linear = quantized(bits).view.layers[0].projections["q"].linear
    few, many = torch.randn(8, 32), torch.randn(9, 32)
    expected = functional.linear(few, linear.weight, linear.bias)
    with monkeypatch.context() as patched:
        patched.setattr(QuantizedLinear, "weight", property(lambda _: pytest.fail("dequantized")))
        torch.testing.assert_close(linear(few), expected, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(linear(many), functional.linear(many, linear.weight, linear.bias))
    assert linear(few.requires_grad_()).requires_grad, "gradients flow through as through any layer"


def test_a_matrix_that_four_bits_cannot_group_is_named_and_nothing_is_touched():
    model = tiny_model(intermediate_size=72)
    loaded = LoadedModel(ModelSource(location="tiny"), model, tiny_tokenizer(), view(model))
    with pytest.raises(WinaError, match="down of layer 0 has 72 inputs and 32 outputs"):
        quantize(loaded, "int4", NullReporter())
    assert {type(linear) for linear in gated_linears(loaded.view).values()} == {torch.nn.Linear}
    quantize(loaded, "int8", NullReporter())


def test_float64_is_refused_and_quantizing_can_be_cancelled():
    with pytest.raises(WinaError, match="does not work on float64 weights; load the model in float32"):
        quantized("int8", dtype=torch.float64)
    with pytest.raises(Cancelled):
        quantize(tiny_loaded(), "int8", RecordingReporter(after=3))


def test_the_session_rotates_before_it_quantizes(tmp_path):
    folder = str(tiny_folder(tmp_path / "model"))
    rotation = RotationSpec(attention_basis=("qkv",), mlp_basis=("gate_up",))
    session = Session(capacity=3)
    rotated = session.prepare(ModelSource(location=folder), rotation, NullReporter())
    both = session.prepare(ModelSource(location=folder, quantization="int8"), rotation, NullReporter())
    assert both is not rotated
    for name, projection in both.view.layers[0].projections.items():
        exact = rotated.view.layers[0].projections[name].weight
        assert float((projection.weight - exact).norm() / exact.norm()) < 0.01
    report = both.rotation_report
    assert report.logits_deviation < 1e-4 < report.quantization.logits_deviation
    assert rotated.rotation_report.quantization is None
    assert bases_file(both, rotation) == bases_file(rotated, rotation)
    folded = rotation.model_copy(update={"fold_norms": "all"})
    assert bases_file(both, folded) == bases_file(both, rotation)


def test_inspecting_reports_and_exporting_is_refused(tmp_path):
    source = ModelSource(location=str(tiny_folder(tmp_path / "model")), quantization="int8")
    events: list[object] = []
    run_job(InspectJob(model=source), Session(), events.append, NullReporter())
    (result,) = [event.value for event in events if isinstance(event, Result)]
    assert result.quantization.quantization == "int8"
    rotation = RotationSpec(attention_basis=("qkv",), mlp_basis=("gate_up",))
    with pytest.raises(WinaError, match="quantized model is not exported"):
        run_job(
            RotateJob(model=source, rotation=rotation, export_to=str(tmp_path / "out")),
            Session(),
            print,
            NullReporter(),
        )


@pytest.mark.nightly
def test_the_libraries_are_imported_only_to_quantize(tmp_path):
    code = (
        "import sys; from wina_core.compute.models import quantize\n"
        "import wina_core.compute.generation.reader\n"
        "print({'transformers.cache_utils', 'torchao', 'hqq'} & set(sys.modules))\n"
        "from wina_core.compute.models import loading, shape\n"
        "from wina_core.compute.reporter import NullReporter\n"
        "from wina_core.specs import ModelSource\n"
        f"source = ModelSource(location={str(tiny_folder(tmp_path))!r})\n"
        "for function in (shape.empty_model, loading.load_model):\n"
        "    function(source, NullReporter())\n"
        "print({'torchao', 'hqq'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "{'transformers.cache_utils'}\nset()\n"
