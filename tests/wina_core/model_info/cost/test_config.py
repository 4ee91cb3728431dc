"""Costs from a config.json alone: the paper's savings, the sizes that are read, and that nothing is allocated."""

import json
import shutil
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch

from tests.wina_core.tiny import KINDS, WITH_EXPERTS, tiny_loaded, tiny_model, tiny_tokens
from wina_core.compute.calibration import Calibration
from wina_core.compute.gating import attach
from wina_core.compute.models.architectures import view
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.shape import empty_model, model_shape
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation import rotate
from wina_core.errors import WinaError
from wina_core.files.paths import resources_folder
from wina_core.model_info.cost.cost import costs
from wina_core.model_info.cost.matrices import held_weights
from wina_core.records import CostRecord, ModelShape
from wina_core.specs import MethodSpec, ModelSource, RotationMode, RotationSpec, method_specs
from wina_core.specs.methods import get_method
from wina_core.specs.plans import PlanLayout, SparsityPlan, UniformSparsity

CONFIGS = resources_folder() / "paper" / "configs"
WINA = MethodSpec(name="wina")
Plan = UniformSparsity | SparsityPlan
AT_65 = UniformSparsity(sparsity=0.65)
AT_30 = UniformSparsity(sparsity=0.3)


def shape_at(folder: Path) -> ModelShape:
    return model_shape(view(empty_model(ModelSource(location=str(folder)), NullReporter())))


@pytest.mark.parametrize(
    ("name", "paper", "weights"),
    [
        ("Llama-2-7B", 63.7, 6_738_415_616),
        ("Mistral-7B", 63.7, 7_241_732_096),
        ("Llama-3-8B", 60.4, 8_030_261_248),
        ("Phi-4-14B", 62.7, 14_659_507_200),
    ],
)
def test_the_papers_savings_come_out(name, paper, weights):
    model = empty_model(ModelSource(location=str(CONFIGS / name)), NullReporter())
    assert sum(parameter.numel() for parameter in model.parameters()) == weights  # as published
    assert {tensor.device.type for tensor in (*model.parameters(), *model.buffers())} == {"meta"}
    record = costs(model_shape(view(model)), WINA, AT_65)
    for row in record.rows[1:]:
        assert abs(100 * row.gated_flops_saving - paper) <= 0.1
    none, global_, layer, site = record.rows[1:]
    assert none.net_flops_saving == global_.net_flops_saving > layer.net_flops_saving > site.net_flops_saving
    assert 0.14 < site.shortcut_weights / sum(map(sum, record.shape.layout.parameters)) < 0.17
    assert 0.4 < site.net_flops_saving < 0.46


def measured(
    loaded: LoadedModel, method: MethodSpec, calibration: Calibration | None = None, plan: Plan = AT_30
) -> tuple[float, float]:
    with attach(loaded, method, plan, calibration) as gates:
        loaded.model(tiny_tokens(rows=1, length=3), use_cache=False)
    return gates.gated_sparsity, gates.net_sparsity


def charged(
    shape: ModelShape, method: MethodSpec, mode: RotationMode = "none", plan: Plan = AT_30
) -> tuple[float, float]:
    (_, row) = costs(shape, method, plan, rotations=(mode,)).rows
    return row.gated_sparsity, row.net_sparsity


def invented(layout: PlanLayout, inputs: tuple[int, ...], method: MethodSpec) -> Calibration:
    """Values of the right sizes: how many there are is what counts here."""
    cells = {
        (layer, column): torch.full((n,), 0.1) for layer in range(layout.layers) for column, n in enumerate(inputs)
    }
    nothing = torch.zeros(0)
    centring = get_method(method).centring
    centres = cells if centring == "inputs" else {cell: values[:1] for cell, values in cells.items()}
    centres = {} if centring == "none" else centres
    means = {cell: values.expand(20, -1) for cell, values in cells.items()} if method.correction == "mean" else {}
    return Calibration(layout, 1, nothing, nothing, nothing, centres, means)


