"""A token by one native call is the token of the model in transformers, gated or dense, in every family it knows."""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from transformers import DynamicCache
from wina_kernels.native import abi
from wina_kernels.planes import in_planes
from wina_kernels.weights import MixedWeight, QuantizedWeight

from tests.wina_core.compute.generation import PROMPT, generated
from tests.wina_core.tiny import tiny_loaded
from wina_core.compute.calibration import Calibration, calibrate
from wina_core.compute.gating import Gates, attach
from wina_core.compute.generation.compiled import CompiledModel, compile_model
from wina_core.compute.generation.reader import SequenceReader
from wina_core.compute.models.architectures import view
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.quantized_linear import PlaneLinear, QuantizedLinear
from wina_core.compute.reporter import NullReporter
from wina_core.specs import CalibrationSpec, MethodSpec, TextSpec
from wina_core.specs.plans import UniformSparsity

pytestmark = pytest.mark.skipif(abi.loaded() is None, reason="the native library is not built here")
TOKENS = [7, 200, 31, 0, 99, 18, 64]
FAMILIES = {
    "llama": ("llama", {}),
    "mistral with a window": ("mistral", {"sliding_window": 8}),
    "qwen2": ("qwen2", {}),
    "qwen2 with windows in some layers": (
        "qwen2", {"sliding_window": 8, "use_sliding_window": True,
                  "layer_types": ["full_attention", "sliding_attention", "full_attention"]},
    ),
    "qwen3": ("qwen3", {}),
    "phi3": ("phi3", {}),
    "phi3 with partial rotary embeddings": ("phi3", {"partial_rotary_factor": 0.5}),
    "llama with scaled rotary embeddings": (
        "llama", {"rope_parameters": {"rope_type": "llama3", "rope_theta": 1e4, "factor": 4.0, "low_freq_factor": 1.0,
                                      "high_freq_factor": 4.0, "original_max_position_embeddings": 16}},
    ),
}  # fmt: skip


def loaded_family(name: str, dtype: torch.dtype = torch.float32) -> LoadedModel:
    family, settings = FAMILIES[name]
    return tiny_loaded(family, dtype=dtype, **settings)


def compiled(loaded: LoadedModel, gates: Gates | None = None) -> CompiledModel:
    call = compile_model(loaded, gates, 64)
    assert isinstance(call, CompiledModel), call
    return call


def past(loaded: LoadedModel) -> DynamicCache:
    cache = DynamicCache(config=loaded.model.config)
    loaded.model(PROMPT, past_key_values=cache, use_cache=True)
    return cache


def by_torch(loaded: LoadedModel) -> Tensor:
    """Logits [tokens, vocabulary] after the prompt and each of TOKENS."""
    cache = past(loaded)
    steps = [loaded.model(torch.tensor([[token]]), past_key_values=cache, use_cache=True) for token in TOKENS]
    return torch.stack([step.logits[0, -1].float() for step in steps])


def by_calls(loaded: LoadedModel, gates: Gates | None = None, gated: bool = True) -> Tensor:
    if gates is not None:
        gates.enabled = gated
    sequence = compiled(loaded, gates).begin(past(loaded))
    return torch.stack([sequence.read(token, gated=gated) for token in TOKENS])


def distance(actual: Tensor, expected: Tensor) -> float:
    return float((actual - expected).norm() / expected.norm())


@contextmanager
def gated(loaded: LoadedModel, method: MethodSpec, sparsity: float = 0.5) -> Iterator[Gates]:
    calibration = None
    if method.needs_calibration:
        text = TextSpec(source="demo:calibration", tokens=256, sequence=64)
        calibration = calibrate(loaded, method, CalibrationSpec(text=text), NullReporter())
    with attach(loaded, method, UniformSparsity(sparsity=sparsity), calibration, kernels=True) as gates:
        yield gates


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_dense_and_gated_tokens_have_the_logits_of_transformers(name: str) -> None:
    loaded = loaded_family(name)
    dense = by_torch(loaded)
    assert distance(by_calls(loaded), dense) < 1e-5
    for masks in ("separate", "shared"):
        with gated(loaded, MethodSpec(name="wina", masks=masks)) as gates:
            expected = by_torch(loaded)
            assert distance(by_calls(loaded, gates), expected) < 1e-5 < distance(dense, expected)
            assert distance(by_calls(loaded, gates, gated=False), dense) < 1e-5, "all inputs, gates attached"


