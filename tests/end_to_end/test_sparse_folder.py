"""Exported sparse models outside the workbench: the Playground's tokens, and nothing read or run but the folder."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline
from wina_kernels import tuning

import wina_core.hf  # noqa: F401 - transformers knows the folders from here on
from wina_core.compute.reporter import NullReporter
from wina_core.compute.session.model_session import Session
from wina_core.engine.protocol import Event, ExportModelJob, GenerateJob, Token
from wina_core.engine.server.run_job import run_job
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

PROMPT = "The rows of a matrix"
PLANES = QuantizationSpec(quantizer="planes", bits=6)
ROTATION = RotationSpec(text=TextSpec(tokens=512, sequence=128))


@pytest.fixture(scope="module", autouse=True)
def measured_kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Choose the kernels once for all tests of this module."""
    folder = tmp_path_factory.mktemp("kernels")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "folder", lambda: folder)
        yield


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, RunSpec]:
    """A sparse model in float32 that no test changes."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("plain")
        patch.setenv("WINA_HOME", str(folder / "home"))
        return exported(folder / "sparse")


def exported(folder: Path, quantization: Quantization = "none", dense_prefix: float = 0.0) -> tuple[Path, RunSpec]:
    spec = RunSpec(
        model=ModelSource(location="demo", dtype="float32", device="cpu", quantization=quantization),
        rotation=ROTATION,
        method=MethodSpec(name="wina"),
        plan=UniformSparsity(sparsity=0.5),
        evaluation=EvaluationSpec(tasks=(), dense_prefix=dense_prefix),
    )
    run_job(ExportModelJob(spec=spec, folder=str(folder)), Session(), lambda _: None, NullReporter())
    return folder, spec


@pytest.mark.parametrize(
    ("quantization", "tokens"), [("none", 128), ("int8", 32), (PLANES, 16)], ids=["float32", "int8", "planes"]
)
def test_greedy_tokens_are_those_of_the_playground(
    quantization: Quantization, tokens: int, plain: tuple[Path, RunSpec], tmp_path: Path
) -> None:
    folder, spec = plain if quantization == "none" else exported(tmp_path / "sparse", quantization)
    job = GenerateJob(
        model=spec.model,
        prompt=PROMPT,
        new_tokens=tokens,
        configurations=(CompletionSpec(rotation=spec.rotation, method=spec.method, plan=spec.plan),),
    )
    events: list[Event] = []
    run_job(job, Session(), events.append, NullReporter())
    expected = [event.id for event in events if isinstance(event, Token)]
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(PROMPT, return_tensors="pt").input_ids
    found = model.generate(ids, max_new_tokens=tokens, do_sample=False)[0, ids.shape[1] :].tolist()
    assert found == expected
    assert len(found) > tokens / 3


def test_a_dense_prefix_is_kept_and_pipelines_work(plain: tuple[Path, RunSpec], tmp_path: Path) -> None:
    folder, _ = plain
    prefixed, _ = exported(tmp_path / "prefixed", dense_prefix=0.5)
    ids = torch.arange(20)[None]
    with torch.no_grad():
        logits = [AutoModelForCausalLM.from_pretrained(each)(ids).logits for each in (folder, prefixed)]
    assert not torch.allclose(logits[0][:, 5], logits[1][:, 5])
    text = pipeline("text-generation", model=str(folder))(PROMPT, max_new_tokens=5, do_sample=False)[0][
        "generated_text"
    ]
    assert text.startswith(PROMPT)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("quantization", ["none", "int8", PLANES], ids=["float32", "int8", "planes"])
def test_logits_and_counts_on_a_gpu_are_those_of_the_processor(quantization: Quantization, tmp_path: Path) -> None:
    folder, _ = exported(tmp_path / "sparse", quantization)
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


def test_loading_reads_and_runs_nothing_but_the_folders_data(plain: tuple[Path, RunSpec], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(plain[0], tmp_path / "sparse"))
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
