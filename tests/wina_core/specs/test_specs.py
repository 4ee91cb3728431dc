"""Specs: their identity, what they refuse, and how they say so."""

import pytest
from pydantic import ValidationError

from wina_core.errors import explain
from wina_core.jobs import REQUESTS
from wina_core.specs import (
    AS_RELEASED_ROTATION,
    AUTO_ROTATION,
    FIDELITY,
    FREE_KL_ROTATION,
    FREE_ROTATION,
    NO_ROTATION,
    AllocatorSpec,
    CalibrationSpec,
    EvaluationSpec,
    MethodSpec,
    ModelSource,
    RotationSpec,
    RunSpec,
    Spec,
    TextSpec,
)
from wina_core.specs.latency import DecodePoint, LatencyPoint, LatencySpec, Shape
from wina_core.specs.plans import PlanLayout, SparsityPlan
from wina_core.specs.presets import LAROSA_ROTATION
from wina_core.specs.rotations import auto_candidates, refined_candidate
from wina_core.specs.studies import StudySpec

DEMO = ModelSource(location="demo")


RICH = RunSpec(
    model=ModelSource(location="org/name", revision="main", dtype="bfloat16", fingerprint="ff"),
    rotation=RotationSpec(mode="per_site", mlp_basis=("gate",)),
    method=MethodSpec(name="teal", variant="as_released", selection="threshold"),
    plan=SparsityPlan.uniform(PlanLayout(projections=("q",), parameters=((4,), (4,))), 0.25),
    calibration=CalibrationSpec(),
    evaluation=EvaluationSpec(tasks=("a", "b"), limit=10, fidelity=None),
)
POINT = {"outputs": 5120, "inputs": 17920, "batch": 1, "dtype": "bfloat16", "method": "wina", "selection": "threshold"}


@pytest.mark.parametrize(
    ("spec", "digest"),
    [
        (RunSpec(model=DEMO), "1d0c295655ac0530"),
        (RICH, "f51a98fa139ded8d"),
        (NO_ROTATION, "e7ec68dd6d31b891"),
        (RotationSpec(), "a9d5f6d002d956b8"),
        (FREE_ROTATION, "61cd665f64b62b41"),
        (FREE_KL_ROTATION, "3075e2e72af6681b"),
        (AS_RELEASED_ROTATION, "e4209ab46042ce8d"),
        (DEMO, "4ac3967cc98214b8"),
        (ModelSource(location="demo", quantization="int8"), "05f3ff35bdc9a744"),
        (
            LatencyPoint.model_validate({**POINT, "sparsity": 0.5, "backend": "cpu", "repetitions": 20}),
            "abcef620f9db5fec",
        ),
        (DecodePoint(model=DEMO, sparsity=0.5), "3e8b05ba386c4b7a"),
        (LatencySpec(shapes=(Shape(outputs=64, inputs=48),)), "d17590edde241791"),
    ],
)
def test_hashes_are_the_stored_ones(spec: Spec, digest: str) -> None:
    """These hashes are in users' databases: when they change, stored results are no longer found."""
    assert spec.content_hash() == digest
    assert type(spec).model_validate_json(spec.model_dump_json()) == spec


def test_earlier_names_of_fields_are_read_and_keep_the_hash() -> None:
    earlier = {
        "name": "s",
        "models": [{"location": "demo"}],
        "arms": [{"method": {"name": "wina"}}],
        "plans": [{"layout": {"projections": ["q"], "parameters": [[4]]}, "sparsity": [[0.5]], "origin": "edited"}],
        "evaluation": {"deviation": None},
    }
    study = StudySpec.model_validate(earlier)
    assert (study.evaluation.fidelity, study.plans[0].provenance) == (None, "edited")
    assert study.content_hash() == "1f2efccb57df5ad2"
    written = study.model_dump_json()
    assert '"configurations"' in written
    assert '"arms"' not in written
    assert StudySpec.model_validate_json(written) == study


