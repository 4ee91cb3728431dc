"""Additions of installed packages: the template works everywhere, and a broken package disables only itself."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import wina_core
from tests.plugin_package import install, install_template, offer
from tests.wina_core.conftest import Wina
from tests.wina_core.tiny import tiny_folder, tiny_loaded, tiny_text
from wina_core.compute.evaluation.local_data import UserTasks
from wina_core.compute.models.folded_norms import fold_norms, foldable
from wina_core.compute.quantization.apply import by_package
from wina_core.compute.scoring import scales_of
from wina_core.errors import WinaError
from wina_core.jobs import PendingRun
from wina_core.model_info.resolve import resolve_data
from wina_core.specs import (
    AllocatedSparsity,
    AllocatorSpec,
    Configuration,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    QuantizationSpec,
    RunSpec,
    TextSpec,
)
from wina_core.specs.allocations import ALLOCATOR_PLUGINS, check_allocator
from wina_core.specs.methods import METHOD_PLUGINS, METHODS, get_method, method_colour, method_names
from wina_core.specs.plugins import TASK_PLUGINS
from wina_core.specs.quantization import QUANTIZER_PLUGINS, check_made
from wina_core.specs.studies import StudySpec
from wina_core.studies.tasks.check_runs import check_names
from wina_core.studies.tasks.index import TaskEntry, TaskIndex, save_index, searchable

BROKEN = """
import sys
from wina_core.specs.methods import Method

class Careless(Method):
    name, summary = "careless", "Names matrices that are not in the block"
    def norms_of(self, name, block, *, fused, rho=None):
        return ("elsewhere",)

def number(): return 3
other = 3
print("on stdout")
"""
SEVERE = """
class Severe(BaseException): ...
raise Severe("at once")
"""
TEMPLATE = {
    METHOD_PLUGINS: {"mean_norm": "wina_example.method:MeanNorm"},
    ALLOCATOR_PLUGINS: {"later": "wina_example.allocator:later_layers"},
    QUANTIZER_PLUGINS: {"extremes": "wina_example.quantizer:quantize"},
    TASK_PLUGINS: {"example": "wina_example.tasks"},
}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the template's package, on the path of this process and its children; this process has looked for
    packages before."""
    assert not any(plugins.names for plugins in TEMPLATE)
    install_template(tmp_path / "packages")
    monkeypatch.syspath_prepend(tmp_path / "packages")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    return tmp_path / "packages"


