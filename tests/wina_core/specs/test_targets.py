"""From plans to the targets of masks: what a method can reach, and what is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wina_core.errors import WinaError
from wina_core.specs import MethodSpec
from wina_core.specs.methods import get_method
from wina_core.specs.plans import PlanLayout, SparsityPlan, UniformSparsity, resolve_plan
from wina_core.specs.presets import PRESETS, check_uniform, with_text_source


def targets_of(plan, layout, method):
    return resolve_plan(plan, layout, method).targets


LLAMA = ("q", "k", "v", "o", "gate", "up", "down")
LAYOUT = PlanLayout(projections=LLAMA, parameters=((1024, 512, 512, 1024, 2560, 2560, 2560),) * 2)
UNGATED = PlanLayout(projections=("q", "k", "v", "o", "up", "down"), parameters=((64, 64, 64, 64, 256, 256),))
CATS, WINA = MethodSpec(name="cats"), MethodSpec(name="wina")
LAROSA, SCAP, SCAP_OWN = MethodSpec(name="larosa"), MethodSpec(name="scap"), MethodSpec(name="scap", variant="own")
RELEASED = "as_released"
REACH = 2 * 2560 / sum(LAYOUT.parameters[0])


def table(*row: float) -> SparsityPlan:
    return SparsityPlan(layout=LAYOUT, sparsity=(row, (0.0,) * 7))


SHARES = SparsityPlan.uniform(LAYOUT, 0.5).model_copy(update={"rho": ((0.9,) * 7,) * 2})


@pytest.mark.parametrize(
    "method",
    [
        *(MethodSpec(name=name) for name in ("wina", "rsparse")),
        SCAP_OWN,
    ],
    ids=lambda method: method.label,
)
def test_a_method_that_gates_everything_takes_a_uniform_target_as_it_is(method):
    plan = targets_of(UniformSparsity(sparsity=0.4), LAYOUT, method)
    assert plan == SparsityPlan.uniform(LAYOUT, 0.4)


@pytest.mark.parametrize("variant", ["paper", RELEASED])
def test_scap_concentrates_a_uniform_target_on_the_mlp(variant):
    plan = targets_of(UniformSparsity(sparsity=0.4), LAYOUT, MethodSpec(name="scap", variant=variant))
    assert plan.budget == pytest.approx(0.4)
    assert plan.sparsity == ((0.0,) * 4 + (pytest.approx(0.4 * 10752 / 7680),) * 3,) * 2


@pytest.mark.parametrize("layout", [LAYOUT, UNGATED])
def test_larosa_has_levels_of_its_own_for_what_reads_and_what_writes_the_stream(layout):
    plan = targets_of(UniformSparsity(sparsity=0.5), layout, LAROSA)
    levels = dict(zip(layout.projections, plan.sparsity[-1], strict=True))
    assert [levels.pop("o"), levels.pop("down")] == pytest.approx([0.6] * 2)
    assert list(levels.values()) == pytest.approx([0.4] * len(levels))
    table = SparsityPlan.uniform(layout, 0.5)
    assert targets_of(table, layout, LAROSA) is table, "a table says each matrix's own"


@given(share=st.floats(0.0, 0.999))
def test_cats_concentrates_a_uniform_target_on_what_it_gates(share):
    sparsity = share * REACH
    plan = targets_of(UniformSparsity(sparsity=sparsity), LAYOUT, CATS)
    assert plan.budget == pytest.approx(sparsity)
    for row in plan.sparsity:
        assert row[:5] == (0.0,) * 5
        assert row[5] == row[6]


@pytest.mark.parametrize(
    ("method", "plan", "layout", "message"),
    [
        (SCAP, 0.72, LAYOUT, '"scap" reaches less than 71.4 % of this model\'s weights, since it leaves q, k, v, o '),
        (LAROSA, 0.8334, LAYOUT, "LaRoSA drops 1.2 times its target in o, so 83.34 % is out of its reach; choose a "
         "target below 83.3 %."),
        (CATS, 0.1, UNGATED, "needs a gated MLP, which this model does not have"),
        (CATS, table(0.1, 0, 0, 0, 0.2, 0.5, 0.5), LAYOUT, '"cats" leaves q, gate dense, but the plan has targets '
         "there; set them to 0"),
        (CATS, table(0, 0, 0, 0, 0, 0.5, 0.4), LAYOUT, "has 50 and 40 % there; make them equal"),
        (WINA, SparsityPlan.uniform(UNGATED, 0.5), LAYOUT, "made for a model with 1 layers"),
        (WINA, SHARES, LAYOUT, '"wina" does not have; choose the plan'),
    ],
)  # fmt: skip
def test_what_a_method_cannot_reach_is_refused(method, plan, layout, message):
    with pytest.raises(WinaError) as caught:
        targets_of(UniformSparsity(sparsity=plan) if isinstance(plan, float) else plan, layout, method)
    assert message in str(caught.value)


@settings(max_examples=40)
@given(row=st.lists(st.floats(0, 0.95), min_size=7, max_size=7))
def test_shared_masks_take_their_block_s_mean_and_keep_the_budget(row):
    shared = MethodSpec(name="wina", masks="shared")
    plan = targets_of(table(*row), LAYOUT, shared)
    q, k, v, o, gate, up, down = plan.sparsity[0]
    assert q == k == v
    assert gate == up
    assert (o, down) == (row[3], row[6])
    assert plan.budget == pytest.approx(table(*row).budget)
    assert targets_of(plan, LAYOUT, shared) == plan


def test_a_preset_has_a_method_and_may_read_another_text():
    assert len({configuration.content_hash() for configuration in PRESETS.values()}) == len(PRESETS)
    for configuration in PRESETS.values():
        get_method(configuration.method)
    with pytest.raises(WinaError, match="with --plan"):
        check_uniform(PRESETS["wina-auto"], ())
    check_uniform(PRESETS["wina-auto"], ("plan.json",))
    check_uniform(PRESETS["teal"], ())
    other = with_text_source(PRESETS["wina-auto"], "prose.txt")
    assert other.rotation.text.source == "prose.txt"
    assert [allocator.text.source for allocator in other.allocators] == ["prose.txt"]
    assert (other.method, other.rotation.mode) == (PRESETS["wina-auto"].method, "auto")
    assert with_text_source(PRESETS["teal"], "prose.txt") == PRESETS["teal"]
