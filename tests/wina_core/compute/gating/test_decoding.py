"""Decoding through the kernels: the tokens and counts of the masked model, from weights that are held once."""

import pytest
import torch
from wina_kernels import dispatch
from wina_kernels.backends import usable
from wina_kernels.native import abi
from wina_kernels.native.operations import PreparedWeight

from tests.wina_core.compute.generation import PROMPT, generated
from tests.wina_core.tiny import FEW_KINDS, tiny_loaded, tiny_text
from wina_core.compute.calibration import calibrate
from wina_core.compute.gating import attach, decoding
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.quantize import quantize
from wina_core.compute.reporter import NullReporter
from wina_core.specs import CalibrationSpec, MethodSpec, QuantizationSpec, TextSpec
from wina_core.specs.plans import UniformSparsity

HALF = UniformSparsity(sparsity=0.5)
METHODS = {
    "separate": MethodSpec(name="wina"),
    "shared": MethodSpec(name="wina", masks="shared"),
    "teal": MethodSpec(name="teal"),
    "low rank": MethodSpec(name="rsparse", rho=0.8),
    "gate activation": MethodSpec(name="cats"),
}


@pytest.fixture(autouse=True, params=[*usable(torch.device("cpu")), dispatch.DENSE])
def way(request, monkeypatch):
    """The fastest way of multiplying, fixed whatever it is on this machine."""
    monkeypatch.setattr(dispatch, "fastest", lambda *_: request.param)
    return request.param


def decode_step(loaded: LoadedModel) -> torch.Tensor:
    """Logits of a few tokens at once, which the kernels compute."""
    with torch.no_grad():
        return loaded.model(PROMPT[:, :4], use_cache=False).logits


@pytest.mark.parametrize("family", FEW_KINDS)
def test_every_family_decodes_the_tokens_of_the_masked_model(family):
    loaded = tiny_loaded(family)
    with attach(loaded, METHODS["shared"], HALF) as gates:
        expected, logits, counted = generated(loaded, 12), decode_step(loaded), gates.gated_sparsity
    with attach(loaded, METHODS["shared"], HALF, kernels=True) as gates:
        torch.testing.assert_close(decode_step(loaded), logits, rtol=1e-4, atol=1e-4)
        gates.reset_counts()
        assert generated(loaded, 12) == expected
        decode_step(loaded)
        assert gates.gated_sparsity == counted


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("family", ["llama", "phi3"])
def test_every_method_decodes_the_logits_of_the_masked_model(family, method):
    loaded = tiny_loaded(family)
    plan = UniformSparsity(sparsity=0.3)  # which CATS reaches
    with attach(loaded, method, plan):
        expected = decode_step(loaded)
    with attach(loaded, method, plan, kernels=True):
        torch.testing.assert_close(decode_step(loaded), expected, rtol=1e-4, atol=1e-4)


def test_the_kernels_are_asked_once_for_each_input(way, monkeypatch):
    loaded = tiny_loaded("llama")
    calls = []
    owner, name = (PreparedWeight, "top_k") if way == "native" else (decoding, "sparse_linear")
    original = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *args, **kwargs: calls.append(args) or original(*args, **kwargs))
    with attach(loaded, METHODS["shared"], HALF, kernels=True):
        decode_step(loaded)
        assert len(calls) == 4 * len(loaded.view.layers), "q, k, v; o; gate, up; down"
        calls.clear()
        loaded.model(PROMPT, use_cache=False)
        assert not calls, "a prompt is multiplied as ever"


def test_padded_rows_and_a_dense_prefix_are_counted_as_in_the_masked_model():
    loaded = tiny_loaded("llama")
    ids, mask = PROMPT[:, :4].repeat(2, 1), torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])
    counted, logits = [], []
    for kernels in (False, True):
        with attach(loaded, METHODS["separate"], HALF, dense_prefix=0.5, kernels=kernels) as gates:
            logits.append(loaded.model(ids, attention_mask=mask, use_cache=False).logits)
            counted.append({(group.layer, group.names): group.counted() for group in gates._mask_groups})
    assert counted[0] == counted[1]
    torch.testing.assert_close(logits[1], logits[0], rtol=1e-4, atol=1e-4)


def test_weights_are_held_once_and_restored():
    loaded = tiny_loaded("llama")
    linears = [projection.linear for layer in loaded.view.layers for projection in layer.projections.values()]
    before = [(linear.weight, linear.weight.clone(), linear.weight.stride()) for linear in linears]
    with attach(loaded, METHODS["shared"], HALF, kernels=True):
        q, k = (loaded.view.layers[0].projections[name].linear.weight for name in "qk")
        assert q.untyped_storage().data_ptr() == k.untyped_storage().data_ptr()
        storages = {linear.weight.untyped_storage().data_ptr(): linear.weight.untyped_storage() for linear in linears}
        held = sum(storage.nbytes() for storage in storages.values())
        assert held == sum(weight.numel() * weight.element_size() for weight, _, _ in before)
        for linear, (parameter, copy, _) in zip(linears, before, strict=True):
            assert linear.weight is parameter
            assert torch.equal(linear.weight, copy)
            assert linear.weight.stride(0) == 1, "held transposed"
    for linear, (parameter, copy, stride) in zip(linears, before, strict=True):
        assert linear.weight is parameter
        assert torch.equal(linear.weight, copy)
        assert linear.weight.stride() == stride
        assert linear.weight.untyped_storage().nbytes() == copy.untyped_storage().nbytes()


