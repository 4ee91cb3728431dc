"""Allocators on small models: equal to their naive forms, resumable at any step, of the requested budget."""

import pytest
import torch
from benchmarks.naive_greedy import NaiveErrors

from tests.wina_core.compute.gated import broken_model, calibrated, calibrated_if_needed, gated_divergence
from tests.wina_core.compute.reporters import RecordingReporter
from tests.wina_core.tiny import tiny_folder, tiny_loaded, tiny_text, tiny_tokenizer, tiny_tokens
from wina_core.compute.allocation import allocate
from wina_core.compute.allocation.cells import MAX_TARGET, AllocationSubject, PlanCandidate, cells_of
from wina_core.compute.allocation.divergence import Divergence, Journal
from wina_core.compute.allocation.greedy import LayerErrors, corrected_steps, search
from wina_core.compute.gating import attach
from wina_core.compute.models.text_tokens import read_tokens
from wina_core.compute.reporter import NullReporter
from wina_core.compute.session.model_session import Session
from wina_core.errors import Cancelled, WinaError
from wina_core.model_info.products import searched
from wina_core.specs import (
    NO_ROTATION,
    AllocatedSparsity,
    AllocatorSpec,
    MethodSpec,
    ModelSource,
    TextSpec,
)

WINA, TEAL = MethodSpec(name="wina"), MethodSpec(name="teal")
SHARED = MethodSpec(name="wina", masks="shared")


@pytest.fixture
def text(tmp_path):
    return TextSpec(source=tiny_text(tmp_path), tokens=64, sequence=32)


def asked(text, name, sparsity=0.5, **settings):
    return AllocatedSparsity(
        sparsity=sparsity, allocator=AllocatorSpec(name=name, text=text, **{"step": 0.1, "rounds": 2, **settings})
    )


@pytest.mark.parametrize(
    ("family", "method"),
    [
        *((family, WINA) for family in ("llama", "phi3", "gemma2")),
        pytest.param("qwen3_moe", WINA, marks=pytest.mark.nightly),
        ("llama", SHARED),
        *((family, MethodSpec(name="cats")) for family in ("llama", "qwen3_moe")),
    ],
    ids=lambda value: value if isinstance(value, str) else value.label,
)
def test_the_fast_greedy_search_ends_where_the_naive_one_does(family, method):
    loaded = tiny_loaded(family, dtype=torch.float64, layers=2)
    subject = AllocationSubject(loaded, method)
    cells = cells_of(loaded.view.layout, method).in_layer(1)
    steps = corrected_steps(cells.blocks, cells.layout, 0.4, 0.15)
    paths = []
    for errors in (LayerErrors, NaiveErrors):
        path = []
        measure = errors(subject, cells, 1, tiny_tokens())
        search(measure, steps, (0.0,) * len(cells.blocks), path.append)
        paths.append((path, measure.evaluations, measure(path[-1])))
    assert paths[0][:2] == paths[1][:2]
    assert paths[0][2] == pytest.approx(paths[1][2], rel=1e-9)
    assert paths[0][2] > 0


def test_layers_are_as_they_were_after_a_search():
    loaded = tiny_loaded(layers=2)
    before = loaded.model(tiny_tokens()).logits
    cells = cells_of(loaded.view.layout, WINA).in_layer(0)
    LayerErrors(AllocationSubject(loaded, WINA), cells, 0, tiny_tokens())((0.5,) * 7)
    assert torch.equal(loaded.model(tiny_tokens()).logits, before)
    assert not any("forward" in module.__dict__ for module in loaded.model.modules())


