"""From ticks to a study, to what is stored of it, to jobs."""

from dataclasses import replace
from pathlib import Path

import pytest
from wina_app.pages.evaluate.controller import EvaluateController
from wina_app.pages.evaluate.page import EvaluatePage
from wina_app.shared.evaluation_choice import EvaluationChoice, build_study
from wina_app.shared.run_grid import Grid

from tests.wina_app.fakes import Recorded, done, load, make_workbench
from tests.wina_app.stored_runs import summary
from wina_core.jobs import EvaluateJob, Partial
from wina_core.model_info.resolve import resolve
from wina_core.records import MetricRecord, UnitRecord
from wina_core.specs import DENSE, NO_ROTATION, AllocatorSpec, Configuration, MethodSpec, ModelSource, RotationSpec
from wina_core.specs.plans import SparsityPlan
from wina_core.specs.presets import PRESETS
from wina_core.store.imported.candidate import read_import
from wina_core.studies.expand import expand, load_study
from wina_core.studies.tasks.index import TaskEntry, TaskIndex, save_index

WINA, TEAL = MethodSpec(name="wina"), MethodSpec(name="teal")
CHOICE = EvaluationChoice(
    name="Evaluation",
    tasks=("demo_choice",),
    task_folders=(),
    data_folder="",
    limit=None,
    num_fewshot=None,
    batch_size=16,
    dense_prefix=0.0,
    fidelity="demo:heldout",
    fidelity_tokens=16_384,
    calibration="demo:calibration",
    thresholds="gated",
    methods=(DENSE, TEAL, WINA),
    rotations=(NO_ROTATION, RotationSpec()),
    configurations=(),
    sparsities="25, 50",
    allocators=(AllocatorSpec(),),
    with_plan=False,
)
DEMO = resolve(ModelSource(location="demo"))


class Bench:
    """A controller with the demo open, and all that it talks to."""

    def __init__(self, folder: Path) -> None:
        self.workbench, self.engine, self.store = make_workbench(folder)
        self.view = Recorded(EvaluatePage, choice=CHOICE)
        self.controller = EvaluateController(self.workbench, self.view)

    def choose(self, **changes: object) -> None:
        self.view.returns(choice=replace(CHOICE, **changes))

    @property
    def grid(self) -> Grid:
        """What is counted now."""
        self.controller.count()
        return self.view.last("show_grid")


@pytest.fixture
def empty(tmp_path, qapp):  # noqa: ARG001 - signals need an application
    made = Bench(tmp_path)
    yield made
    made.store.store.close()


@pytest.fixture
def bench(empty):
    load(empty.workbench, DEMO)
    return empty


def finish(engine):
    """Complete every unit of the last job."""
    units = [(run.spec.content_hash(), unit) for run in engine.last.job.runs for unit in run.units]
    metric = MetricRecord(task="t", metric="acc", value=0.5)
    events = [
        lambda job_id, run=run, unit=unit: Partial(
            job_id=job_id, unit=UnitRecord(run=run, unit=unit, metrics=(metric,), seconds=1.0)
        )
        for run, unit in units
    ]
    engine.answer(*events, done())


def test_the_tasks_follow_when_a_model_of_another_kind_is_opened(empty, tmp_path):
    for source in (DEMO, DEMO, ModelSource(location=str(tmp_path)), DEMO):
        load(empty.workbench, source)
    assert empty.view.calls("suit_model") == [{"is_demo": True}, {"is_demo": False}, {"is_demo": True}]


def test_the_models_template_is_offered_and_decides_the_hash(empty):
    for has in (False, True):
        load(empty.workbench, DEMO, summary().model_copy(update={"chat_template": has}))
        assert empty.view.calls("show_template")[-1] == {"available": has}
    plain, framed = (
        build_study(replace(CHOICE, chat_template=chosen), DEMO, None).evaluation for chosen in (False, True)
    )
    assert (plain.chat_template, framed.chat_template) == (False, True)
    assert plain.content_hash() != framed.content_hash()


def test_dense_is_one_run_and_every_other_configuration_one_per_sparsity(bench):
    grid = bench.grid
    assert grid.columns == ("dense", "25 %", "50 %")
    assert grid.rows == ("dense", "teal", "teal, global + heads", "wina", "wina, global + heads")
    assert (grid.to_do, grid.stored, len(grid.cells)) == (9, 0, 9)
    assert grid.cells["wina", "50 %"].text == "to do"


