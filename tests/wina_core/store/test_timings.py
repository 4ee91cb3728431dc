"""How long like measurements took, as the store has it."""

from pathlib import Path

from tests.wina_core.samples import ENVIRONMENT, MODEL, run, study, unit
from wina_core.specs import DENSE, FIDELITY, EvaluationSpec
from wina_core.specs.runs import measurement_key
from wina_core.store import Store


def test_the_median_of_like_units_is_given_and_others_are_left_out(tmp_path: Path) -> None:
    gated, dense = [run(sparsity) for sparsity in (0.25, 0.5, 0.75)], run(0.0, method=DENSE)
    other = run(0.5).model_copy(update={"model": MODEL.model_copy(update={"dtype": "bfloat16"})})
    with Store(tmp_path / "results.sqlite") as store:
        store.save_study(study(), [*gated, dense, other])
        for spec, seconds in zip([*gated, dense, other], (1.0, 2.0, 90.0, 0.5, 7.0), strict=True):
            store.begin_run(spec.content_hash(), ENVIRONMENT)
            store.record_unit(unit(spec).model_copy(update={"seconds": seconds}))
        seconds_by_key = store.unit_seconds([run(0.1), dense])
        assert seconds_by_key == {measurement_key(gated[0], "choice"): 2.0, measurement_key(dense, "choice"): 0.5}
        assert store.unit_seconds([run(0.1)], ENVIRONMENT.hardware) == {measurement_key(gated[0], "choice"): 2.0}
        assert store.unit_seconds([run(0.1)], "another machine") == {}
        fewer = run(0.1).model_copy(update={"evaluation": EvaluationSpec(tasks=("choice",), limit=5)})
        assert store.unit_seconds([fewer]) == {}
        assert measurement_key(gated[0], FIDELITY) not in seconds_by_key