@pytest.mark.parametrize("family", ["llama", "phi3", "qwen3_moe"])
def test_a_divergence_is_that_of_whole_passes_wherever_it_begins(family):
    loaded = tiny_loaded(family, dtype=torch.float64)
    cells, tokens = cells_of(loaded.view.layout, WINA), tiny_tokens()
    base = PlanCandidate((0.4,) * len(cells.blocks))
    later = PlanCandidate(tuple(0.7 if block.layer == 2 else 0.4 for block in cells.blocks))
    divergence = Divergence(
        AllocationSubject(loaded, WINA), cells, tokens, Journal(None, NullReporter()), NullReporter()
    )
    divergences = divergence.measure([base, later], base, lambda _: None)
    for candidate, value in zip((base, later), divergences, strict=True):
        expected = gated_divergence(loaded, tokens, WINA, cells.plan(candidate.values, ""))
        assert value == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        *((name, "corrected") for name in ("greedy", "curves", "evolution", "marginal")),
        pytest.param("refine", "corrected", marks=pytest.mark.nightly),
        ("greedy", "wina_released"),
        pytest.param("greedy", "teal_released", marks=pytest.mark.nightly),
    ],
)
def test_a_search_cancelled_anywhere_goes_on_to_the_same_plan(name, variant, text, tmp_path):
    loaded = tiny_loaded(layers=2)
    plan = asked(text, name, step=0.25, variant=variant)
    method, calibration = SHARED, None
    if plan.allocator.is_released:
        method = TEAL
        calibration = calibrated(loaded, searched(method, plan.allocator), text)
    reporter = RecordingReporter()
    whole = allocate(loaded, method, plan, "key", reporter, calibration)
    reported = [done for done, *_ in reporter.calls]
    assert reported == sorted(reported)
    state, curves = tmp_path / "state", tmp_path / "curves"
    cancelled, reported = 0, []
    while True:
        reporter = RecordingReporter(after=5 + 6 * cancelled)  # at ever other places, in the end within a step
        try:
            record = allocate(loaded, method, plan, "key", reporter, calibration, state, curves)
        except Cancelled:
            cancelled += 1
            continue
        finally:
            reported += [done for done, *_ in reporter.calls[-1:]]
        break
    assert cancelled > 1
    assert reported == sorted(reported)
    assert record.plan == whole.plan
    assert record.value == whole.value
    after = allocate(loaded, method, plan, "key", RecordingReporter(after=0), calibration, state, curves)
    assert (after.plan, after.value) == (record.plan, record.value), "a search whose result was lost is not repeated"


@pytest.mark.parametrize("name", ["uniform", "greedy", "curves", "refine", "evolution", "marginal"])
@pytest.mark.parametrize("method", [SHARED, MethodSpec(name="cats"), MethodSpec(name="rsparse")], ids=lambda m: m.name)
def test_every_allocator_keeps_the_budget_and_gates_what_the_method_gates(name, method, text):
    loaded = tiny_loaded(layers=2)
    record = allocate(loaded, method, asked(text, name, 0.3, rounds=1, step=0.25), "key", NullReporter())
    assert record.plan.budget == pytest.approx(0.3, abs=1e-3)
    assert record.plan.provenance.split(" (")[0] == name
    attach(loaded, method, record.plan).detach()  # the method takes the table
    assert (record.plan.rho is not None) == (name == "evolution" and method.name == "rsparse")
    if record.bound is not None:
        assert record.bound <= record.value + 1e-12


@pytest.mark.parametrize(("sparsity", "selection"), [(0.0, "topk"), (0.3, "topk"), (0.97, "topk"), (0.4, "mixed")])
def test_marginal_targets_cost_no_more_than_uniform_ones_on_their_text(sparsity, selection, text):
    loaded, tokens = tiny_loaded(layers=3), read_tokens(text, tiny_tokenizer())
    method, plan = SHARED.model_copy(update={"selection": selection}), asked(text, "marginal", sparsity)
    assert searched(method, plan.allocator) == method, "its costs are those of the selection that the run has"
    assert searched(method, AllocatorSpec(name="curves")) == SHARED
    calibration = calibrated_if_needed(loaded, method, text)
    record = allocate(loaded, method, plan, "key", NullReporter(), calibration)
    assert record.plan.budget == pytest.approx(sparsity, abs=1e-6)
    cells = cells_of(loaded.view.layout, method)
    uniform = gated_divergence(loaded, tokens, method, cells.plan(cells.uniform(sparsity), ""), calibration)
    found = gated_divergence(loaded, tokens, method, record.plan, calibration)
    assert found == pytest.approx(record.value, rel=1e-4, abs=1e-9)
    assert record.value <= uniform * (1 + 1e-6)
    if sparsity == 0.3:
        assert record.value < 0.99 * uniform, "layers of a random model differ by this much at least"


def test_the_budget_of_experts_is_that_of_the_weights_a_token_reads(text):
    loaded = tiny_loaded("qwen3_moe")
    record = allocate(loaded, WINA, asked(text, "greedy", 0.4, step=0.25), "key", NullReporter())
    assert record.plan.budget == pytest.approx(0.4, abs=1e-3)
    with attach(loaded, WINA, record.plan) as gates:
        loaded.model(tiny_tokens())
        assert gates.gated_sparsity == pytest.approx(0.4, abs=0.02)