def test_where_a_table_came_from_is_no_part_of_its_identity() -> None:
    table = SparsityPlan.uniform(PlanLayout(projections=("q",), parameters=((4,), (4,))), 0.25)
    same = table.with_cells({}, provenance="greedy (step 0.05)")
    other = table.with_cells({(0, 0): 0.5})
    runs = [RunSpec(model=DEMO, method=MethodSpec(name="wina"), plan=plan) for plan in (table, same, other)]
    assert runs[0].content_hash() == runs[1].content_hash() != runs[2].content_hash()
    assert RunSpec.model_validate_json(runs[1].model_dump_json()).plan.provenance == "greedy (step 0.05)"


_AUTO = [
    AUTO_ROTATION.model_copy(update=changes)
    for changes in ({}, {"sparsity": 0.65}, {"objective": "error"}, {"per_head": False}, {"fold_norms": "none"})
]
_ACTIVATIONS = RotationSpec(attention_basis=("activations",), mlp_basis=("activations",))


def test_labels_tell_rotations_apart() -> None:
    rotations = [
        NO_ROTATION,
        AS_RELEASED_ROTATION,
        RotationSpec(),
        RotationSpec(per_head=False),
        RotationSpec(mode="none"),
        RotationSpec(attention_basis=("k", "activations")),
        RotationSpec(matrices="q.safetensors"),
        RotationSpec(attention_basis=(), mlp_basis=("gate",)),
        LAROSA_ROTATION,
        RotationSpec(mode="per_layer", attention_basis=("qkv",), mlp_basis=(), per_head=False),
        RotationSpec(fold_norms="exact"),
        FREE_ROTATION,
        FREE_KL_ROTATION,
        FREE_KL_ROTATION.model_copy(update={"steps": 20}),
        FREE_KL_ROTATION.model_copy(update={"text": TextSpec()}),
        *_AUTO,
        *(_ACTIVATIONS.model_copy(update=changes) for changes in ({}, {"spectrum": "log"}, {"drop_directions": 2})),
    ]
    labels = [rotation.label for rotation in rotations]
    assert len(set(labels)) == len(labels)
    assert labels[:3] == ["none", "per_site (k, gate)", "global + heads"]
    assert labels[11:13] == ["global refined + heads, norms folded", "global refined on KL + heads, norms folded"]


def test_labels_tell_allocators_apart() -> None:
    assert AllocatorSpec(name="evolution").label == "evolution"
    text = TextSpec(source="/a/b.txt", fingerprint="3fa9c1" + 10 * "0")
    bred = AllocatorSpec(name="evolution", step=0.1, rounds=1, seed=3, text=text)
    assert bred.label == "evolution (step 0.1, 1 round, seed 3, on 16384 tokens of b.txt 3fa9c1)"
    assert AllocatorSpec(step=0.1, rounds=6, seed=3, text=TextSpec()).label == "uniform"  # which none of them changes
    several = AllocatorSpec(name="greedy", variant="wina_released", step=0.05, text=TextSpec(tokens=4096))
    assert several.label == "greedy (as released by WINA, step 0.05, on 4096 tokens of demo:calibration)"
    assert {"variant", "step", "rounds", "text", "seed"} == set(AllocatorSpec.model_fields) - {"schema_version", "name"}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sparsities": [0.5, 1.0]}, "sparsities[1]: it should be less than 1, not 1.0."),
        ({"colour": 1}, "colour: there is no such setting."),
        ({"configurations": [{"method": {}}]}, "configurations[0].method.name: it is missing."),
        ({"sparsities": []}, "A study with a sparse method needs `sparsities`, `plans`, or both."),
        ({"sparsities": [2, 3, 4]}, "sparsities[0]: it should be less than 1, not 2 (and 2 more)."),
        ({"allocators": [{"name": "evolution", "seed": -1}]}, "allocators[0].seed: it should be greater than or equal"),
        ({"evaluation": {"tasks": [FIDELITY]}}, 'evaluation.tasks: "fidelity" is a measurement of the workbench'),
    ],
)
def test_a_bad_spec_is_explained_in_one_sentence(changes: dict[str, object], sentence: str) -> None:
    base = {"name": "s", "models": [DEMO], "configurations": [{"method": {"name": "wina"}}], "sparsities": [0.5]}
    with pytest.raises(ValidationError) as caught:
        StudySpec.model_validate(base | changes)
    assert explain(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"{}", "Its 'type' is missing."),
        (
            b'{"type": "x"}',
            "Its 'type' should be one of 'submit', 'cancel', 'pause', 'resume', 'shutdown', not 'x'.",
        ),
        (
            b'{"type": "submit", "job_id": "1", "job": {"kind": "inspect", "model": 3}}',
            "submit.job.inspect.model: it should be a group of named settings, not 3.",
        ),
    ],
)
def test_a_bad_message_is_explained_in_one_sentence(line: bytes, sentence: str) -> None:
    with pytest.raises(ValidationError) as caught:
        REQUESTS.validate_json(line)
    assert explain(caught.value) == sentence