@pytest.mark.parametrize("family", [*KINDS, "llama without biases"])
def test_both_sparsities_are_those_that_the_gates_measure(family):
    """For every method, variant, mask and correction: norms, values and biases are read in the one as in the other."""
    name, _, without = family.partition(" without ")
    loaded = tiny_loaded(name, **({"attention_bias": False, "mlp_bias": False} if without else {}))
    shape = model_shape(loaded.view)
    for spec in (*method_specs(), MethodSpec(name="rsparse", variant="as_released", rho=0.9)):
        if spec.name == "cats" and "gate" not in shape.layout.projections:
            continue
        if spec.name == "scap" and name in WITH_EXPERTS:
            continue
        for sharing, correction in product(
            ("separate", "shared"), ("none", "tuned", "mean")[: 2 + (name not in WITH_EXPERTS)]
        ):
            method = spec.model_copy(update={"masks": sharing, "correction": correction})
            if sharing == "shared" and method.variant == "as_released":
                continue
            calibration = invented(shape.layout, shape.inputs[0], method)
            if correction == "tuned":
                outputs = {
                    (layer.index, shape.layout.projections.index(name)): torch.zeros(projection.shape[0])
                    for layer in loaded.view.layers
                    for name, projection in layer.projections.items()
                }
                calibration = replace(calibration, tuned=outputs)
            sparsities = measured(loaded, method, calibration)
            if spec.name == "larosa" and name in ("opt", "arcee", "jais2", "gpt_oss"):  # zeros or limits, kept ties
                assert sparsities[0] < charged(shape, method)[0]
                continue
            assert sparsities == pytest.approx(charged(shape, method), abs=1e-9), method


@pytest.mark.parametrize("mode", ["global", "per_layer", "per_site"])
def test_the_full_sparsity_of_a_rotated_model_is_what_its_gates_measure(mode):
    loaded = tiny_loaded()
    shape = model_shape(loaded.view)
    rotate(loaded, RotationSpec(mode=mode, attention_basis=("qkv",), mlp_basis=("gate_up",)), NullReporter())
    for method in (WINA, MethodSpec(name="teal"), MethodSpec(name="rsparse")):
        assert measured(loaded, method) == pytest.approx(charged(shape, method, mode), abs=1e-9)


@pytest.mark.parametrize("family", ["llama", "phi3"])
def test_norms_are_charged_where_the_shares_of_a_plan_make_rsparse_as_released_score_by_them(family):
    loaded, method = tiny_loaded(family), MethodSpec(name="rsparse", variant="as_released")
    shape = model_shape(loaded.view)
    rows = ((1.0, 0.9, 1.0, 0.9, 1.0, 1.0, 0.9), (1.0,) * 7, (0.8,) * 7)
    plan = SparsityPlan.uniform(shape.layout, 0.5).model_copy(update={"rho": rows})
    gated, net = measured(loaded, method, plan=plan)
    assert (gated, net) == pytest.approx(charged(shape, method, plan=plan))
    assert net < gated - 3 * 32 / sum(map(sum, shape.layout.parameters))


@pytest.mark.parametrize("family", KINDS)
def test_every_weight_of_every_family_is_accounted_for(family, tmp_path):
    model = tiny_model(family, tied=family == "qwen2")
    model.config.save_pretrained(tmp_path)
    shape = shape_at(tmp_path)
    assert shape == model_shape(view(model))
    matrices = held_weights(shape) + shape.head_weights + shape.further_weights
    tables = [table for table in model.modules() if isinstance(table, torch.nn.Embedding)]
    head = model.get_output_embeddings()
    tied = shape.head_weights if any(table.weight is head.weight for table in tables) else 0
    total = sum(parameter.numel() for parameter in model.parameters())
    biases = shape.biases + shape.idle_biases
    assert matrices + sum(table.weight.numel() for table in tables) - tied + biases + shape.norm_weights == total
    assert shape.embedding_row == sum(table.embedding_dim for table in tables)
    assert (shape.rms_norm_inputs == 0) == (family in ("opt", "phi", "gpt_neox", "stablelm", "jais2", "starcoder2"))
    assert (shape.rotary_dim == 0) == (family == "opt")


