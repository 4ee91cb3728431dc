"""Calls of a gated model as other programs make them: moved, differentiated, from threads, compiled, copied."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch
from torch import Tensor
from torch.nn.functional import linear as linear_of

from tests.wina_core.tiny import tiny_loaded, tiny_tokens
from wina_core.compute.gating import attach
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.quantize import quantize
from wina_core.compute.models.quantized_linear import QuantizedLinear
from wina_core.compute.reporter import NullReporter
from wina_core.errors import WinaError
from wina_core.specs import MethodSpec, QuantizationSpec
from wina_core.specs.plans import UniformSparsity

WINA = MethodSpec(name="wina")
HALF = UniformSparsity(sparsity=0.5)
RTN = QuantizationSpec(quantizer="rtn", bits=4, group=16)
PLANES = QuantizationSpec(quantizer="planes", bits=6)
PADDED = torch.arange(12) < torch.tensor([[0], [5]])


def loaded_in(
    quantization: QuantizationSpec | None, dtype: torch.dtype = torch.float32, layers: int = 3
) -> LoadedModel:
    loaded = tiny_loaded(layers=layers)
    if quantization is not None:
        quantize(loaded, quantization, NullReporter())
    loaded.model.to(dtype)
    return loaded


def logits(loaded: LoadedModel, ids: Tensor) -> Tensor:
    with torch.no_grad():
        return loaded.model(ids, use_cache=False).logits


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("quantization", [RTN, PLANES], ids=["rtn", "planes"])
def test_quantized_weights_are_the_same_after_a_move_to_another_data_type(quantization, dtype):
    loaded = loaded_in(quantization)
    linears = [module for module in loaded.model.modules() if isinstance(module, QuantizedLinear)]
    before, stored = [linear.weight.to(dtype) for linear in linears], linears[0].weight_t.bytes
    loaded.model.to(dtype)
    assert linears[0].weight_t.bytes == stored
    assert all(torch.equal(linear.weight, weight) for linear, weight in zip(linears, before, strict=True))
    x = torch.randn(4, linears[0].in_features, generator=torch.Generator().manual_seed(0)).to(dtype)
    torch.testing.assert_close(linears[0](x), linear_of(x, before[0], linears[0].bias), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("quantization", [None, RTN, PLANES], ids=["float", "rtn", "planes"])
@pytest.mark.parametrize("tokens", [4, 24])
def test_gradients_of_the_inputs_pass_the_masks(quantization, tokens):
    """In float64 nothing is compiled: there the gradient is that of products with a constant mask."""
    gradients = []
    for dtype in (torch.float64, torch.float32):
        loaded = loaded_in(quantization, dtype)
        inputs = loaded.view.embedding(tiny_tokens(1, tokens)).detach().requires_grad_()
        with attach(loaded, WINA, HALF, kernels=True):
            loaded.model(inputs_embeds=inputs, use_cache=False).logits.square().sum().backward()
        gradients.append(inputs.grad.double())
    assert float((gradients[1] - gradients[0]).norm() / gradients[0].norm()) < 1e-4


@pytest.mark.parametrize("method", [WINA, MethodSpec(name="cats")], ids=["wina", "cats"])
def test_threads_call_a_gated_model_at_once(method):
    loaded = tiny_loaded()
    prompts = tiny_tokens(1, 9), tiny_tokens(1, 24, seed=8)
    with attach(loaded, method, UniformSparsity(sparsity=0.3), dense_prefix=0.5) as gates:
        expected = [logits(loaded, ids) for ids in prompts]
        counts = gates.counts()
        gates.reset_counts()
        turn, in_step = Barrier(2, timeout=300), []
        for layer in loaded.view.layers:
            layer.projections["down"].linear.register_forward_pre_hook(lambda *_: in_step.append(turn.wait()))
        with ThreadPoolExecutor(2) as threads:
            outputs = list(threads.map(lambda ids: logits(loaded, ids), prompts))
        assert all(map(torch.equal, outputs, expected))
        assert torch.equal(gates.counts()["numbers"], counts["numbers"])


@pytest.mark.parametrize("family", ["llama", "starcoder2", "gemma3_text"])
def test_left_padding_is_known_with_a_static_cache(family):
    """Whose masks are of four dimensions; families with windows have several."""
    loaded, sequences = tiny_loaded(family), []
    ids = tiny_tokens(2, 12)
    with attach(loaded, WINA, HALF, dense_prefix=0.5) as gates:
        for cache in ("dynamic", "static"):
            gates.reset_counts()
            options = {"attention_mask": (~PADDED).long(), "cache_implementation": cache, "disable_compile": True}
            new = loaded.model.generate(ids, max_new_tokens=4, min_new_tokens=4, do_sample=False, **options)
            sequences.append((new.tolist(), gates.counts()["numbers"].tolist()))
    assert sequences[0] == sequences[1]


def test_a_dense_prefix_needs_the_whole_prompt():
    loaded, ids = tiny_loaded(), tiny_tokens(1, 12)
    options = {"max_new_tokens": 4, "do_sample": False}
    with attach(loaded, WINA, HALF):
        whole = loaded.model.generate(ids, **options)
        assert torch.equal(loaded.model.generate(ids, prefill_chunk_size=5, **options), whole)
    with attach(loaded, WINA, HALF, dense_prefix=0.5):
        with pytest.raises(WinaError, match=r"generate without prefill_chunk_size\.$"):
            loaded.model.generate(ids, prefill_chunk_size=5, **options)
        loaded.model.generate(ids, prompt_lookup_num_tokens=3, **options)
        cache = loaded.model(ids, use_cache=True).past_key_values
        loaded.model(ids[:, :1], past_key_values=cache)
        loaded.model(ids, past_key_values=cache)  # the next turn of a conversation


@pytest.mark.nightly
def test_a_compiled_model_is_gated():
    loaded, ids = loaded_in(RTN, layers=1), tiny_tokens(1, 6)
    compiled = torch.compile(loaded.model, backend="eager")
    with torch.no_grad(), attach(loaded, WINA, HALF, kernels=True) as gates:
        expected, counts = logits(loaded, ids), gates.counts()
        gates.reset_counts()
        torch.testing.assert_close(compiled(ids, use_cache=False).logits, expected)
        assert torch.equal(gates.counts()["numbers"], counts["numbers"])
        gates.enabled = False
        torch.testing.assert_close(compiled(ids, use_cache=False).logits, logits(loaded, ids))


def test_a_gated_model_is_not_copied():
    loaded = tiny_loaded()
    with attach(loaded, WINA, HALF):
        for refused in (copy.deepcopy, pickle.dumps):
            with pytest.raises(WinaError, match="cannot be copied or pickled; load it again"):
                refused(loaded.model)
    copied = copy.deepcopy(loaded.model)
    ids = tiny_tokens()
    assert torch.equal(copied(ids, use_cache=False).logits, logits(loaded, ids))
