"""Budgets spread where the model is: by a job, for the runs of a study, and kept under all that they depend on."""

from pathlib import Path

import pytest
import torch

from tests.wina_core.engine.in_process import compute, result_of, units_of
from tests.wina_core.tiny import tiny_loaded, tiny_text
from wina_core.compute.calibration import calibrate
from wina_core.compute.gating import attach
from wina_core.compute.reporter import NullReporter
from wina_core.compute.session import model_session as session_module
from wina_core.compute.session.model_session import Session
from wina_core.errors import WinaError
from wina_core.jobs import AllocateJob, EvaluateJob, PendingRun
from wina_core.model_info import products
from wina_core.records import AllocationRecord, UnitRecord
from wina_core.specs import (
    NO_ROTATION,
    AllocatedSparsity,
    AllocatorSpec,
    CalibrationSpec,
    Configuration,
    EvaluationSpec,
    MethodSpec,
    RotationSpec,
    TextSpec,
)
from wina_core.specs.plans import SparsityPlan
from wina_core.specs.studies import StudySpec
from wina_core.store import Store
from wina_core.studies.expand import expand

WINA, SCAP = MethodSpec(name="wina"), MethodSpec(name="scap")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WINA_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def budget(text: TextSpec, name: str = "curves", sparsity: float = 0.5, **settings: object) -> AllocatedSparsity:
    """A cheap allocation."""
    allocator = {"name": name, "text": text, "step": 0.1, "rounds": 1, **settings}
    return AllocatedSparsity(sparsity=sparsity, allocator=AllocatorSpec.model_validate(allocator))


# ---- jobs ------------------------------------------------------------------------------------------------------------


def test_an_allocate_job_returns_the_table_that_a_run_of_the_same_is_gated_by(model, text):
    session = Session()
    record = result_of(AllocateJob(model=model, rotation=NO_ROTATION, method=WINA, plan=budget(text)), session)
    assert isinstance(record, AllocationRecord)
    plan, _ = session.allocation(
        session.prepare(model, NO_ROTATION, NullReporter()), NO_ROTATION, WINA, budget(text), None, NullReporter()
    )
    assert plan == record.plan
    assert len(set(sum(plan.sparsity, ()))) > 1


def test_allocated_runs_are_gated_by_their_own_tables_which_are_stored_with_them(model, text, tmp_path):
    """Top-k drops what the targets say, up to rounding to whole inputs, of which there are 32 at least; R-Sparse drops
    (1 - s)(1 - rho) more, where that share of the budget buys no whole rank."""
    study = StudySpec(
        name="allocators",
        models=(model,),
        configurations=(Configuration(method=WINA), Configuration(method=MethodSpec(name="rsparse"))),
        sparsities=(0.5,),
        allocators=(AllocatorSpec(), budget(text, "curves").allocator, budget(text, "evolution").allocator),
        evaluation=EvaluationSpec(fidelity=text),
    )
    units = evaluated(study)
    wina = [run.content_hash() for run in expand(study) if run.method == WINA]
    with Store(tmp_path / "results.sqlite") as store:
        store.save_study(study, expand(study))
        for unit in units:
            store.record_unit(unit)
        maps = [[store.layer_map(unit.run, metric) for metric in ("sparsity", "target", "rho")] for unit in units]
    assert [(targets is not None, rho is not None) for _, targets, rho in maps] == [
        (False, False), (True, False), (True, False), (False, False), (True, False), (True, True),
    ]  # fmt: skip
    assert len({unit.layers for unit in units}) == len(units)
    for unit, (measured, targets, _) in zip(units, maps, strict=True):
        assert unit.gated_sparsity == pytest.approx(0.5, abs=0.04)
        wanted = torch.full((3, 7), 0.5) if targets is None else torch.tensor(targets.values)
        more = torch.tensor(measured.values) - wanted
        assert more.min() > -0.04
        assert more.max() < (0.04 if unit.run in wina else 0.08)
        assert targets is None or wanted.std() > 0.01


def evaluated(study: StudySpec) -> list[UnitRecord]:
    """The units of all its runs, computed for real."""
    return units_of(EvaluateJob(runs=tuple(PendingRun(spec=run, units=run.evaluation.units) for run in expand(study))))