@pytest.mark.parametrize(
    ("family", "settings"),
    [
        *((family, {}) for family in KINDS),
        ("phi", {"qk_layernorm": False}),
        ("stablelm", {"qk_layernorm": False}),
        ("stablelm", {"use_parallel_residual": True}),
        ("gpt_neox", {"use_parallel_residual": False}),
    ],
)
def test_norms_have_as_many_inputs_as_they_are_given(family, settings):
    loaded = tiny_loaded(family, **settings)
    shape = model_shape(loaded.view)
    seen = {"RMSNorm": 0, "LayerNorm": 0}

    def count(kind, args):
        seen[kind] += args[0].numel()

    for module in loaded.model.modules():
        kind = next((kind for kind in seen if type(module).__name__.endswith(kind)), None)
        if kind is not None:
            module.register_forward_pre_hook(lambda _, args, kind=kind: count(kind, args))
    loaded.model(tiny_tokens(rows=1, length=1), use_cache=False)
    assert (shape.rms_norm_inputs, shape.layer_norm_inputs) == (seen["RMSNorm"], seen["LayerNorm"])


def changed(folder: Path, **settings: object) -> ModelSource:
    content = json.loads((CONFIGS / "Llama-2-7B" / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(content | settings))
    return ModelSource(location=str(folder))


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"hidden_size": None}, "it has no hidden_size"),
        ({"num_hidden_layers": 10**7}, "its 10000000 layers are more than the 1000 that any model may have"),
        ({"sliding_window": -5}, "its sliding_window is -5 instead"),
        ({"num_key_value_heads": 3}, "its 32 heads cannot share 3 key-value heads evenly"),
        ({"layer_types": ["full_attention"]}, "its layer_types are 1 for 32 layers"),
        ({"num_local_experts": 6, "num_experts_per_tok": 0}, "its router chooses 0 of 6 experts for a token"),
        ({"moe_num_experts": 5000, "moe_k": 2}, "its 5000 experts are more than the 4096 that any layer may have"),
        ({"hidden_act": "nope"}, "nope"),
        ({"hidden_size": "wide"}, "hidden_size"),
    ],
    ids=str,
)
def test_sizes_that_no_model_has_are_named(wrong, reason, tmp_path):
    with pytest.raises(WinaError, match=r"describes no model \(.+\); restore it") as refused:
        empty_model(changed(tmp_path, **wrong), NullReporter())
    assert reason in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_config_that_describes_no_supported_model_is_refused(tmp_path):
    with pytest.raises(WinaError, match=r"has no config\.json"):
        empty_model(ModelSource(location=str(tmp_path)), NullReporter())
    for wrong in ({"model_type": "mamba", "architectures": ["MambaForCausalLM"]}, {"architectures": {"a": 1}}):
        with pytest.raises(WinaError, match="not a supported architecture"):
            empty_model(changed(tmp_path, **wrong), NullReporter())
    (tmp_path / "config.json").write_text("[" * 200_000)
    with pytest.raises(WinaError, match=r"config\.json cannot be read \(it is nested too deeply\); restore it"):
        empty_model(ModelSource(location=str(tmp_path)), NullReporter())


# ---- the command -----------------------------------------------------------------------------------------------------


def test_the_command_needs_a_config_alone(wina, tmp_path):
    folder = shutil.copytree(CONFIGS / "Llama-3-8B", tmp_path / "model")
    flags = ("--masks", "shared", "--context", 512, "--quantization", "int4", "--json")
    record = CostRecord.model_validate_json(wina.succeeds("cost", folder, *flags))
    shared = MethodSpec(name="wina", masks="shared")
    assert record == costs(shape_at(folder), shared, AT_65, context=512, quantization="int4")
    assert [path.name for path in folder.iterdir()] == ["config.json"]


def test_the_command_warns_beside_its_rotation_and_refuses_in_one_sentence(wina):
    printed = wina.succeeds("cost", "demo", "--sparsity", 0.15, "--rotation", "global", "--rotation", "per_site")
    assert "\nper_site: The rotation's residual shortcuts, norms, and biases where inputs are replaced, cost" in printed
    assert "\nglobal:" not in printed
    assert "out of its reach" in wina.fails(1, "cost", "demo", "--method", "cats")
    assert "either --sparsity or --plan" in wina.fails(1, "cost", "demo", "--sparsity", 0.5, "--plan", "plan.json")
