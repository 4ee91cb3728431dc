"""Remarks of reports on weights that were quantized before."""

from pathlib import Path

from tests.wina_core.report.report_study import fill, runs, study
from tests.wina_core.samples import summary
from tests.wina_core.tiny_gguf import tiny_gguf
from wina_core.model_info.resolve import resolve
from wina_core.report import write_up
from wina_core.report.findings import gguf_remarks
from wina_core.specs import ModelSource
from wina_core.store import Store


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