def test_a_method_that_is_calibrated_is_allocated_by_the_runs_own_calibration(model, text, monkeypatch):
    """SCAP's centres come from a calibration, whatever the selection."""
    read: list[CalibrationSpec] = []

    def counted(loaded, method, spec, *others):
        read.append(spec)
        return calibrate(loaded, method, spec, *others)

    monkeypatch.setattr(session_module, "calibrate", counted)
    study = StudySpec(
        name="calibrated",
        models=(model,),
        configurations=(Configuration(method=SCAP),),
        sparsities=(0.5,),
        allocators=(budget(text, "uniform").allocator, budget(text, "greedy", step=0.4).allocator),
        calibration=CalibrationSpec(text=text),
        evaluation=EvaluationSpec(fidelity=text),
    )
    evaluated(study)
    assert read == [expand(study)[0].calibration], "once, for the search and for the runs"
    job = AllocateJob(
        model=model, rotation=NO_ROTATION, method=SCAP, plan=budget(text, "greedy", step=0.4),
        calibration=CalibrationSpec(text=text.model_copy(update={"tokens": 128})),
    )  # fmt: skip
    compute(job)
    assert read[1:] == [job.calibration]


@pytest.mark.parametrize("selection", ["topk", pytest.param("threshold", marks=pytest.mark.nightly)])
def test_a_released_search_is_by_the_thresholds_of_the_run_s_calibration_whatever_the_selection(
    model, text, monkeypatch, selection
):
    read: list[tuple[str, CalibrationSpec]] = []

    def counted(loaded, method, spec, *others):
        read.append((method.selection, spec))
        return calibrate(loaded, method, spec, *others)

    monkeypatch.setattr(session_module, "calibrate", counted)
    study = StudySpec(
        name="released",
        models=(model,),
        configurations=(Configuration(method=MethodSpec(name="teal", selection=selection)),),
        sparsities=(0.5,),
        allocators=tuple(
            budget(text, "greedy", step=0.4, variant=each).allocator for each in ("wina_released", "teal_released")
        ),
        calibration=CalibrationSpec(text=text),
        evaluation=EvaluationSpec(fidelity=text),
    )
    units = evaluated(study)
    assert len({unit.run for unit in units}) == 2
    ((found, spec),) = read
    assert (found, spec) == ("threshold", expand(study)[0].calibration), "once, for both searches and for the runs"


def test_a_searched_share_decides_what_the_thresholds_of_its_run_are_of(model, text):
    """R-Sparse as released, whose scores depend on the plan's shares: each matrix drops its target all the same."""
    rsparse = MethodSpec(name="rsparse", variant="as_released", selection="threshold")
    session = Session()
    loaded = session.prepare(model, NO_ROTATION, NullReporter())
    plan = SparsityPlan.uniform(loaded.view.layout, 0.5)
    plain, normed = (
        calibrate(
            loaded, MethodSpec(name=name, selection="threshold"), CalibrationSpec(text=text), NullReporter()
        ).quantiles
        for name in ("teal", "wina")
    )
    halves = ((1.0, 0.8) * 3 + (0.8,), (0.8,) * 7, (1.0,) * 7)
    keys = set()
    for rho in (None, halves, ((1.0,) * 7,) * 3):
        table = plan if rho is None else plan.model_copy(update={"rho": rho})
        spec = CalibrationSpec(text=text, thresholds="dense")
        calibration, _ = session.gating(loaded, NO_ROTATION, rsparse, table, spec, NullReporter())
        _, record = session.calibration(loaded, NO_ROTATION, rsparse, spec, NullReporter(), table)
        keys.add(record.key)
        assert calibration is not None
        for layer in range(3):
            for column in range(7):
                scored = normed if rho is not None and rho[layer][column] < 1 else plain
                assert torch.equal(calibration.quantiles[layer, column], scored[layer, column])
        with attach(loaded, rsparse, table, calibration) as gates:
            for layer in loaded.view.layers:
                for projection in layer.projections.values():
                    assert projection.linear(torch.randn(1, projection.shape[1])).isfinite().all()
        ranks = sum(part.low_rank is not None for part in gates._mask_groups)
        assert ranks == (0 if rho is None else sum(share < 1 for row in rho for share in row))
    assert len(keys) == 3
    paper = MethodSpec(name="rsparse", selection="threshold")
    own = {
        session.calibration(loaded, NO_ROTATION, paper, CalibrationSpec(text=text), NullReporter(), table)[1].key
        for table in (plan, plan.model_copy(update={"rho": halves}))
    }
    assert len(own) == 1, "whose scores depend on no share"