@pytest.mark.parametrize("selection", ["topk", "threshold", "statistical", "top_p", "mixed"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_selection_multiplies_and_counts_as_the_masked_model(selection, dtype, tmp_path):
    loaded = tiny_loaded("llama", dtype=dtype)
    method = MethodSpec(name="wina", masks="shared", selection=selection)
    text = TextSpec(source=tiny_text(tmp_path), tokens=512, sequence=64)
    calibration = calibrate(loaded, method, CalibrationSpec(text=text), NullReporter())
    projections = loaded.view.layers[1].projections
    inputs = {
        name: torch.randn(1, 4, projection.shape[1], generator=torch.Generator().manual_seed(3)).to(dtype)
        for name, projection in projections.items()
    }
    outputs, measured = [], []
    for kernels in (False, True):
        with attach(loaded, method, HALF, calibration, kernels=kernels) as gates:
            outputs.append({name: projections[name].linear(x) for name, x in inputs.items()})
            measured.append(gates.measured())
    for name in projections:
        error, size = (outputs[1][name] - outputs[0][name]).abs().max(), outputs[0][name].abs().max()
        assert error <= 4 * torch.finfo(dtype).eps * size, name  # a bias is added before or after rounding
    assert measured[0] == measured[1]


@pytest.mark.parametrize("broken", ["bind_kernel", "trim_memory"])
def test_an_attachment_that_fails_leaves_the_model_as_it_was(broken, monkeypatch):
    loaded = tiny_loaded("llama")
    linears = [projection.linear for layer in loaded.view.layers for projection in layer.projections.values()]
    strides = [linear.weight.stride() for linear in linears]
    before, calls, original = decode_step(loaded), [], getattr(decoding, broken)

    def fails(*args):
        calls.append(args)
        if len(calls) == 6:
            raise MemoryError
        return original(*args)

    monkeypatch.setattr(decoding, broken, fails)
    with pytest.raises(MemoryError):
        attach(loaded, METHODS["shared"], HALF, kernels=True)
    assert [linear.weight.stride() for linear in linears] == strides
    assert torch.equal(decode_step(loaded), before)


def test_an_input_that_was_overwritten_between_two_calls_is_computed_anew():
    loaded = tiny_loaded("olmo2")  # whose q, k and v read the stream itself
    first, second = (torch.randn(1, 3, 32, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    with attach(loaded, METHODS["shared"], HALF, kernels=True), torch.no_grad():
        expected = loaded.model(inputs_embeds=second.clone(), use_cache=False).logits
        loaded.model(inputs_embeds=first, use_cache=False)
        first.copy_(second)
        torch.testing.assert_close(loaded.model(inputs_embeds=first, use_cache=False).logits, expected)


@pytest.mark.skipif(abi.loaded() is None, reason="the native library is not built here")
@pytest.mark.parametrize(
    ("method", "sparsity"),
    [(METHODS["shared"], 0.5), (METHODS["teal"], 0.4), (MethodSpec(name="wina", selection="threshold"), 0.5),
     (METHODS["shared"], 0.0)],
)  # fmt: skip
@torch.no_grad()
def test_weights_in_planes_are_gated_multiplied_and_counted_as_in_the_masked_model(method, sparsity, tmp_path):
    """The linear layers one by one, as a rounding that moves a score over a boundary changes what follows."""
    loaded = tiny_loaded("llama")
    quantize(loaded, QuantizationSpec(quantizer="planes", bits=12), NullReporter())
    calibration = None
    if method.needs_calibration:
        calibration = calibrate(
            loaded,
            method,
            CalibrationSpec(text=TextSpec(source=tiny_text(tmp_path), tokens=256, sequence=64)),
            NullReporter(),
        )
    plan, results = UniformSparsity(sparsity=sparsity), []
    x = {n: torch.randn(1, 4, n, generator=torch.Generator().manual_seed(n)) for n in (32, 80)}
    for kernels in (False, True):
        with attach(loaded, method, plan, calibration, kernels=kernels) as gates:
            products = [forward.linear(x[forward.linear.in_features]) for forward in gates.forwards]
            assert all((group.decode is not None) == kernels for forward in gates.forwards for group in forward.groups)
        counts = [(group.counted(), group.planes_read()) for forward in gates.forwards for group in forward.groups]
        results.append((products, counts, gates.bits_read))
    assert results[0][1:] == results[1][1:]
    for masked, multiplied in zip(results[0][0], results[1][0], strict=True):
        torch.testing.assert_close(multiplied, masked, rtol=1e-3, atol=1e-3)
