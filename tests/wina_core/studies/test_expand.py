"""Studies: what they expand to, and how they are read and written."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.wina_core.studies.shipped_texts import with_shipped_texts
from wina_core.errors import WinaError
from wina_core.files.paths import resources_folder
from wina_core.specs import (
    AS_RELEASED_ROTATION,
    DENSE,
    NO_ROTATION,
    AllocatorSpec,
    CalibrationSpec,
    Configuration,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    RotationSpec,
    TaskSpec,
    TextSpec,
)
from wina_core.specs.latency import LatencySpec, Shape
from wina_core.specs.methods import get_method
from wina_core.specs.plans import PlanLayout, SparsityPlan, UniformSparsity
from wina_core.specs.studies import Role, StudySpec
from wina_core.studies.expand import bind, count_runs, expand, labelled, load_study, roles_of, save_study_file

HUB = ModelSource(location="org/name")
WINA = MethodSpec(name="wina")
PLAN = SparsityPlan.uniform(PlanLayout(projections=("q",), parameters=((4,), (4,))), 0.3)


def _study(*configurations: Configuration, **changes: object) -> StudySpec:
    content = {"name": "s", "models": (HUB,), "configurations": configurations, "sparsities": (0.25, 0.5)} | changes
    return StudySpec.model_validate(content)


def test_a_dense_configuration_gives_one_run_per_rotation() -> None:
    odd_dense = MethodSpec(name="dense", variant="as_released", selection="threshold")
    identity = RotationSpec(mode="none", per_head=False, mlp_basis=("gate",))
    rotated = (Configuration(rotation=each) for each in (identity, AS_RELEASED_ROTATION))
    runs = expand(_study(Configuration(), Configuration(method=odd_dense), *rotated))
    assert [run.rotation for run in runs] == [NO_ROTATION, AS_RELEASED_ROTATION]
    assert all(run.method == DENSE and run.plan == UniformSparsity(sparsity=0.0) for run in runs)
    assert all(run.calibration is None for run in runs)


def test_runs_do_not_depend_on_what_does_not_touch_them() -> None:
    one = expand(_study(Configuration(), evaluation=EvaluationSpec(dense_prefix=0.5)))
    other = expand(_study(Configuration(), calibration=CalibrationSpec(text=TextSpec(tokens=128)), sparsities=(0.9,)))
    assert one == other
    methods = MethodSpec(name="scap", variant="own"), MethodSpec(name="wina", selection="threshold")
    configurations = [Configuration(method=method) for method in methods]
    dense, gated = (
        expand(_study(*configurations, calibration=CalibrationSpec(thresholds=kind), sparsities=(0.5,)))
        for kind in ("dense", "gated")
    )
    assert dense[0] == gated[0], "top k has no thresholds"
    assert dense[0].calibration == CalibrationSpec()
    assert dense[1].calibration == CalibrationSpec(thresholds="dense")


def test_models_are_outermost_and_duplicates_are_dropped() -> None:
    second = ModelSource(location="org/second")
    configurations = (Configuration(method=WINA), Configuration(), Configuration(method=WINA))
    study = _study(*configurations, models=(second, HUB, second), sparsities=(0.5, 0.25, 0.5), plans=(PLAN,))
    runs = [(run.model.location, run.method.name, run.plan.budget) for run in expand(study)]
    expected = ("wina", 0.5), ("wina", 0.25), ("wina", PLAN.budget), ("dense", 0.0)
    assert runs == [(model, *rest) for model in ("org/second", "org/name") for rest in expected]


def test_a_study_with_a_million_runs_is_refused_before_it_is_expanded() -> None:
    sparsities = tuple(i / 1_000_000 for i in range(1_000_000))
    study = StudySpec.model_construct(
        name="huge", models=(HUB,), configurations=(Configuration(method=WINA),), sparsities=sparsities, plans=()
    )
    with pytest.raises(WinaError, match="The study 'huge' expands to 1,000,000 runs, more than 20,000; split it up"):
        expand(study)


TOML = """
name = "Größe & 😀"
sparsities = [0.25, 0.5]
models = [{location = "org/name"}]

