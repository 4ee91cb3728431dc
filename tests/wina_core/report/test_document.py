"""What a report has beside its tables: verdicts on decoding, imported points, remarks on quantized weights."""

from pathlib import Path

import pytest

from tests.wina_core.analysis.comparison.test_worth import timed
from tests.wina_core.report.report_study import fill, runs, study
from tests.wina_core.samples import summary
from tests.wina_core.tiny_gguf import tiny_gguf
from wina_core.model_info.resolve import resolve
from wina_core.report.document import html, markdown, write_up
from wina_core.report.findings import gguf_remarks
from wina_core.specs import ModelSource
from wina_core.specs.latency import DecodePoint
from wina_core.store import Store
from wina_core.store.imported.candidate import read_import

DATA = Path(__file__).parents[1] / "store" / "imported" / "data"


@pytest.fixture
def filled(store: Store):
    fill(store, study())
    return store


def test_only_the_studys_configurations_are_judged(filled: Store):
    wina = next(run for run in runs(study()) if run.method.name == "wina")
    point = DecodePoint(model=wina.model, rotation=wina.rotation, method=wina.method, sparsity=0.5)
    filled.record_decoding(timed(point, 160.0))
    filled.record_decoding(timed(point.model_copy(update={"model": ModelSource(location="other")}), 170.0))
    document = write_up(filled, study(), "study.toml")
    (row,) = document.worth.rows
    assert row[2:5] == ("wina 50 %, rotation none", "160", "900, 0.90 times (0.88 to 0.92)")
    assert row[-2] == "pays: 1.60 times (1.57 to 1.63) PyTorch dense"
    assert "<h2>Will it pay?</h2>" in html(document)


def test_imported_points_of_the_studys_models_are_marked_with_file_and_date(filled: Store):
    model = runs(study())[0].model
    before = write_up(filled, study(), "study.toml")
    assert (before.worth, before.imported) == (None, None)
    for name, source in (("bench.json", model), ("kl.log", ModelSource(location="other"))):
        filled.record_import(read_import(DATA / name)[0], source)
    document = write_up(filled, study(), "study.toml")
    four, eight = document.imported.rows
    assert four[1:3] == (
        "demo-Q4_0.gguf",
        "prefill_tokens_per_s 9120 ± 2.2e+02 tokens/s, tokens_per_s 1310 ± 8.8 tokens/s, memory 4,021,504 bytes, "
        "bits 4.881 bits per weight",
    )
    assert four[3:] == ("llama-bench build 5163 (8cf427ff)", "bench.json", "2026-11-20")
    assert eight[1] == "demo-Q8_0.gguf"
    assert document.imported.title.startswith("Imported, not measured here")
    assert (document.tables, document.contrasts) == (before.tables, before.contrasts)
    assert "## Results of other tools" in markdown(document, "study")


def test_a_file_says_how_it_held_the_weights_while_it_is_the_measured_one(tmp_path: Path) -> None:
    file = tiny_gguf(tmp_path / "tiny.gguf", kind="Q4_0")
    model = resolve(ModelSource(location=str(file)))
    eight = model.model_copy(update={"quantization": "int8"})
    (remark,) = gguf_remarks({model: None, eight: None, ModelSource(location="some/model"): None})
    assert remark.startswith("tiny.gguf: Its weights were quantized before, in a GGUF file (")
    tiny_gguf(file, kind="F32")
    assert gguf_remarks({model: None}) == ()


def test_a_report_has_the_remark_of_a_file_that_lies_elsewhere(store: Store) -> None:
    fill(store, study())
    assert not any("GGUF" in warning for warning in write_up(store, study(), "study.toml").warnings)
    model = runs(study())[0].model
    remarks = ("Its weights were quantized before, in a GGUF file.", "Its weights are stored in bfloat16.")
    store.record_model(model, summary(model).model_copy(update={"remarks": remarks}))
    warnings = write_up(store, study(), "study.toml").warnings
    assert "llama: Its weights were quantized before, in a GGUF file." in warnings
    assert not any("bfloat16" in warning for warning in warnings)