@pytest.mark.parametrize(
    ("method", "needed"),
    [
        (MethodSpec(name="wina"), False),
        (MethodSpec(name="wina", selection="statistical"), True),
        (MethodSpec(name="wina", correction="mean"), True),
        (MethodSpec(name="scap"), True),
        (MethodSpec(name="scap", variant="as_released"), False),
    ],
)
def test_what_needs_a_calibration(method: MethodSpec, needed: bool) -> None:
    assert method.needs_calibration == needed
    if needed:
        with pytest.raises(ValidationError, match="needs a calibration"):
            RunSpec(model=DEMO, method=method)


def test_candidates_of_auto_are_rotations_that_can_be_asked_for_and_begin_with_none() -> None:
    candidates = auto_candidates(AUTO_ROTATION)
    assert candidates[0] == NO_ROTATION
    assert len(set(candidates)) == len(candidates) > 2
    for candidate in candidates:
        assert not candidate.is_auto
        assert not candidate.needs_shortcuts
        assert RotationSpec.model_validate(candidate.model_dump()) == candidate
    best = candidates[2]
    assert refined_candidate(AUTO_ROTATION, best) is None
    refining = AUTO_ROTATION.model_copy(update={"objective": "error", "steps": 7})
    refined = refined_candidate(refining, best)
    assert refined is not None
    assert (refined.objective, refined.steps, refined.attention_basis) == ("error", 7, best.attention_basis)


@pytest.mark.parametrize(
    ("spec", "fields", "words"),
    [
        (RotationSpec, {"mode": "auto", "matrices": "q.safetensors"}, "auto chooses its bases"),
        (
            RotationSpec,
            {"attention_basis": ("qkv",), "mlp_basis": ("gate_up",), "drop_directions": 1},
            "the basis activ",
        ),
        (RotationSpec, {"spectrum": "log"}, "name activations alone"),
        (RotationSpec, {"mode": "auto", "sparsity": 1.0}, "less than or equal to 0.95"),
        (
            RotationSpec,
            {"attention_basis": (), "mlp_basis": ()},
            "attention_basis and mlp_basis are both empty; name one",
        ),
        (RotationSpec, {"mode": "per_site", "mlp_basis": ()}, "per_site needs attention_basis and mlp_basis"),
        (RotationSpec, {"weighting": "sensitivity", "mlp_basis": ("gate",)}, "have no named bases; leave those out"),
        (RotationSpec, {"objective": "kl", "noise_bits": 4}, "the objective kl counts no rounding to 4 bits; choose"),
        (AllocatorSpec, {"name": "curves", "variant": "teal_released"}, "only greedy has the variant"),
        (ModelSource, {"location": "demo", "trust_remote_code": True}, "extra_forbidden"),
    ],
)
def test_contradictions_are_refused(spec: type[Spec], fields: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        spec.model_validate(fields)