@pytest.mark.parametrize("method", ["wina", "teal"])
@torch.no_grad()
def test_thresholds_drop_and_count_the_same_inputs(method: str) -> None:
    loaded = loaded_family("llama")
    with gated(loaded, MethodSpec(name=method, selection="threshold")) as gates:
        gates.reset_counts()
        expected = by_torch(loaded)
        counted = gates.measured()
        gates.reset_counts()
        assert distance(by_calls(loaded, gates), expected) < 1e-5
        assert gates.measured() == counted
        gates.reset_counts()
        sequence = compiled(loaded, gates).begin(past(loaded))
        gates.reset_counts()
        sequence.read(5, gated=False)
        assert not gates.measured(), "dense tokens are not counted"


@pytest.mark.parametrize("name", ["llama", "qwen2", "phi3"])
@torch.no_grad()
def test_gated_tokens_have_tuned_biases_and_dense_ones_have_none(name: str) -> None:
    loaded = loaded_family(name)
    layout, generator = loaded.view.layout, torch.Generator().manual_seed(0)
    biases = {
        (layer.index, layout.projections.index(name)): torch.randn(projection.shape[0], generator=generator)
        for layer in loaded.view.layers
        for name, projection in layer.projections.items()
    }
    calibration = replace(Calibration.empty(layout, 0), tuned=biases)
    dense, method = by_torch(loaded), MethodSpec(name="wina", masks="shared", correction="tuned")
    with attach(loaded, method, UniformSparsity(sparsity=0.5), calibration, kernels=True) as gates:
        expected = by_torch(loaded)
        assert distance(by_calls(loaded, gates), expected) < 1e-5 < distance(dense, expected)
        assert distance(by_calls(loaded, gates, gated=False), dense) < 1e-5


@torch.no_grad()
def test_greedy_tokens_are_those_of_generate_in_float32() -> None:
    loaded = loaded_family("qwen3")
    with gated(loaded, MethodSpec(name="wina"), 0.4) as gates:
        tokens = compiled(loaded, gates).greedy(PROMPT)
        assert [next(tokens) for _ in range(12)] == generated(loaded, 12)


@pytest.mark.parametrize(("sparsity", "factor"), [(0.0, 1.0), (0.5, 2.0)])
@torch.no_grad()
def test_bfloat16_is_as_near_to_float32_as_in_torch(sparsity: float, factor: float) -> None:
    """Gated, single inputs near the limit are kept by one and dropped by the other."""
    narrow = loaded_family("llama", torch.bfloat16)
    model = deepcopy(narrow.model).float()
    wide = LoadedModel(narrow.source, model, narrow.tokenizer, view(model))
    with gated(wide, MethodSpec(name="wina"), sparsity):
        exact = by_torch(wide)
    with gated(narrow, MethodSpec(name="wina"), sparsity) as gates:
        compiled_error, torch_error = distance(by_calls(narrow, gates), exact), distance(by_torch(narrow), exact)
    assert compiled_error < factor * torch_error


@pytest.mark.parametrize("family", ["llama", "phi3"])
@torch.no_grad()
def test_quantized_weights_and_head_are_read_as_stored(family: str) -> None:
    loaded = loaded_family(family)
    generator = torch.Generator().manual_seed(0)
    for parent in list(loaded.model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, torch.nn.Linear):
                setattr(parent, name, QuantizedLinear(child, in_runs(child, generator)))
    loaded.view = view(loaded.model)
    with gated(loaded, MethodSpec(name="wina", masks="shared")) as gates:
        assert distance(by_calls(loaded, gates), by_torch(loaded)) < 1e-3, "inputs are rounded to 15 bits"


def model_in_planes(family: str) -> LoadedModel:
    """A model whose layers and head are in planes, the inputs of a layer in 2 to 6."""
    loaded, generator = loaded_family(family), torch.Generator().manual_seed(0)
    for parent in list(loaded.model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, torch.nn.Linear):
                planes = torch.randint(2, 7, (child.in_features,), generator=generator)
                setattr(parent, name, PlaneLinear(child, in_planes(child.weight.detach().t(), planes)))
    loaded.view = view(loaded.model)
    return loaded


