"""`wina export-gguf` runs llama.cpp's converter on plain models alone, and compares perplexities where it can."""

import json
import os
from pathlib import Path

import pytest

from tests.wina_core.tiny import tiny_folder, tiny_text
from wina_core.compute.gguf import convert
from wina_core.records.plans import PerplexityPair

CONVERTER = """
import os, sys
from pathlib import Path
folder, _, file, _, kind = sys.argv[1:]
assert os.environ["HF_HUB_OFFLINE"] == "1"
if (Path(folder) / "refused").exists():
    print("ERROR:hf-to-gguf:Model tiny is not supported", file=sys.stderr)
    sys.exit(1)
Path(file).write_text("" if (Path(folder) / "forgotten").exists() else f"GGUF {Path(folder).name} {kind}")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tiny_folder(tmp_path / "model")


@pytest.fixture
def llama_cpp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of llama.cpp with a converter that writes its arguments, and no package that could read that."""
    place = tmp_path / "llama.cpp"
    place.mkdir()
    (place / "convert_hf_to_gguf.py").write_text(CONVERTER)
    monkeypatch.setattr(convert, "find_spec", lambda _: None)
    return place


def test_a_plain_model_is_converted_whole_or_not_at_all(wina, folder, llama_cpp, tmp_path, monkeypatch):
    file = tmp_path / "model.gguf"
    shown = wina.succeeds("export-gguf", folder, file, "--converter", llama_cpp, "--outtype", "f16")
    assert str(file) in shown
    assert file.read_text() == "GGUF model f16"
    assert wina.fails(1, "export-gguf", folder, file, "--converter", llama_cpp).endswith("choose another name.")
    (folder / "forgotten").touch()
    reason = wina.fails(1, "export-gguf", folder, tmp_path / "other.gguf", "--converter", llama_cpp)
    assert "wrote no GGUF file" in reason
    (folder / "refused").touch()
    monkeypatch.setenv("LLAMA_CPP", str(llama_cpp))
    reason = wina.fails(1, "export-gguf", folder, tmp_path / "other.gguf")
    assert reason.endswith(f"did not convert {folder} (Model tiny is not supported).")
    assert not list(tmp_path.glob("*other*")) + list(tmp_path.glob(".*"))


def test_what_no_gguf_file_holds_is_refused(wina, folder, llama_cpp, tmp_path, monkeypatch):
    def refusal(place: Path) -> str:
        return str(wina.fails(1, "export-gguf", place, tmp_path / "model.gguf", "--converter", llama_cpp))

    shortcuts, text = tmp_path / "shortcuts", tiny_text(tmp_path)
    flags = ("--rotation", "per_layer", "--rotation-text", text, "--rotation-tokens", 512)
    wina.succeeds("rotate", folder, *flags, "--output-path", shortcuts)
    assert "--rotation global or free" in refusal(shortcuts)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"auto_map": {"AutoConfig": "config.Config"}}))
    assert refusal(folder).endswith("remove auto_map.")
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": {"quant_method": "wina"}}))
    assert "exported sparse model" in refusal(folder)
    monkeypatch.delenv("LLAMA_CPP", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "--converter or LLAMA_CPP" in wina.fails(1, "export-gguf", "demo", tmp_path / "model.gguf")


@pytest.mark.parametrize(("found", "fits"), [(10.05, True), (10.2, False), (float("nan"), False)])
def test_another_perplexity_is_another_model(found: float, fits: bool) -> None:
    pair = PerplexityPair(text="text", tokens=8, transformers=10.0, llama_cpp=found, same_tokens=True)
    assert convert.is_same_model(pair) == fits


@pytest.mark.skipif("LLAMA_CPP" not in os.environ, reason="LLAMA_CPP names no folder of llama.cpp")
def test_the_rotated_demo_is_the_same_model_in_llama_cpp(wina, tmp_path):
    pytest.importorskip("llama_cpp", reason="the optional extra `peers`")
    wina.succeeds("rotate", "demo", "--rotation", "global", "--output-path", tmp_path / "rotated")
    found = json.loads(wina.succeeds("export-gguf", tmp_path / "rotated", tmp_path / "demo.gguf", "--json"))
    pair = found["perplexity"]
    assert pair["llama_cpp"] == pytest.approx(pair["transformers"], rel=2e-3)
    assert pair["same_tokens"]
    unknown = wina.fails(1, "export-gguf", tiny_folder(tmp_path / "tiny"), tmp_path / "tiny.gguf")
    assert "pre-tokenizer was not recognized" in unknown
