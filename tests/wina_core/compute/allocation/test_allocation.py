"""Allocators on small models: equal to their naive forms, resumable at any step, of the requested budget."""

import pytest
import torch
from benchmarks.naive_greedy import NaiveErrors

from tests.wina_core.compute.reporters import RecordingReporter
from tests.wina_core.tiny import tiny_folder, tiny_loaded, tiny_text, tiny_tokenizer, tiny_tokens
from wina_core.compute.allocation import allocate
from wina_core.compute.allocation.cells import MAX_TARGET, AllocationSubject, cells_of
from wina_core.compute.allocation.divergence import Divergence, Journal, PlanCandidate
from wina_core.compute.allocation.greedy import LayerErrors, corrected_steps, search
from wina_core.compute.calibration import calibrate
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
    CalibrationSpec,
    MethodSpec,
    ModelSource,
    TextSpec,
)

WINA = MethodSpec(name="wina")
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
        *((family, WINA) for family in ("llama", "phi3", "gemma2", "qwen3_moe")),
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


def test_a_dense_prefix_reaches_q_k_and_v_alone():
    loaded = tiny_loaded(dtype=torch.float64, layers=1)
    subject, cells = AllocationSubject(loaded, WINA), cells_of(loaded.view.layout, WINA).in_layer(0)
    plain, prefixed = (LayerErrors(subject, cells, 0, tiny_tokens(length=40), prefix=prefix) for prefix in (0.0, 0.5))
    for column, name in enumerate(loaded.view.layout.projections):
        values = tuple(0.6 if index == column else 0.0 for index in range(7))
        if name in ("k", "v"):  # read by the tokens that count, whose own q is gated either way
            assert prefixed(values) < 0.95 * plain(values)
        else:
            assert prefixed(values) == pytest.approx(plain(values), rel=1e-12)


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
    dense = loaded.model(tokens).logits.log_softmax(-1)
    for candidate, value in zip((base, later), divergences, strict=True):
        with attach(loaded, WINA, cells.plan(candidate.values, "")):
            gated = loaded.model(tokens).logits.log_softmax(-1)
        assert value == pytest.approx(float((dense.exp() * (dense - gated)).sum(-1).mean()), rel=1e-9)


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
        method = MethodSpec(name="teal")
        calibration = calibrate(loaded, searched(method, plan.allocator), CalibrationSpec(text=text), NullReporter())
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


@pytest.mark.parametrize("sparsity", [0.0, 0.3, 0.6, 0.97])
def test_marginal_targets_cost_no_more_than_uniform_ones_on_their_text(sparsity, text):
    loaded, tokens = tiny_loaded(layers=3), read_tokens(text, tiny_tokenizer())
    record = allocate(loaded, SHARED, asked(text, "marginal", sparsity), "key", NullReporter())
    assert record.plan.budget == pytest.approx(sparsity, abs=1e-6)

    def divergence(plan):
        with torch.no_grad():
            dense = loaded.model(tokens).logits.log_softmax(-1)
            with attach(loaded, SHARED, plan):
                gated = loaded.model(tokens).logits.log_softmax(-1)
        return float((dense.exp() * (dense - gated)).sum(-1).mean())

    cells = cells_of(loaded.view.layout, SHARED)
    uniform = divergence(cells.plan(cells.uniform(sparsity), ""))
    assert divergence(record.plan) == pytest.approx(record.value, rel=1e-4, abs=1e-9)
    assert record.value <= uniform * (1 + 1e-6)
    if sparsity == 0.3:
        assert record.value < 0.99 * uniform, "layers of a random model differ by this much at least"


def test_marginal_costs_are_those_of_the_selection_that_the_run_has(text):
    loaded = tiny_loaded(layers=2)
    mixed, plan = SHARED.model_copy(update={"selection": "mixed"}), asked(text, "marginal", 0.4)
    assert searched(mixed, plan.allocator) == mixed
    assert searched(mixed, AllocatorSpec(name="curves")) == SHARED
    calibration = calibrate(loaded, mixed, CalibrationSpec(text=text), NullReporter())
    record = allocate(loaded, mixed, plan, "key", NullReporter(), calibration)
    assert record.plan.budget == pytest.approx(0.4, abs=1e-6)
    tokens = read_tokens(text, tiny_tokenizer())
    with torch.no_grad():
        dense = loaded.model(tokens).logits.log_softmax(-1)
        with attach(loaded, mixed, record.plan, calibration):
            gated = loaded.model(tokens).logits.log_softmax(-1)
    assert float((dense.exp() * (dense - gated)).sum(-1).mean()) == pytest.approx(record.value, rel=1e-4)


@pytest.mark.parametrize("name", ["greedy", "curves", "marginal"])
def test_the_budget_of_experts_is_that_of_the_weights_a_token_reads(name, text):
    loaded = tiny_loaded("qwen3_moe")
    record = allocate(loaded, WINA, asked(text, name, 0.4, step=0.25), "key", NullReporter())
    assert record.plan.budget == pytest.approx(0.4, abs=1e-3)
    with attach(loaded, WINA, record.plan) as gates:
        loaded.model(tiny_tokens())
        assert gates.gated_sparsity == pytest.approx(0.4, abs=0.02)


@pytest.mark.parametrize(
    ("family", "variant", "groups"),
    [
        ("llama", "wina_released", [("q",), ("k",), ("v",), ("o",), ("gate",), ("up",), ("down",)]),
        ("phi3", "wina_released", [("q", "k", "v"), ("o",), ("gate", "up"), ("down",)]),
        ("phi3", "teal_released", [("q",), ("k",), ("v",), ("o",), ("gate",), ("up",), ("down",)]),
    ],
)
def test_greedy_as_released_moves_fused_matrices_as_one_and_stays_within_what_a_plan_may_hold(
    family, variant, groups, text
):
    loaded, plan = tiny_loaded(family, layers=1), asked(text, "greedy", 0.6, variant=variant)
    wina = MethodSpec(name="wina", variant="as_released")
    calibration = calibrate(loaded, searched(wina, plan.allocator), CalibrationSpec(text=text), NullReporter())
    resolved = allocate(loaded, wina, plan, "key", NullReporter(), calibration).plan
    (row,) = resolved.sparsity
    cells = dict(zip(resolved.layout.projections, row, strict=True))
    weights = resolved.layout.parameters[0]
    assert max(row) <= MAX_TARGET
    assert all(len({cells[name] for name in group}) == 1 for group in groups)
    assert resolved.provenance.startswith(f"greedy (as released by {variant[:4].upper()}, ")
    if variant == "wina_released":
        assert resolved.budget == pytest.approx(0.6, abs=0.1 * weights[0] / sum(weights))  # a step of q


def test_greedy_as_released_needs_the_calibration_that_it_searches_by(text):
    plan = asked(text, "greedy", variant="wina_released", step=0.4)
    with pytest.raises(WinaError, match="wina with threshold selection needs a calibration"):
        allocate(tiny_loaded(layers=1), WINA, plan, "key", NullReporter())


def test_a_damaged_state_file_costs_no_more_than_a_new_start(text, tmp_path):
    file, loaded, plan = tmp_path / "state", tiny_loaded(layers=1), asked(text, "greedy", step=0.4)
    expected = allocate(loaded, WINA, plan, "key", NullReporter()).plan
    damaged = (b"", b"{", b"[1]", b"\xff", b"[" * 100_000, b'{"layers": [[0.5]], "costs": [NaN]}', b'{"seconds": "x"}')
    for content in damaged:
        file.write_bytes(content)
        assert allocate(loaded, WINA, plan, "key", NullReporter(), state=file).plan == expected, content[:40]


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
