"""Decoding through the kernels: the tokens and counts of the masked model, from weights that are held once."""

import pytest
import torch

from tests.wina_core.tiny import FAMILY_SETTINGS, tiny_loaded
from wina_core.gating import attach
from wina_core.gating.decoding import SideBySide
from wina_core.models.loading import LoadedModel
from wina_core.plan import UniformSparsity
from wina_core.quantization import quantize
from wina_core.reporting import Silent
from wina_core.specs import MethodSpec

HALF = UniformSparsity(sparsity=0.5)
PROMPT = torch.tensor([[72, 101, 108, 108, 111, 32, 119, 111, 114, 108, 100, 33]])
METHODS = {
    "separate": MethodSpec(name="wina"),
    "shared": MethodSpec(name="wina", masks="shared"),
    "teal": MethodSpec(name="teal"),
    "low rank": MethodSpec(name="rsparse", rho=0.8),
}


@pytest.fixture(autouse=True)
def _own_choices(tmp_path, monkeypatch):
    monkeypatch.setenv("WINA_HOME", str(tmp_path))


def generate(loaded: LoadedModel, tokens: int = 12) -> list[int]:
    out = loaded.model.generate(
        PROMPT,
        attention_mask=torch.ones_like(PROMPT),
        do_sample=False,
        min_new_tokens=tokens,
        max_new_tokens=tokens,
        pad_token_id=0,
    )
    return out[0].tolist()


def decode_step(loaded: LoadedModel) -> torch.Tensor:
    """Logits of a few tokens at once, which the kernels compute."""
    with torch.no_grad():
        return loaded.model(PROMPT[:, :4], use_cache=False).logits


@pytest.mark.parametrize("family", FAMILY_SETTINGS)
def test_every_family_decodes_the_tokens_of_the_masked_model(family):
    loaded = tiny_loaded(family)
    with attach(loaded, METHODS["shared"], HALF) as gates:
        expected, logits, counted = generate(loaded), decode_step(loaded), gates.counted_sparsity
    with attach(loaded, METHODS["shared"], HALF, kernels=True) as gates:
        torch.testing.assert_close(decode_step(loaded), logits, rtol=1e-4, atol=1e-4)
        gates.reset_counts()
        assert generate(loaded) == expected
        decode_step(loaded)
        assert gates.counted_sparsity == counted


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("family", ["llama", "phi3"])
def test_every_method_decodes_the_logits_of_the_masked_model(family, method):
    loaded = tiny_loaded(family)
    with attach(loaded, method, HALF):
        expected = decode_step(loaded)
    with attach(loaded, method, HALF, kernels=True):
        torch.testing.assert_close(decode_step(loaded), expected, rtol=1e-4, atol=1e-4)


def test_the_kernels_are_asked(monkeypatch):
    loaded = tiny_loaded("llama")
    asked = []
    own = SideBySide.shared_product
    monkeypatch.setattr(SideBySide, "shared_product", lambda *args: asked.append(args) or own(*args))
    with attach(loaded, METHODS["shared"], HALF, kernels=True):
        decode_step(loaded)
        layers = len(loaded.view.layers)
        assert len(asked) == 5 * layers, "q, k, v and gate, up of each layer"
        asked.clear()
        loaded.model(PROMPT, use_cache=False)
        assert not asked, "a prompt is multiplied as ever"


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


def test_quantized_layers_decode_as_ever():
    loaded = tiny_loaded("llama")
    quantize(loaded, "int8", Silent())
    with attach(loaded, METHODS["shared"], HALF):
        expected = generate(loaded)
    with attach(loaded, METHODS["shared"], HALF, kernels=True):
        assert generate(loaded) == expected
