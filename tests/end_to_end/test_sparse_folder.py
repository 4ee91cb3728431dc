"""Exported sparse models outside the workbench: the Playground's tokens, and nothing read or run but the folder."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline
from transformers.quantizers import auto

import wina_core.hf  # noqa: F401 - transformers knows the folders from here on
from wina_core.compute.gating import attach
from wina_core.compute.models.loading import load_model
from wina_core.compute.reporter import NullReporter
from wina_core.compute.session.model_session import Session
from wina_core.engine.server.run_job import run_job
from wina_core.jobs import Event, ExportModelJob, GenerateJob, Token
from wina_core.specs import (
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    Quantization,
    QuantizationSpec,
    RotationSpec,
    RunSpec,
    TextSpec,
)
from wina_core.specs.generation import CompletionSpec
from wina_core.specs.plans import SparsityPlan, UniformSparsity

PROMPT = "The rows of a matrix"
Plan = UniformSparsity | SparsityPlan
DEMO = ModelSource(location="demo", dtype="float32", device="cpu")
HALF = UniformSparsity(sparsity=0.5)
PLANES = QuantizationSpec(quantizer="planes", bits=6)
ROTATION = RotationSpec(text=TextSpec(tokens=512, sequence=128))


def uneven() -> SparsityPlan:
    layout = load_model(DEMO, NullReporter()).view.layout
    return SparsityPlan(layout=layout, sparsity=[[0.25 + layer % 2 / 2] * 7 for layer in range(layout.layers)])


@pytest.fixture(scope="module")
def session() -> Session:
    """Keeps the rotated model."""
    return Session()


def exported(
    session: Session, folder: Path, quantization: Quantization = "none", dense_prefix: float = 0.0, plan: Plan = HALF
) -> tuple[Path, RunSpec]:
    spec = RunSpec(
        model=DEMO.model_copy(update={"quantization": quantization}),
        rotation=ROTATION,
        method=MethodSpec(name="wina"),
        plan=plan,
        evaluation=EvaluationSpec(tasks=(), dense_prefix=dense_prefix),
    )
    run_job(ExportModelJob(spec=spec, folder=str(folder)), session, lambda _: None, NullReporter())
    return folder, spec


@pytest.mark.parametrize(
    ("quantization", "plan", "tokens"),
    [  # every kind of weights and plan is in wina_core/compute/sparse, on small models
        pytest.param("none", lambda: HALF, 24, id="float32"),
        pytest.param("none", uneven, 12, id="plan", marks=pytest.mark.nightly),
        pytest.param("int8", lambda: HALF, 12, id="int8", marks=pytest.mark.nightly),
        pytest.param(PLANES, lambda: HALF, 12, id="planes", marks=pytest.mark.nightly),
    ],
)
def test_greedy_tokens_are_those_of_the_playground(
    session: Session, quantization: Quantization, plan: Callable[[], Plan], tokens: int, tmp_path: Path
) -> None:
    folder, spec = exported(session, tmp_path / "sparse", quantization, plan=plan())
    job = GenerateJob(
        model=spec.model,
        prompt=PROMPT,
        new_tokens=tokens,
        configurations=(CompletionSpec(rotation=spec.rotation, method=spec.method, plan=spec.plan),),
    )
    events: list[Event] = []
    run_job(job, session, events.append, NullReporter())
    expected = [event.id for event in events if isinstance(event, Token)]
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(PROMPT, return_tensors="pt").input_ids
    found = model.generate(ids, max_new_tokens=tokens, do_sample=False)[0, ids.shape[1] :].tolist()
    assert found == expected
    assert len(found) > tokens / 3


@pytest.mark.nightly  # by day wina_core/compute/sparse has a dense prefix on small models
def test_a_dense_prefix_is_kept_and_pipelines_work(session: Session, tmp_path: Path) -> None:
    plain, _ = exported(session, tmp_path / "plain")
    prefixed, spec = exported(session, tmp_path / "prefixed", dense_prefix=0.5)
    prompt = AutoTokenizer.from_pretrained(prefixed)(PROMPT, return_tensors="pt").input_ids
    live = session.prepare(spec.model, spec.rotation, NullReporter())
    models = AutoModelForCausalLM.from_pretrained(prefixed), live.model
    with attach(live, spec.method, HALF, dense_prefix=0.5, kernels=True):
        one, other = (each.generate(prompt, max_new_tokens=12, do_sample=False) for each in models)
    assert torch.equal(one, other)
    ids = torch.arange(20)[None]
    with torch.no_grad():
        logits = [AutoModelForCausalLM.from_pretrained(each)(ids).logits for each in (plain, prefixed)]
    assert not torch.allclose(logits[0][:, 5], logits[1][:, 5])
    text = pipeline("text-generation", model=str(plain))(PROMPT, max_new_tokens=5, do_sample=False)[0]["generated_text"]
    assert text.startswith(PROMPT)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("quantization", ["none", "int8", PLANES], ids=["float32", "int8", "planes"])
def test_logits_and_counts_on_a_gpu_are_those_of_the_processor(
    session: Session, quantization: Quantization, tmp_path: Path
) -> None:
    folder, _ = exported(session, tmp_path / "sparse", quantization)
    ids, found = torch.arange(1, 33).view(2, 16), []
    for device in ("cpu", "cuda"):
        for model in (
            AutoModelForCausalLM.from_pretrained(folder, device_map=device),
            AutoModelForCausalLM.from_pretrained(folder).to(device),
        ):
            with torch.no_grad():
                prompt = model(ids[:, :-1].to(device), use_cache=True)
                step = model(ids[:, -1:].to(device), past_key_values=prompt.past_key_values)
            found.append((torch.cat([prompt.logits, step.logits], 1).cpu(), model.wina.gates.gated_sparsity))
    for logits, sparsity in found[1:]:
        assert float((logits - found[0][0]).norm() / found[0][0].norm()) < 1e-2
        assert sparsity == pytest.approx(found[0][1], abs=1e-3)


def test_transformers_alone_refuses_the_folder_in_one_sentence(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = exported(session, tmp_path / "sparse")
    AutoModelForCausalLM.from_pretrained(folder).save_pretrained(tmp_path / "again")
    monkeypatch.delitem(auto.AUTO_QUANTIZATION_CONFIG_MAPPING, "wina")  # as without the import
    for each in (folder, tmp_path / "again"):
        with pytest.raises(ValueError, match=r"a sparse model: install wina-workbench and import wina_core\.hf before"):
            AutoModelForCausalLM.from_pretrained(each)


WATCHED = """
import sys
from transformers import AutoModelForCausalLM
import wina_core.hf
folder, seen = sys.argv[1], []
def hook(event, given):
    if event == "open" and isinstance(given[0], str) and given[0].endswith((".json", ".safetensors", ".bin", ".py")):
        seen.append(given[0])
    if event in ("exec", "compile", "import") and folder in str(given):
        seen.append("code: " + str(given)[:200])
    if event.startswith("socket.connect"):
        seen.append("network")
sys.addaudithook(hook)
AutoModelForCausalLM.from_pretrained(folder)
print("\\n".join(seen))
"""


def test_loading_reads_and_runs_nothing_but_the_folders_data(session: Session, tmp_path: Path) -> None:
    folder, _ = exported(session, tmp_path / "sparse")
    content = json.loads((folder / "config.json").read_text())
    content["auto_map"] = {"AutoModelForCausalLM": "modeling_own.Own"}
    (folder / "config.json").write_text(json.dumps(content))
    (folder / "modeling_own.py").write_text("raise SystemExit('code of the folder ran')\n")
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, folder], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    opened = {Path(line) for line in done.stdout.splitlines() if not line.startswith("code: ")}
    assert "code: " not in done.stdout
    assert "network" not in done.stdout
    libraries = Path(sys.prefix)
    assert {each for each in opened if libraries not in each.parents} <= set(folder.iterdir()) | {
        each for each in opened if "site-packages" in str(each) or "/lib/python" in str(each)
    }
    assert folder / "config.json" in opened
