"""Exported sparse models outside the workbench: the Playground's tokens, and nothing read or run but the folder."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.quantizers import auto

import wina_core.hf  # noqa: F401 - transformers knows the folders from here on
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
from wina_core.specs.plans import UniformSparsity

PROMPT, TOKENS = "The rows of a matrix", 24
DEMO = ModelSource(location="demo", dtype="float32", device="cpu")
HALF = UniformSparsity(sparsity=0.5)
PLANES = QuantizationSpec(quantizer="planes", bits=6)
ROTATION = RotationSpec(text=TextSpec(tokens=512, sequence=128))


@pytest.fixture(scope="module")
def session() -> Session:
    """Keeps the rotated model."""
    return Session()


def exported(session: Session, folder: Path, quantization: Quantization = "none") -> tuple[Path, RunSpec]:
    spec = RunSpec(
        model=DEMO.model_copy(update={"quantization": quantization}),
        rotation=ROTATION,
        method=MethodSpec(name="wina"),
        plan=HALF,
        evaluation=EvaluationSpec(tasks=()),
    )
    run_job(ExportModelJob(spec=spec, folder=str(folder)), session, lambda _: None, NullReporter())
    return folder, spec


def test_greedy_tokens_are_those_of_the_playground(session: Session, tmp_path: Path) -> None:
    """Every kind of weights and plan is in wina_core/compute/sparse, on small models."""
    folder, spec = exported(session, tmp_path / "sparse")
    job = GenerateJob(
        model=spec.model,
        prompt=PROMPT,
        new_tokens=TOKENS,
        configurations=(CompletionSpec(rotation=spec.rotation, method=spec.method, plan=spec.plan),),
    )
    events: list[Event] = []
    run_job(job, session, events.append, NullReporter())
    expected = [event.id for event in events if isinstance(event, Token)]
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(PROMPT, return_tensors="pt").input_ids
    found = model.generate(ids, max_new_tokens=TOKENS, do_sample=False)[0, ids.shape[1] :].tolist()
    assert found == expected
    assert len(found) > TOKENS / 3


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
