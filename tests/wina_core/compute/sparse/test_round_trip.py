"""Sparse models in folders: transformers loads what was measured, to the last bit."""

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModel, AutoModelForCausalLM

from tests.wina_core.tiny import (
    EXACT_MODES,
    FEW_KINDS,
    WITH_EXPERTS,
    tiny_folder,
    tiny_text,
    tiny_tokens,
)
from wina_core.compute.gating import attach
from wina_core.compute.reporter import NullReporter
from wina_core.compute.serving.server import load_served
from wina_core.compute.session.model_session import Session
from wina_core.compute.sparse import format as sparse_format
from wina_core.compute.sparse.export import save_sparse
from wina_core.errors import WinaError
from wina_core.specs import (
    NO_ROTATION,
    CalibrationSpec,
    Correction,
    DType,
    MethodSpec,
    ModelSource,
    Quantization,
    QuantizationSpec,
    RotationSpec,
    TextSpec,
)
from wina_core.specs.plans import PlanLayout, SparsityPlan, UniformSparsity

pytestmark = pytest.mark.usefixtures("home")
HALF = UniformSparsity(sparsity=0.5)
TOKENS = tiny_tokens(2, 12)
WINA = MethodSpec(name="wina")


def exported(
    tmp_path: Path,
    family: str = "llama",
    method: MethodSpec = WINA,
    mode: str = "none",
    quantization: Quantization = "none",
    dense_prefix: float = 0.0,
    half: UniformSparsity = HALF,
    dtype: DType = "auto",
    tied: bool = False,
) -> tuple[Path, Tensor]:
    """Return the folder of a gated model and the logits that it had."""
    text = TextSpec(source=tiny_text(tmp_path), tokens=256, sequence=64)
    folder = str(tiny_folder(tmp_path / "model", family, tied=tied))
    source = ModelSource(location=folder, quantization=quantization, dtype=dtype)
    rotation = RotationSpec(mode=mode, text=text) if mode != "none" else NO_ROTATION
    session, reporter = Session(), NullReporter()
    loaded = session.prepare(source, rotation, reporter)
    calibration, plan = session.gating(
        loaded, rotation, method, half, CalibrationSpec(text=text) if method.needs_calibration else None, reporter
    )
    with attach(loaded, method, plan, calibration, dense_prefix) as gates, torch.no_grad():
        logits = loaded.model(TOKENS, use_cache=False).logits
        save_sparse(loaded, gates, method, plan.targets, tmp_path / "sparse", dense_prefix=dense_prefix)
        assert torch.equal(loaded.model(TOKENS, use_cache=False).logits, logits), "exporting changes nothing"
    return tmp_path / "sparse", logits


@torch.no_grad()
def logits_of(folder: Path, **options: Any) -> Tensor:
    model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, **options)
    assert not any(info.values()), info
    logits: Tensor = model(TOKENS, use_cache=False).logits
    return logits


@pytest.mark.parametrize("family", FEW_KINDS)
def test_logits_of_every_family_are_those_of_the_live_model(family: str, tmp_path: Path) -> None:
    folder, expected = exported(tmp_path, family, mode=EXACT_MODES[family][-1], quantization="int8")
    assert torch.equal(logits_of(folder), expected)