def in_process(*words: object) -> tuple[str, str]:
    """Run the command line in a process of its own; return stdout and stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "wina_core.cli", *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("engines", [1, pytest.param(0, marks=pytest.mark.nightly)], ids=["here", "processes"])
def test_the_template_runs_and_its_runs_are_read_without_it(tmp_path, wina: Wina, engines: int):
    """With `engines=0`, engine processes compute, which find the package by themselves."""
    source = ModelSource(
        location=str(tiny_folder(tmp_path / "model", layers=1)),
        quantization=QuantizationSpec(quantizer="extremes", group=16),
    )
    text = TextSpec(source=tiny_text(tmp_path), tokens=64, sequence=32)
    study = StudySpec(
        name="template",
        models=(source,),
        configurations=(Configuration(method=MethodSpec(name="mean_norm")),),
        sparsities=(0.5,),
        allocators=(AllocatorSpec(name="later", text=text),),
        evaluation=EvaluationSpec(tasks=("example_capitals",), limit=2, fidelity=text),
    )
    store = ("--database", tmp_path / "results.sqlite")
    with pytest.MonkeyPatch.context() as patch:
        for plugins, values in TEMPLATE.items():
            offer(patch, plugins, **values)
        patch.setattr("wina_core.compute.evaluation.tasks._stock_paths", dict)  # indexing lm-eval's own takes long
        wina_core.run_study(study, engines=engines, database=store[1])
    (row,) = json.loads(wina("results", "--json", *store)[1])
    assert (row["model"], row["method"]) == ("model (4 bits extremes, group 16)", "mean_norm")
    assert 0 <= row["example_capitals acc"] <= 1
    code, _, message = wina("eval", "--method", "mean_norm", *store)
    assert code == 1
    assert 'There is no method "mean_norm"; choose one of dense,' in message


@pytest.mark.usefixtures("installed", "home")
def test_a_broken_package_disables_only_itself_with_one_sentence(tmp_path):
    groups = {
        "wina.methods": {
            "absent": "no_such_module:Method",
            "careless": "broken:Careless",
            "number": "broken:number",
            "wina": "broken:Careless",
        },
        "wina.allocators": {"other": "broken:other"},
        "wina.tasks": {"empty": "broken", "arc_easy": "arc"},
    }
    packages = tmp_path / "packages"
    install(packages, "broken", groups, code=BROKEN)
    install(packages, "later", {"wina.quantizers": {"new": "broken:number"}}, "WINA_Workbench>=9")
    install(packages, "unclear", {"wina.quantizers": {"unclear": "broken:number"}}, "wina workbench")
    install(packages, "severe", {"wina.allocators": {"severe": "severe:it"}}, code=SEVERE)
    (packages / "arc").mkdir()
    (packages / "arc" / "arc_easy.yaml").write_text("task: arc_easy\n")
    out, err = in_process("plugins", "--json")
    problems = {offer["name"]: offer["problem"] for offer in json.loads(out)}
    assert [name for name, problem in problems.items() if not problem] == ["mean_norm", "later", "extremes", "example"]
    assert sorted({*err.splitlines()} - {"on stdout"}) == sorted(filter(None, problems.values())), "each once"
    for name, (package, reason) in {
        "absent": ("broken", "ModuleNotFoundError: No module named 'no_such_module'"),
        "careless": ("broken", "its norms_of('q', ...) is ('elsewhere',), not a tuple of some of ('q', 'k', 'v')"),
        "number": ("broken", "broken:number is no subclass of wina_core.specs.methods.Method"),
        "wina": ("broken", "its name is taken"),
        "other": ("broken", "broken:other is no function"),
        "empty": ("broken", "the folder broken has no file empty.yaml or empty_*.yaml"),
        "arc_easy": ("broken", "lm-eval has a task arc_easy of its own"),
        "new": ("later", "it needs wina-workbench >=9, and this is"),
        "unclear": ("unclear", "InvalidRequirement: "),
        "severe": ("severe", "Severe: at once"),
    }.items():
        assert f'"{name}" of {package} 2.0 is left out ({reason}' in problems[name]
        assert problems[name].endswith("; correct or uninstall that package.")


@pytest.mark.usefixtures("home")
def test_help_names_what_packages_add_without_loading_it(installed, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    (installed / "wina_example" / "__init__.py").write_text("raise SystemExit('loaded')\n")
    words = in_process("eval", "--help")
    assert all(name in words[0] for name in ("mean_norm", "later", "extremes"))
    assert words[1] == ""


@pytest.mark.usefixtures("installed")
def test_a_methods_own_column_weights_are_its_scores_with_norms_folded_or_not(monkeypatch):
    offer(monkeypatch, METHOD_PLUGINS, mean_norm="wina_example.method:MeanNorm")
    assert method_names()[-1] == "mean_norm"
    assert list(METHODS)[-1] == "mean_norm"
    assert method_colour("mean_norm") == "#0072B2"
    loaded = tiny_loaded()
    layer, method = loaded.view.layers[0], get_method(MethodSpec(name="mean_norm"))
    plain = scales_of(method, layer)
    assert torch.equal(plain["down"], layer.projections["down"].weight.abs().mean(0))
    fold_norms(loaded.view, foldable(loaded.view, "all"))
    for name, scale in scales_of(method, layer).items():
        first = next(block[0] for block in (("q", "k", "v"), ("o",), ("gate", "up"), ("down",)) if name in block)
        carried = getattr(layer.module, f"folded_norms_{first}")
        torch.testing.assert_close(scale * carried, plain[name], rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("bits", [8, 4, 3, 2])
def test_a_packages_quantizer_gives_codes_of_any_bits(bits, monkeypatch):
    offer(monkeypatch, QUANTIZER_PLUGINS, extremes="wina_example.quantizer:quantize")
    weight_t = torch.randn(70, 6, generator=torch.Generator().manual_seed(0))
    codes = by_package("extremes", weight_t, bits, 32)
    assert (codes.dequantize() - weight_t).abs().max() <= 1.1 * codes.scale.float().max()


def test_what_a_package_returns_is_checked(tmp_path, monkeypatch):
    (tmp_path / "odd.py").write_text("def quantize(weight_t, bits, group):\n    return weight_t, weight_t[:1], None\n")
    monkeypatch.syspath_prepend(tmp_path)
    offer(monkeypatch, QUANTIZER_PLUGINS, odd="odd:quantize")
    with pytest.raises(
        WinaError, match=r'quantizer "odd" of an unknown package failed \(ValueError: its codes are not'
    ):
        by_package("odd", torch.randn(64, 4), 4, 64)


@pytest.mark.usefixtures("home")
def test_a_packages_task_is_searched_and_never_takes_a_stock_name(installed, monkeypatch):
    (installed / "wina_example" / "tasks" / "arc_easy.yaml").write_text("task: arc_easy\n")
    offer(monkeypatch, TASK_PLUGINS, example="wina_example.tasks")
    stock = TaskIndex([TaskEntry("arc_easy", "task", "multiple_choice", "arc.yaml")])
    assert searchable(stock).search("capitals")[0].name == "example_capitals"
    evaluation = resolve_data(EvaluationSpec(tasks=("example_capitals",)))
    assert resolve_data(evaluation) == evaluation
    assert evaluation.task_folders[0].endswith("wina_example/tasks")
    assert UserTasks(evaluation.task_folders, {}).index.keys() == {"example_capitals"}
    run = RunSpec(model=ModelSource(location="demo"), evaluation=evaluation)
    pending = PendingRun(spec=run, units=evaluation.units)
    save_index(stock)
    check_names([pending])
    save_index(TaskIndex([TaskEntry("example_capitals", "task", "multiple_choice", "other.yaml")]))
    with pytest.raises(WinaError, match=r'"example_capitals" of lm-eval has the same name as .*; uninstall the'):
        check_names([pending])


def test_unknown_names_are_read_from_files_and_refused_before_anything_is_loaded():
    plan = AllocatedSparsity(sparsity=0.5, allocator=AllocatorSpec(name="elsewhere", seed=3))
    assert plan.provenance == "elsewhere (seed 3)"
    with pytest.raises(WinaError, match=r'no allocator "elsewhere"; choose one of uniform, .*, or install the'):
        check_allocator(plan)
    with pytest.raises(WinaError, match='There is no quantizer "elsewhere"; choose one of rtn, hqq, gptq, planes,'):
        check_made(QuantizationSpec(quantizer="elsewhere"))
    assert ALLOCATOR_PLUGINS.names == ()
