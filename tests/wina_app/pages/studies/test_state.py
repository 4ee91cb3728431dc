"""What the Studies page says that a study consists of."""

from wina_app.pages.studies.study_state import facts, label_runs

from tests.wina_app.studies import DEMO, PAPER, ROLE, write
from wina_core.specs import Configuration, MethodSpec, ModelSource, RotationSpec
from wina_core.specs.studies import StudySpec
from wina_core.studies.expand import labelled, load_study


def test_a_study_tells_what_it_consists_of(tmp_path):
    shown = dict(facts(load_study(write(tmp_path, "paper", PAPER))))
    assert shown["Models"] == ROLE
    assert shown["Configurations"] == "dense  ·  TEAL  ·  WINA"
    assert shown["Sparsities"] == "25, 50 %"
    assert shown["Tasks"] == "piqa"
    shown = dict(facts(load_study(write(tmp_path, "demo", DEMO))))
    assert shown["Timed products"] == "1 shape  ·  batch 1  ·  50 %  ·  dense, wina"


def test_runs_are_called_by_their_configuration_and_bits_where_there_are_several():
    study = StudySpec(
        name="bits",
        models=(ModelSource(location="demo"), ModelSource(location="demo", quantization="int8")),
        configurations=(Configuration(name="TEAL-transform", method=MethodSpec(name="teal"), rotation=RotationSpec()),),
        sparsities=(0.5,),
    )
    assert sorted(label_runs(study, labelled(study)).values()) == ["INT8, TEAL-transform", "TEAL-transform"]
