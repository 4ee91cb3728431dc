"""The report's plot of quality against cost."""

from wina_core.records import MetricRecord, UnitRecord
from wina_core.report.figures import front_panels
from wina_core.report.findings import gather
from wina_core.specs import COST, ORIGINAL, Configuration, EvaluationSpec, MethodSpec, ModelSource, TextSpec
from wina_core.specs.studies import StudySpec
from wina_core.store import Store
from wina_core.studies.expand import labelled, specs_of

MODEL = ModelSource(location="demo")
STUDY = StudySpec(
    name="both",
    models=(MODEL, MODEL.model_copy(update={"quantization": "int8"})),
    configurations=(Configuration(), Configuration(method=MethodSpec(name="wina"))),
    sparsities=(0.5,),
    evaluation=EvaluationSpec(fidelity=None, original=TextSpec(source="demo:heldout"), cost_context=2048),
)


def stored(study: StudySpec, numbers: list[tuple[float, float]]) -> tuple[Store, StudySpec]:
    """Return a store with the KL and the megabytes of each run of a study."""
    store, runs = Store("sqlite://"), specs_of(labelled(study))
    store.save_study(study, runs)
    for run, (kl, megabytes) in zip(runs, numbers, strict=True):
        for unit, metric, value in ((ORIGINAL, "kl", kl), (COST, "net_bytes", 1e6 * megabytes)):
            record = MetricRecord(task=unit, metric=metric, value=value, n=99, higher_is_better=False)
            store.record_unit(UnitRecord(run=run.content_hash(), unit=unit, metrics=(record,), seconds=1.0))
    return store, study


def test_the_bits_of_a_model_share_a_panel_with_one_front() -> None:
    store, study = stored(STUDY, [(0.0, 20.0), (0.05, 15.0), (0.001, 12.0), (0.02, 9.0)])
    with store:
        (panel,) = front_panels(store, gather(store, study, "gated"))
    front, *points = panel.series
    assert (panel.title, panel.log_y, panel.x_title) == ("demo", True, "Bytes read per token (MB)")
    assert front.x == (9.0, 12.0, 12.0, 20.0, 20.0)
    assert front.y == (0.02, 0.02, 0.001, 0.001, 1e-6)
    colours = {series.name: series.colour for series in points}
    assert set(colours) == {"dense", "wina", "int8, dense", "int8, wina"}
    assert colours["wina"] == colours["int8, wina"] + "59", "faded"


def test_without_the_original_there_is_no_panel() -> None:
    evaluation = STUDY.evaluation.model_copy(update={"original": None, "fidelity": TextSpec()})
    with Store("sqlite://") as store:
        study = STUDY.model_copy(update={"evaluation": evaluation})
        store.save_study(study, specs_of(labelled(study)))
        assert front_panels(store, gather(store, study, "gated")) == ()