# ---- the cache -------------------------------------------------------------------------------------------------------


def test_an_allocation_is_told_apart_by_everything_it_depends_on(text, tmp_path, monkeypatch):
    loaded = tiny_loaded(layers=1)
    given: list[tuple[str, Path]] = []
    table = SparsityPlan.uniform(loaded.view.layout, 0.5)

    def kept(_loaded, _method, _plan, key, _reporter, _calibration, _state, curves):
        given.append((key, curves))
        return AllocationRecord(key=key, plan=table, objective="KL", value=1.0, seconds=1.0)

    def ask(rotation=NO_ROTATION, method=WINA, plan=None, spec=None, of=loaded):
        Session().allocation(of, rotation, method, plan or budget(text), spec, NullReporter())
        return len(given)

    monkeypatch.setattr(session_module, "allocate", kept)
    monkeypatch.setattr(session_module, "calibrate", lambda *_: calibrate(loaded, SCAP, spec, NullReporter()))
    spec = CalibrationSpec(text=text)
    assert ask() == ask() == ask(method=WINA.model_copy(update={"selection": "threshold"})) == ask(spec=spec) == 1
    ask(of=tiny_loaded("qwen2", layers=1))
    ask(rotation=RotationSpec())
    ask(method=MethodSpec(name="teal"))
    ask(method=SCAP, spec=spec)
    ask(method=SCAP, spec=CalibrationSpec(text=text.model_copy(update={"sequence": 16})))
    assert ask(method=SCAP, spec=CalibrationSpec(text=text, thresholds="dense")) == len(given), "found already"
    ask(plan=budget(text.model_copy(update={"tokens": 128})))
    for version in ("BASES_VERSION", "ALLOCATION_VERSION"):
        with monkeypatch.context() as patch:
            patch.setattr(products, version, "another")
            ask()
    with monkeypatch.context() as patch:
        patch.setattr(products, "CALIBRATION_VERSION", "another")
        ask(method=SCAP, spec=spec)
        ask()  # needs none
    tiny_text(tmp_path, "Another text in the same file. " * 90)
    ask()
    assert len(given) == 11
    assert len({key for key, _ in given}) == len({curves for _, curves in given}) == 11
    before = len(given)
    ask(plan=budget(text, sparsity=0.6))
    ask(plan=budget(text, "refine"))
    ask(plan=budget(text, seed=1))
    assert len({key for key, _ in given}) == before + 3
    assert {curves for _, curves in given[before:]} == {given[before - 1][1]}, "one budget's curves serve another's"


class Logging(NullReporter):
    """Remembers the warnings."""

    def __init__(self):
        self.told = []

    def log(self, level, message):
        self.told.append((level, message))


def test_a_search_is_forgotten_only_once_its_result_is_kept(home, text, monkeypatch):
    def full(*_):
        raise WinaError("The disk is full.")

    loaded, plan = tiny_loaded(layers=1), budget(text, "greedy", step=0.4)
    folder, reporter = home / "cache" / "allocations", Logging()
    with monkeypatch.context() as patch:
        patch.setattr("wina_core.compute.session.cache.write_atomically", full)
        found, _ = Session().allocation(loaded, NO_ROTATION, WINA, plan, None, reporter)
    assert [message for _, message in reporter.told] == ["The allocation is not kept for later. The disk is full."]
    assert [file.suffix for file in folder.iterdir()] == [".search"]
    monkeypatch.setattr("wina_core.compute.allocation.allocators.LayerErrors", None)  # nothing is measured any more
    again, _ = Session().allocation(loaded, NO_ROTATION, WINA, plan, None, NullReporter())
    assert again == found
    assert [file.suffix for file in folder.iterdir()] == [".json"]