def test_greedy_as_released_stays_within_what_a_plan_may_hold_and_needs_a_calibration(text):
    loaded, plan = tiny_loaded("phi3", layers=1), asked(text, "greedy", 0.95, variant="teal_released")
    with pytest.raises(WinaError, match="teal with threshold selection needs a calibration"):
        allocate(loaded, TEAL, plan, "key", NullReporter())
    calibration = calibrated(loaded, searched(TEAL, plan.allocator), text)
    table = allocate(loaded, TEAL, plan, "key", NullReporter(), calibration).plan
    assert max(table.sparsity[0]) == MAX_TARGET, "the search itself steps up to 1"
    assert len(set(table.sparsity[0][:3])) > 1, "q, k and v, one matrix in this model, move each by itself"
    assert table.provenance.startswith("greedy (as released by TEAL, ")


def test_a_journal_is_read_as_it_was_written_and_under_its_own_name_alone(tmp_path):
    file, reporter = tmp_path / "one.curves", RecordingReporter()
    Journal(file, reporter).save(costs=[0.1, 1e-9], measured=None)
    assert Journal(file, reporter).state["costs"] == [0.1, 1e-9]
    assert not reporter.lines
    for other, content in (
        (tmp_path / "two.curves", file.read_bytes()),
        (file, file.read_bytes().replace(b"0.1", b"0.2")),
        (file, file.read_bytes().partition(b"\n")[2]),
    ):
        other.write_bytes(content)
        assert Journal(other, reporter).state == {}
        assert reporter.lines.pop() == f"warning: Searching from the start, {other} is damaged or of another search."
        Journal(file, NullReporter()).save(costs=[0.1, 1e-9])


@pytest.mark.parametrize("name", ["greedy", "curves"])
def test_no_budget_is_spread_by_what_is_no_number(name, text, tmp_path, monkeypatch):
    monkeypatch.setenv("WINA_HOME", str(tmp_path / "home"))
    plan = AllocatedSparsity(sparsity=0.3, allocator=AllocatorSpec(name=name, text=text))
    with pytest.raises(WinaError, match=r"The model's logits are not numbers; check its weights"):
        Session().allocation(broken_model(float("inf")), NO_ROTATION, WINA, plan, None, NullReporter())
    assert not [file for file in (tmp_path / "home").rglob("*") if file.is_file()]


def test_errors_of_a_layer_are_numbers():
    loaded = broken_model(float("nan"))
    with pytest.raises(WinaError, match=r"activations in layer 1 are not numbers; check its weights"):
        LayerErrors(AllocationSubject(loaded, WINA), cells_of(loaded.view.layout, WINA).in_layer(1), 1, tiny_tokens())
    loaded = tiny_loaded(layers=1)
    errors = LayerErrors(AllocationSubject(loaded, WINA), cells_of(loaded.view.layout, WINA), 0, tiny_tokens())
    loaded.view.layers[0].projections["up"].linear.bias[0] = float("nan")
    with pytest.raises(WinaError, match="gated model's activations in layer 0 are not numbers; choose less sparsity"):
        errors((0.5,) * 7)


def test_bad_budgets_and_methods_are_refused_in_one_sentence(text):
    loaded = tiny_loaded(layers=1)
    with pytest.raises(WinaError, match=r"cannot reach a sparsity of 80 %"):
        allocate(loaded, MethodSpec(name="cats"), asked(text, "curves", 0.8), "key", NullReporter())
    with pytest.raises(WinaError, match="gates nothing"):
        allocate(loaded, MethodSpec(name="dense"), asked(text, "curves"), "key", NullReporter())
    with pytest.raises(WinaError, match=r"cannot reach a sparsity of 99\.5 %"):
        allocate(loaded, WINA, asked(text, "uniform", 0.995), "key", NullReporter())


def test_a_session_keeps_what_it_found_and_shares_curves_between_budgets(text, tmp_path, monkeypatch):
    monkeypatch.setenv("WINA_HOME", str(tmp_path / "home"))
    source = ModelSource(location=str(tiny_folder(tmp_path / "model")))
    session = Session()
    loaded = session.prepare(source, NO_ROTATION, NullReporter())

    def allocation(method, plan, reporter):
        return session.allocation(loaded, NO_ROTATION, method, plan, None, reporter)

    at_once = RecordingReporter(after=0)  # cancels any search
    first = allocation(WINA, asked(text, "curves"), NullReporter())
    assert allocation(WINA, asked(text, "curves"), at_once) == first
    assert allocation(WINA.model_copy(update={"selection": "threshold"}), asked(text, "curves"), at_once) == first
    assert allocation(WINA, asked(text, "curves", 0.6), at_once)[0].budget == pytest.approx(0.6)
    with pytest.raises(Cancelled):
        allocation(SHARED, asked(text, "curves"), at_once)
    files = {file.suffix for file in (tmp_path / "home" / "cache" / "allocations").iterdir()}
    assert files == {".json", ".curves"}