def test_positions_follow_numbers_imported_for_the_model_once(bench):
    bench.controller.count()
    assert bench.view.calls("suit_imports") == []
    log = Path(__file__).parents[3] / "wina_core" / "store" / "imported" / "data" / "kl.log"
    bench.store.store.record_import(read_import(log)[0], DEMO)
    bench.controller.count()
    bench.controller.count()
    assert len(bench.view.calls("suit_imports")) == 1, "the user may choose others afterwards"


def test_a_preset_that_measures_reads_the_calibration_text():
    auto = PRESETS["wina-auto"]
    choice = replace(CHOICE, configurations=(auto,))
    assert build_study(choice, DEMO, None).configurations[-1] == auto
    prose = build_study(replace(choice, calibration="prose.txt"), DEMO, None).configurations[-1]
    assert (prose.rotation.text.source, prose.allocators[0].text.source) == ("prose.txt", "prose.txt")


def test_an_answer_of_the_store_that_comes_late_does_not_replace_a_later_choices(bench, monkeypatch):
    waiting, refusals = [], []

    def ask(question, answer, refused):
        waiting.append((question, answer))
        refusals.append(refused)

    monkeypatch.setattr(bench.store, "ask", ask)
    bench.controller.count()
    bench.choose(sparsities="65")
    bench.controller.count()
    refusals[0]("There is no such task.")
    assert bench.view.last("show_problem") == ""
    for question, answer in reversed(waiting):
        answer(question(bench.store.store))
    assert len(waiting) == 2
    assert [grid.columns for grid in bench.view.calls("show_grid")] == [("dense", "65 %")]


def test_an_unknown_task_is_told_before_anything_is_queued(bench):
    save_index(TaskIndex([TaskEntry("hellaswag", "task", "multiple_choice", "hellaswag/hellaswag.yaml")]))
    bench.choose(tasks=("demo_choice", "helaswag"))
    bench.controller.count()
    assert bench.view.last("show_problem") == 'There is no task "helaswag"; did you mean hellaswag?'
    bench.controller.evaluate()
    assert bench.view.last("show_error") == 'There is no task "helaswag"; did you mean hellaswag?'
    assert not bench.engine.submitted
    assert bench.store.store.studies() == []


def test_what_is_counted_is_what_is_queued_and_the_study_is_kept(bench):
    bench.controller.evaluate()
    study = build_study(CHOICE, DEMO, None)
    job = bench.engine.last.job
    assert isinstance(job, EvaluateJob)
    assert [run.spec for run in job.runs] == list(expand(study))
    assert bench.store.store.study_spec(study.content_hash()) == study
    grid = bench.grid
    assert (grid.to_do, grid.queued) == (0, 9)


def test_queued_runs_are_not_queued_twice(bench):
    bench.controller.evaluate()
    bench.controller.evaluate()
    assert len(bench.engine.submitted) == 1
    assert bench.view.last("show_notice") == "Every run of this study is stored or queued already."
    bench.choose(sparsities="25, 50, 65")
    bench.controller.evaluate()
    assert len(bench.engine.last.job.runs) == 4


def test_stored_runs_are_counted_and_only_missing_units_are_computed(bench):
    bench.choose(tasks=())
    bench.controller.evaluate()
    finish(bench.engine)
    assert bench.grid.stored == 9
    bench.choose()
    grid = bench.grid
    assert (grid.stored, grid.to_do) == (0, 9)
    assert {run.text for run in grid.cells.values()} == {"1 of 2 stored"}, "the fidelity is reused"


def test_a_cancelled_job_leaves_its_runs_to_do_again(bench):
    bench.controller.evaluate()
    run = bench.engine.last.job.runs[0]
    unit = UnitRecord(run=run.spec.content_hash(), unit=run.units[0], metrics=(), seconds=1.0)
    bench.engine.answer(lambda job_id: Partial(job_id=job_id, unit=unit), done(cancelled=True))
    grid = bench.grid
    assert (grid.to_do, grid.queued) == (9, 0)
    assert grid.cells["dense", "dense"].text == "1 of 2 stored"
    assert "cancelled" in bench.view.last("show_notice")