def counted(gates: Gates) -> list[tuple[int, int, int]]:
    """Inputs kept and seen, and planes read, of each mask."""
    return [(*group.counted(), group.planes_read()) for forward in gates.forwards for group in forward.groups]


@pytest.mark.parametrize(
    ("family", "method"),
    [
        ("llama", MethodSpec(name="wina", masks="shared")),
        ("phi3", MethodSpec(name="wina", masks="shared")),
        ("qwen3", MethodSpec(name="wina", selection="threshold")),
    ],
)
@torch.no_grad()
def test_weights_in_planes_are_read_by_scores_and_counted(family: str, method: MethodSpec) -> None:
    loaded = model_in_planes(family)
    dense = by_torch(loaded)
    assert distance(by_calls(loaded), dense) < 1e-3, "inputs are rounded to 15 bits"
    with gated(loaded, method) as gates:
        past(loaded)
        prompt = counted(gates)
        gates.reset_counts()
        expected = by_torch(loaded)
        decoded = counted(gates)
        gates.reset_counts()
        assert distance(by_calls(loaded, gates), expected) < 1e-3 < distance(dense, expected)
        assert counted(gates) == decoded
        assert all(after[2] > before[2] for after, before in zip(decoded, prompt, strict=True))
        assert 0 < gates.bits_read < gates.bits_held
        gates.reset_counts()
        assert distance(by_calls(loaded, gates, gated=False), dense) < 1e-3


def in_runs(linear: torch.nn.Linear, generator: torch.Generator) -> MixedWeight:
    """Random codes of 8 and of 4 bits for a layer's inputs, in a random order of inputs."""
    m, n = linear.weight.shape
    half = n // 2
    eight = torch.randint(-127, 128, (half, m), generator=generator, dtype=torch.int8)
    four = torch.randint(0, 16, (n - half, m), generator=generator, dtype=torch.uint8)
    scales = [0.5 + torch.rand(1, m, generator=generator) for _ in range(2)]
    runs = [
        QuantizedWeight.of(eight, scales[0] / (64 * n**0.5), None, half, 8),
        QuantizedWeight.of(four, scales[1] / (4 * n**0.5), torch.full((1, m), 7.5), n - half, 4),
    ]
    return MixedWeight(runs, torch.randperm(n, generator=generator).int())


@torch.no_grad()
def test_two_readers_take_turns_on_one_compiled_model() -> None:
    loaded = loaded_family("qwen2")
    with gated(loaded, MethodSpec(name="wina")) as gates:
        call = compiled(loaded, gates)
        outputs = []
        for compiled_call in (call, None):
            sides = [
                SequenceReader(loaded, gates, gated=is_gated, compiled=compiled_call) for is_gated in (True, False)
            ]
            pieces: list[list[int]] = [PROMPT[0].tolist(), *([token] for token in TOKENS)]
            outputs.append(torch.stack([torch.stack([side.read(piece) for side in sides]) for piece in pieces]))
    torch.testing.assert_close(outputs[0], outputs[1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("family", "method", "reason"),
    [
        ("granite", MethodSpec(name="wina"), "type granite"),
        ("llama", MethodSpec(name="cats", selection="threshold"), "scores another tensor"),
        ("llama", MethodSpec(name="wina", selection="top_p"), "rule"),
    ],
)
@torch.no_grad()
def test_what_is_not_compiled_says_why(family: str, method: MethodSpec, reason: str) -> None:
    loaded = tiny_loaded(family)
    with gated(loaded, method, 0.3) as gates:
        assert reason in str(compile_model(loaded, gates, 64))


@torch.no_grad()
def test_models_that_something_else_changed_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = tiny_loaded("llama")
    with attach(loaded, MethodSpec(name="wina"), UniformSparsity(sparsity=0.5)) as gates:
        assert "without kernels" in str(compile_model(loaded, gates, 64))
    norm = loaded.view.layers[1].mlp_norm
    hook = norm.register_forward_hook(lambda *_: None)
    assert "layers.1.post_attention_layernorm" in str(compile_model(loaded, None, 64))
    hook.remove()
    monkeypatch.setattr(norm, "forward", lambda x: x)
    assert "layers.1.post_attention_layernorm" in str(compile_model(loaded, None, 64))
    monkeypatch.undo()
    assert isinstance(compile_model(loaded, None, 64), CompiledModel)
    assert "float16" in str(compile_model(tiny_loaded("llama", dtype=torch.float16), None, 64))
