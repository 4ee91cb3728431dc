"""The command on a model card makes the same sparse model, for a reader with the files that it names."""

from pathlib import Path
from typing import Any

import pytest

from tests.wina_core.conftest import Wina
from wina_core.cli import export_model
from wina_core.errors import WinaError
from wina_core.model_info.resolve import resolve
from wina_core.model_info.sharing import PLAN_FILE, plan_text
from wina_core.report.model_card import sparse_run
from wina_core.report.reproduce import export_command, export_command_notes
from wina_core.specs import (
    FREE_KL_ROTATION,
    FREE_ROTATION,
    NO_ROTATION,
    AllocatedSparsity,
    AllocatorSpec,
    BitsPlan,
    CalibrationSpec,
    Configuration,
    MethodSpec,
    ModelSource,
    QuantizationSpec,
    RotationSpec,
    RunSpec,
    TextSpec,
)
from wina_core.specs.plans import PlanLayout, SparsityPlan, UniformSparsity

LAYOUT = PlanLayout(projections=("q", "k"), parameters=((3, 1), (3, 1)))
UNEVEN = SparsityPlan(layout=LAYOUT, sparsity=((0.25, 0.75), (0.3, 0.1)), provenance="edited")
BITS_PLAN = BitsPlan(layout=LAYOUT, bits=((4, 8), (4, 3)))
WINA, TEXT = MethodSpec(name="wina"), "my text.txt"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The author's files, in the working folder."""
    for name in ("demo/config.json", TEXT, "q.safetensors"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read_back(spec: RunSpec, wina: Wina, monkeypatch: pytest.MonkeyPatch) -> RunSpec:
    """Return the run that the command line understands."""
    specs: list[RunSpec] = []

    def instead(_store: object, read: RunSpec, _folder: Path) -> None:
        specs.append(read)
        raise WinaError("read")

    monkeypatch.setattr(export_model, "export_job", instead)
    assert wina.fails(1, *export_command(spec, "out")[1:]).endswith("read")
    return specs[0]


OWN = TextSpec(source=TEXT, tokens=640)
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "folder": {"source": {"location": "./demo", "dtype": "bfloat16", "device": "cpu"}},
    "named bits": {"source": {"quantization": "int8"}},
    "gptq": {"bits": {"quantizer": "gptq", "bits": 3.0, "group": 32, "head_bits": 8, "text": OWN}},
    "planes": {"bits": {"quantizer": "planes", "bits": 4.123456789012, "by_energy": True, "text": TextSpec(tokens=99)}},
    "kl": {"rotation": FREE_KL_ROTATION.model_copy(update={"steps": 7, "text": OWN})},
    "by sensitivity": {"rotation": RotationSpec(weighting="sensitivity", per_head=False)},
    "for bits": {"rotation": FREE_ROTATION.model_copy(update={"noise_bits": 4, "fold_norms": "all"})},
    "per site": {"rotation": RotationSpec(mode="per_site", attention_basis=("k",), mlp_basis=("gate", "activations"))},
    "one side": {"rotation": RotationSpec(mode="per_layer", attention_basis=(), text=OWN)},
    "matrices": {"rotation": RotationSpec(matrices="q.safetensors", fold_norms="exact")},
    "folded": {"rotation": NO_ROTATION.model_copy(update={"fold_norms": "exact"})},
    "method": {
        "method": MethodSpec(name="wina", variant="as_released", masks="shared", selection="threshold"),
        "calibration": CalibrationSpec(text=OWN, thresholds="dense"),
    },
    "corrected": {"method": MethodSpec(name="teal", correction="mean"), "calibration": CalibrationSpec(text=OWN)},
    "low rank": {"method": MethodSpec(name="rsparse", rho=0.7), "plan": UniformSparsity(sparsity=0.1 + 0.2)},
    "dense prefix": {"dense_prefix": 0.01},
    "uneven": {"plan": UNEVEN},
    "shares": {"method": MethodSpec(name="rsparse"), "plan": UNEVEN.model_copy(update={"rho": UNEVEN.sparsity})},
    "uneven, bits": {"plan": UNEVEN, "bits": {"quantizer": "hqq", "bits": 4.0}},
    "both uneven": {"plan": UNEVEN, "bits": {"quantizer": "gptq", "bits": BITS_PLAN, "head_bits": 4, "text": OWN}},
}


def run_of(case: dict[str, Any]) -> RunSpec:
    fields = {"method": WINA, "rotation": NO_ROTATION, "plan": UniformSparsity(sparsity=0.4)} | case
    quantization = QuantizationSpec(**case["bits"]) if "bits" in case else "none"
    source = ModelSource.model_validate({"location": "demo", "quantization": quantization} | case.get("source", {}))
    return sparse_run(
        resolve(source),
        Configuration(rotation=fields["rotation"], method=fields["method"]),
        fields["plan"],
        case.get("calibration"),
        case.get("dense_prefix", 0.0),
    )


@pytest.mark.parametrize("name", CASES)
def test_the_command_names_all_that_the_model_is_made_of(
    name: str, folder: Path, wina: Wina, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = run_of(CASES[name])
    assert not any(str(folder) in word for word in export_command(spec, "out"))
    text = plan_text(spec, spec.plan, LAYOUT)
    assert bool(text) == isinstance(spec.plan, SparsityPlan)
    assert str(folder) not in text
    (folder / PLAN_FILE).write_text(text)
    assert read_back(spec, wina, monkeypatch) == spec


def test_even_plans_need_no_file_and_those_of_bits_bring_their_targets(
    folder: Path, wina: Wina, monkeypatch: pytest.MonkeyPatch
) -> None:
    even = run_of({"plan": SparsityPlan.uniform(LAYOUT, 0.4)})
    assert read_back(even, wina, monkeypatch) == run_of({})
    bits = run_of({"bits": {"quantizer": "rtn", "bits": BITS_PLAN}})
    (folder / PLAN_FILE).write_text(plan_text(bits, bits.plan, LAYOUT))
    assert read_back(bits, wina, monkeypatch) == bits.model_copy(update={"plan": bits.plan.for_layout(LAYOUT)})
    allocated = bits.model_copy(
        update={"plan": AllocatedSparsity(sparsity=0.4, allocator=AllocatorSpec(name="curves"))}
    )
    assert PLAN_FILE in export_command(allocated, "out")


def test_what_the_command_needs_or_lacks_is_said(folder: Path) -> None:
    assert export_command_notes(run_of({})) == ()
    case = {
        "source": {"location": str(folder / "demo"), "revision": "abc"},
        "rotation": RotationSpec(text=OWN.model_copy(update={"sequence": 64})),
        "plan": UNEVEN,
    }
    plan, files, lacking = export_command_notes(run_of(case))
    assert "plan.wina.json of this folder" in plan
    assert files.endswith(": demo, my text.txt.")
    assert "revision abc of the model and rows of 64 tokens of the rotation text" in lacking