@pytest.mark.parametrize("family", WITH_EXPERTS[:2])
def test_experts_in_sixteen_bits_stay_stacked(family: str, tmp_path: Path) -> None:
    folder, expected = exported(tmp_path, family, mode="global")
    assert torch.equal(logits_of(folder), expected)
    whole = load_file(folder / "model.safetensors")
    del whole[next(name for name in whole if "experts" in name)]
    save_file(whole, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(WinaError, match=r"elements of .*experts.*, but its config.json asks for"):
        logits_of(folder)


OF_EXPERTS = [
    MethodSpec(name="cats", selection="threshold"),
    MethodSpec(name="rsparse"),
    MethodSpec(name="wina", masks="shared"),
    MethodSpec(name="wina", selection="threshold"),
]
VALUES = [
    MethodSpec(name="scap", selection="threshold"),
    MethodSpec(name="wina", correction="mean"),
    MethodSpec(name="wina", correction="tuned"),
]
"""Methods that keep values of each input or output, which experts do not have."""
ALIKE = [
    MethodSpec(name="dense"),
    MethodSpec(name="teal"),
    MethodSpec(name="larosa"),
    MethodSpec(name="wina", selection="statistical"),
    MethodSpec(name="wina", selection="top_p"),
    MethodSpec(name="wina", selection="mixed"),
    MethodSpec(name="rsparse", variant="as_released"),
]
"""Methods that keep what others keep; WINA_LONG_TESTS=1 takes all in every family."""
ALSO = OF_EXPERTS + ALIKE if "WINA_LONG_TESTS" in os.environ else []


@pytest.mark.parametrize(
    ("family", "method"),
    [
        *(("llama", method) for method in OF_EXPERTS + VALUES + ALIKE),
        *(("phi3", method) for method in OF_EXPERTS[2:3] + VALUES[1:2] + ALSO),
        *(("qwen3_moe", method) for method in OF_EXPERTS[:1] + OF_EXPERTS[3:] + ALSO),
    ],
    ids=lambda value: value if isinstance(value, str) else value.label + value.selection,
)
def test_every_method_and_selection_is_kept(family: str, method: MethodSpec, tmp_path: Path) -> None:
    half = UniformSparsity(sparsity=0.3 if method.name == "cats" else 0.5)
    folder, expected = exported(tmp_path, family, method, dense_prefix=0.2, half=half)
    assert torch.equal(logits_of(folder), expected)


@pytest.mark.parametrize(
    ("dtype", "correction"),
    [
        ("float64", "mean"),
        ("bfloat16", "mean"),
        pytest.param("bfloat16", "tuned", marks=pytest.mark.nightly),  # tuned in float32 above
    ],
)
def test_every_data_type_is_kept(dtype: DType, correction: Correction, tmp_path: Path) -> None:
    method = MethodSpec(name="wina", selection="threshold", correction=correction)
    folder, expected = exported(tmp_path, "llama", method, mode="global", dtype=dtype)
    assert torch.equal(logits_of(folder), expected)


PLANES = QuantizationSpec(quantizer="planes", bits=6)
BITS: list[Quantization] = [
    "int4",
    QuantizationSpec(quantizer="rtn", bits=3, group=16, head_bits=8),
    QuantizationSpec(quantizer="hqq", bits=2, group=16),
    QuantizationSpec(quantizer="rtn", bits=4, by_energy=True, group=16, text=TextSpec(tokens=512, sequence=64)),
    QuantizationSpec(quantizer="planes", bits=6, by_energy=True, text=TextSpec(tokens=512, sequence=64)),
]


@pytest.mark.parametrize("bits", BITS, ids=lambda bits: bits if isinstance(bits, str) else bits.label)
def test_all_bits_are_kept(bits: Quantization, tmp_path: Path) -> None:
    folder, expected = exported(tmp_path, mode="global", quantization=bits)
    assert torch.equal(logits_of(folder), expected)
    assert str(tmp_path) not in (folder / "config.json").read_text(), "no folder of the author's"


@pytest.mark.parametrize(("family", "bits"), [("llama", "int8"), ("qwen3_moe", "none")])
def test_a_loaded_model_is_saved_again_and_generates(
    family: str, bits: Quantization, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, expected = exported(tmp_path, family, mode="global", quantization=bits)
    model = AutoModelForCausalLM.from_pretrained(folder)
    ids = model.generate(TOKENS, max_new_tokens=20, do_sample=False)
    assert model.wina.gates.transposed or bits != "none", "kernels read kept inputs alone"
    model.save_pretrained(tmp_path / "again")
    assert torch.equal(logits_of(tmp_path / "again"), expected)
    monkeypatch.setitem(sparse_format.KERNELS, "decoding", False)
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "again")
    assert torch.equal(plain.generate(TOKENS, max_new_tokens=20, do_sample=False), ids)
    assert not plain.wina.gates.transposed
    assert 0.3 < plain.wina.gates.gated_sparsity < 0.6


def test_another_data_type_moves_the_gates_too(tmp_path: Path) -> None:
    folder, expected = exported(tmp_path)
    wide = logits_of(folder, dtype=torch.float64)
    assert wide.dtype == torch.float64
    assert float((wide - expected).norm() / expected.norm()) < 1e-5
    model = AutoModelForCausalLM.from_pretrained(folder).to("cpu")
    with torch.no_grad():
        assert torch.equal(model(TOKENS, use_cache=False).logits, expected)


@pytest.mark.parametrize("bits", ["none", PLANES], ids=["none", "planes"])
def test_a_move_keeps_counts_and_kernels(bits: Quantization, tmp_path: Path) -> None:
    folder, _ = exported(tmp_path, quantization=bits)
    model = AutoModelForCausalLM.from_pretrained(folder)
    ids = model.generate(TOKENS, max_new_tokens=4, do_sample=False)
    counts = model.wina.gates.counts()
    for dtype in (torch.bfloat16, torch.float64):
        model.to(dtype)
        assert model.wina.gates.has_kernels
        assert all(torch.equal(tensor, counts[name]) for name, tensor in model.wina.gates.counts().items())
    model.generate(ids, max_new_tokens=4, do_sample=False)
    assert model.wina.gates.counts()["numbers"][0, 1] > counts["numbers"][0, 1]


def test_weights_are_transposed_while_no_other_thread_reads_them(tmp_path: Path) -> None:
    folder, expected = exported(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(folder)
    transposed = []

    @torch.no_grad()
    def decode(*_: object) -> None:
        cache = model(TOKENS[:, :6]).past_key_values
        model(TOKENS[:, 6:7], past_key_values=cache)
        transposed.append(model.wina.gates.has_kernels)

    with ThreadPoolExecutor(1) as thread, torch.no_grad():
        hook = model.model.norm.register_forward_pre_hook(lambda *_: hook.remove() or thread.submit(decode).result())
        assert torch.equal(model(TOKENS, use_cache=False).logits, expected)
    decode()
    assert transposed == [False, True]


def test_files_with_other_weights_than_the_config_describes_are_refused(tmp_path: Path) -> None:
    folder, expected = exported(tmp_path)
    whole, config = load_file(folder / "model.safetensors"), json.loads((folder / "config.json").read_text())
    up = "model.layers.0.mlp.up_proj.weight"
    cut = {name: tensor for name, tensor in whole.items() if name != up}
    for tensors, changes, reason in (
        (cut, {}, rf"hold 0 elements of {up}, but its config.json asks for 2,560; export"),
        ({**whole, "more": torch.zeros(2)}, {}, "hold 2 elements of more, but its config.json asks for 0;"),
        ({**whole, up: whole[up].T.contiguous()}, {}, rf"{up} .* is \[32, 80\] in its files, but \[80, 32\] by"),
        (whole, {"hidden_size": 128}, r"is \[257, 32\] in its files, but \[257, 128\] by its config.json; export"),
    ):
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        (folder / "config.json").write_text(json.dumps(config | changes))
        with pytest.raises(WinaError, match=reason):
            logits_of(folder)
    (folder / "config.json").write_text(json.dumps(config))
    assert torch.equal(logits_of(folder), expected)
    with pytest.raises(WinaError, match="LlamaModel of type llama is not a supported architecture"):
        AutoModel.from_pretrained(folder)


def test_a_tied_head_is_stored_once(tmp_path: Path) -> None:
    folder, expected = exported(tmp_path, tied=True)
    assert "lm_head.weight" not in load_file(folder / "model.safetensors")
    assert torch.equal(logits_of(folder), expected)


def edited(folder: Path, **changes: Any) -> None:
    content = json.loads((folder / "config.json").read_text())
    content["quantization_config"] |= changes
    (folder / "config.json").write_text(json.dumps(content))


def test_what_was_changed_by_hand_is_refused_in_one_sentence(tmp_path: Path) -> None:
    folder, _ = exported(tmp_path, quantization="int8")
    whole, config = load_file(folder / "model.safetensors"), (folder / "config.json").read_text()
    cut = {name: tensor for name, tensor in whole.items() if name != "wina.rules"}
    shorter = {**whole, "wina.rules": whole["wina.rules"][:2].contiguous()}
    narrow = {**whole, "wina.scale_float32": whole["wina.scale_float32"][:3].clone()}
    codes, scale = "model.layers.0.self_attn.q_proj.codes", "model.layers.0.self_attn.q_proj.scale"

    def altered(name: str, change: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
        return {**whole, name: change(whole[name].clone())}

    for tensors, reason in (
        (cut, "files hold 0 elements of wina.rules, but its config.json asks for 21"),
        (shorter, r"wina.rules of the sparse model is I32 \[2, 7\] in its files"),
        (narrow, r"wina.scale_float32 of the sparse model is F32 \[3\] in its files"),
        ({**whole, "wina.more": torch.zeros(2)}, "files hold 2 elements of wina.more"),
        (altered("wina.values", lambda values: values * torch.nan), "thresholds are not finite numbers"),
        (altered("wina.values", lambda values: values * 0), "keeps 0 of the 32 inputs of q, but its plan 16;"),
        (altered("wina.rules", lambda rules: rules - 9), "those of another model"),
        (altered("wina.rules", lambda rules: rules * 0), "vectors of another length than the inputs of down"),
        (altered("wina.rules", lambda rules: rules * 0 - 1), "no rule for q of layer 0, which its method gates;"),
        (altered("wina.lengths", lambda lengths: lengths + 1), "rules have vectors of other lengths"),
        (altered("wina.scale_float32", lambda scales: scales * torch.nan), "wina.scale_float32 .* is not finite"),
        (altered("wina.scale_float32", lambda scales: scales * 0), "wina.scale_float32 .* negative factors, or only"),
        (altered("wina.scale_float32", torch.neg), "wina.scale_float32 .* has negative factors, or only zeros"),
        (altered(scale, lambda scales: scales * torch.inf), "q_proj of the .* damaged .its scales are not finite.;"),
        (
            {**whole, codes: whole[codes][:, :3].clone()},
            r"q_proj.codes of the sparse model is I8 \[32, 3\] in",
        ),
        ({name: tensor for name, tensor in whole.items() if name != codes}, "files hold 0 elements of .*q_proj.codes"),
    ):
        save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        with pytest.raises(WinaError, match=reason):
            logits_of(folder)
    save_file(whole, folder / "model.safetensors", {"format": "pt"})
    layout = PlanLayout(projections=("q", "down"), parameters=((8, 8),))
    other = SparsityPlan(layout=layout, sparsity=((0.5, 0.5),))
    for changes, reason in (
        ({"format_version": 2}, r"format version 2, but this program reads 1; install"),
        ({"surprise": 1}, r"is damaged \(surprise"),
        ({"method": {"name": "nope"}}, "was changed after it was written"),
        ({"plan": other.model_dump(mode="json")}, "was changed after it was written"),
        ({"weights": []}, "was changed after it was written"),
    ):
        edited(folder, **changes)
        with pytest.raises(WinaError, match=reason):
            logits_of(folder)
        (folder / "config.json").write_text(config)
    (folder / "config.json").write_text(json.dumps(json.loads(config) | {"num_hidden_layers": 500_000}))
    with pytest.raises(WinaError, match="describes 500000 layers, but its section 3; export"):
        logits_of(folder)
    with pytest.raises(WinaError, match="its 500000 layers are more than the 1000 that any model may have"):
        load_served(folder, "cpu", "auto")


def test_offloaded_weights_are_refused(tmp_path: Path) -> None:
    folder, _ = exported(tmp_path, "llama", MethodSpec(name="wina"))
    device_map = {
        "model.embed_tokens": "cpu",
        "model.layers": "disk",
        "model.norm": "cpu",
        "lm_head": "cpu",
        "wina": "cpu",
    }
    device_map["model.rotary_emb"] = "cpu"
    with pytest.raises(WinaError, match=r'are offloaded.*device_map="cpu"'):
        AutoModelForCausalLM.from_pretrained(folder, device_map=device_map, offload_folder=str(tmp_path / "off"))
    assert AutoModelForCausalLM.from_pretrained(folder, device_map="cpu").wina.gates is not None