def test_what_cannot_be_a_study_is_said_in_one_sentence(bench):
    for change, message in (
        ({"methods": ()}, "No method is chosen"),
        ({"rotations": ()}, "No rotation is chosen"),
        ({"sparsities": ""}, "No sparsity is given"),
        ({"sparsities": "25, 100"}, "A sparsity of 100 % is not possible; each must be at least 0 and below 100 %."),
        ({"sparsities": "-1"}, "A sparsity of -1 % is not possible"),
        ({"sparsities": "nan"}, "A sparsity of nan % is not possible"),
        ({"sparsities": "half"}, '"half" is not a number; list sparsities in percent'),
        ({"allocators": ()}, "No allocation is chosen"),
        ({"tasks": (), "fidelity": None}, "Nothing would be measured"),
    ):
        bench.choose(**change)
        bench.controller.count()
        assert message in bench.view.last("show_problem")
        bench.controller.evaluate()
        assert not bench.engine.submitted


def test_the_current_plan_is_a_column_of_its_own(empty):
    load(empty.workbench, DEMO, summary())
    plan = SparsityPlan.uniform(summary().layout, 0.3).with_cells({(0, 0): 0.9})
    empty.workbench.workspace.set_plan(plan)
    empty.choose(with_plan=True, methods=(WINA,))
    empty.controller.count()
    assert empty.view.last("show_grid").columns == ("25 %", "50 %", f"plan\n{100 * plan.budget:.1f} %")


def test_every_allocator_has_a_column_for_every_sparsity(bench):
    allocators = (
        AllocatorSpec(),
        AllocatorSpec(name="greedy", variant="wina_released"),
        AllocatorSpec(name="refine"),
        AllocatorSpec(name="refine", rounds=1),
    )
    bench.choose(methods=(DENSE, WINA), rotations=(NO_ROTATION,), allocators=allocators)
    grid = bench.grid
    assert grid.columns == (
        "dense", "25 %", "50 %", "greedy (as released by WINA)\n25 %", "greedy (as released by WINA)\n50 %",
        "refine\n25 %", "refine\n50 %", "refine (1 round)\n25 %", "refine (1 round)\n50 %",
    )  # fmt: skip
    assert grid.to_do == 9
    bench.controller.evaluate()
    plans = [run.spec.plan for run in bench.engine.last.job.runs]
    assert [plan.allocator.name for plan in plans if plan.kind == "allocated"] == ["greedy"] * 2 + ["refine"] * 4


def test_a_named_configuration_is_one_row_whatever_rotations_are_ticked(bench):
    configuration = Configuration(method=TEAL, rotation=RotationSpec(mode="per_layer"))
    bench.choose(methods=(), configurations=(configuration,))
    assert bench.grid.rows == ("teal, per_layer + heads",)
    rotations = (NO_ROTATION, configuration.rotation)
    bench.choose(methods=(TEAL,), rotations=rotations, configurations=(configuration,))
    assert bench.grid.rows == ("teal", "teal, per_layer + heads"), "the same configuration twice is one row"


def test_samples_and_consent_are_those_of_one_launch_and_part_of_no_spec(bench):
    bench.choose(samples=True, run_model_code=True)
    bench.controller.evaluate()
    job = bench.engine.last.job
    assert (job.samples, job.run_model_code) == (True, True)
    assert bench.view.calls("withdraw_consent")
    assert {run.spec.content_hash() for run in job.runs} == {
        run.content_hash() for run in expand(build_study(CHOICE, DEMO, None))
    }


def test_with_samples_runs_that_are_stored_without_them_are_to_do(bench):
    bench.choose(methods=(DENSE,), fidelity=None)
    bench.controller.evaluate()
    finish(bench.engine)
    assert bench.grid.stored == 1
    bench.choose(methods=(DENSE,), fidelity=None, samples=True)
    assert bench.grid.to_do == 1


@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_a_study_is_saved_as_the_file_that_its_suffix_names(bench, tmp_path, suffix):
    choice = replace(CHOICE, batch_size="auto", data_folder="demo")
    bench.view.returns(choice=choice)
    path = tmp_path / f"mine{suffix}"
    bench.controller.save_study(path)
    study = load_study(path)
    assert study == build_study(choice, DEMO, None)
    assert (study.evaluation.batch_size, study.evaluation.data_folder) == ("auto", "demo")
    assert path.read_text().startswith("{") == (suffix == ".json")


def test_the_choice_is_exported_if_it_is_one_sparse_model(bench, tmp_path):
    bench.controller.count()
    assert "8 are chosen" in bench.view.last("show_reason")
    bench.choose(methods=(DENSE, WINA), rotations=(NO_ROTATION,), sparsities="50")
    bench.controller.count()
    assert bench.view.last("show_reason") == ""
    bench.controller.export(tmp_path / "sparse")
    job = bench.engine.last.job
    assert (job.spec.method, job.spec.plan.budget, job.folder) == (WINA, 0.5, str(tmp_path / "sparse"))