[[configurations]]

[[configurations]]
method = {name = "wina"}
rotation = {mode = "per_site"}

[evaluation]
tasks = ["choice"]
"""
LINES = '[\n  "a",  # ]\n  {name = "b", limt = 3}\n]'

SHIPPED = sorted((resources_folder() / "studies").glob("*/*.toml"))


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_every_shipped_study_expands_to_runs_of_every_configuration(file: Path) -> None:
    study = load_study(file)
    study = with_shipped_texts(bind(study, {role.name: "demo" for role in study.roles}))
    assert study.name == file.stem
    runs = labelled(study)
    expected = {(each.method.name, each.rotation) for each in study.configurations}
    assert {(run.spec.method.name, run.spec.rotation) for run in runs} == expected
    for run in runs:
        get_method(run.spec.method)


WORDS = st.text(min_size=1, max_size=20)
SPARSITIES = st.lists(st.floats(0.0, 1.0, exclude_max=True, allow_subnormal=False), min_size=1, max_size=3)
TASKS = st.one_of(
    st.sampled_from(("a", "b")),
    st.builds(TaskSpec, name=st.sampled_from(("c", "d")), num_fewshot=st.none() | st.integers(0, 9), metric=st.none()),
)
EVALUATIONS = st.builds(
    EvaluationSpec,
    tasks=st.lists(TASKS, max_size=3, unique_by=lambda task: task if isinstance(task, str) else task.name),
    limit=st.none() | st.integers(1, 99),
    batch_size=st.just("auto") | st.integers(1, 64),
    fidelity=st.none() | st.builds(TextSpec, tokens=st.integers(64, 999)),
    cost_context=st.none() | st.integers(1, 99),
)
STUDIES = st.builds(
    StudySpec,
    name=WORDS.map(lambda name: "".join(filter(str.isprintable, name)) or "s"),
    description=st.text(max_size=50),
    roles=st.builds(Role, name=WORDS, hub=st.text(max_size=9)).map(lambda role: (role,)),
    models=st.just((HUB, ModelSource(location="a b/\N{SNOWMAN}", dtype="float16"))),
    configurations=st.lists(
        st.sampled_from((Configuration(), Configuration(name="W", method=WINA, rotation=AS_RELEASED_ROTATION))),
        min_size=1,
    ),
    sparsities=SPARSITIES,
    plans=st.sampled_from(((), (PLAN,))),
    evaluation=EVALUATIONS,
    latency=st.none() | st.builds(LatencySpec, shapes=st.just((Shape(outputs=8, inputs=4),))),
)


@pytest.mark.parametrize("suffix", [".toml", ".json"])
@settings(max_examples=60)
@given(study=STUDIES)
def test_whatever_study_is_written_reads_back_equal(
    suffix: str, study: StudySpec, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("study") / f"study{suffix}"
    save_study_file(study, file)
    again = load_study(file)
    assert again == study
    assert again.content_hash() == study.content_hash()


def test_a_roles_model_may_lie_beside_the_file(tmp_path: Path) -> None:
    roles = 'roles = [{name = "Small", location = "../models/small"}]\nmodels = [{location = "role:Small"}]'
    (tmp_path / "s.toml").write_text(TOML.replace('models = [{location = "org/name"}]', roles), encoding="utf-8")
    (role,) = load_study(tmp_path / "s.toml").roles
    assert role.location == str(tmp_path.parent / "models" / "small")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("s.toml", 'name = "a"\nsparsities = [0.5', "is not valid TOML: Unclosed array (at end of document)."),
        ("s.json", '{\n"name": }', "is not valid JSON: Expecting value: line 2 column 9 (char 10)."),
        ("s.json", "[" * 100_000, "is not valid JSON: it is nested too deeply."),
        ("s.toml", TOML.replace("0.5]", "1.5]"), "is invalid: sparsities[1]: it should be less than 1, not"),
        (
            "s.toml",
            TOML.replace('["choice"]', LINES),
            "is invalid: evaluation.tasks[1].limt: there is no such setting.",
        ),
        (
            "s.json",
            '{"name": "x", "schema_version": 3, "new": {}}',
            "has the schema_version 3, and this program reads 2",
        ),
        ("s.json", '{"name": ' + "9" * 5000 + "}", "is not valid JSON: Exceeds the limit"),
    ],
)
def test_a_fault_in_a_file_is_named_by_line_or_field(tmp_path: Path, name: str, content: str, reason: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(WinaError) as caught:
        load_study(tmp_path / name)
    assert str(caught.value).startswith(f"The study {tmp_path / name} {reason}")


def test_a_role_stands_for_whatever_model_it_is_mapped_to() -> None:
    """The runs are those of the model itself, so that studies share them whatever they call it."""
    study = _study(Configuration(method=WINA), sparsities=(0.5,)).model_copy(
        update={"roles": (Role(name="Large", hub="ada/large"),), "models": (ModelSource(location="role:Large"),)}
    )
    with pytest.raises(WinaError, match=r'no model for the role "Large" \(its published weights are ada/large\)'):
        expand(study)
    mapped = bind(study, {"Large": "demo", "Other": "elsewhere"})
    plain = _study(Configuration(name="WINA", method=WINA), sparsities=(0.5,))
    plain = plain.model_copy(update={"models": (ModelSource(location="demo"),)})
    assert expand(mapped) == expand(plain)
    assert roles_of(mapped) == {expand(plain)[0].model.content_hash(): "Large"}


def test_the_metric_that_tables_show_is_no_part_of_a_run() -> None:
    tasks = (TaskSpec(name="a", metric="acc"), TaskSpec(name="b", num_fewshot=5, metric="acc"), "c")
    study = _study(Configuration(method=WINA), sparsities=(0.5,), evaluation=EvaluationSpec(tasks=tasks, limit=7))
    (run,) = expand(study)
    assert run.evaluation.tasks == ("a", TaskSpec(name="b", num_fewshot=5), "c")
    assert run.evaluation.task("a") == TaskSpec(name="a", limit=7)
    assert run.evaluation.task("b") == TaskSpec(name="b", num_fewshot=5, limit=7)


def test_local_data_is_part_of_a_runs_identity(tmp_path: Path) -> None:
    (tmp_path / "piqa").mkdir()
    file = tmp_path / "piqa" / "validation.jsonl"
    file.write_text('{"goal": "a"}\n', encoding="utf-8")
    study = _study(Configuration(), evaluation=EvaluationSpec(data_folder=str(tmp_path)))
    (before,) = expand(study)
    file.write_text('{"goal": "b"}\n', encoding="utf-8")
    (after,) = expand(study)
    assert before.content_hash() != after.content_hash()
    missing = _study(Configuration(), evaluation=EvaluationSpec(data_folder=str(tmp_path / "no")))
    with pytest.raises(WinaError, match="does not exist"):
        expand(missing)
    file.unlink()
    with pytest.raises(WinaError, match="holds no data; it needs a folder for each task"):
        expand(study)


def test_a_configuration_may_have_allocators_of_its_own():
    curves = AllocatorSpec(name="curves", text=TextSpec(tokens=256))
    study = _study(
        Configuration(name="uniform", method=WINA),
        Configuration(name="allocated", method=WINA, allocators=(curves,)),
        sparsities=(0.25, 0.5),
        plans=(),
    )
    found = [(run.label.configuration, run.spec.plan.provenance) for run in labelled(study)]
    assert count_runs(study) == len(found) == 4
    assert [name for name, _ in found] == ["uniform"] * 2 + ["allocated"] * 2
    assert all(origin.startswith("curves") for name, origin in found if name == "allocated")
    assert not any(origin.startswith("curves") for name, origin in found if name == "uniform")
