"""What the Playground asks the engine for, and what becomes of it when something changes meanwhile."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from wina_app.pages.playground.controller import SETTLE_MS, PlaygroundController
from wina_app.pages.playground.form_state import PlaygroundSettings
from wina_app.pages.playground.page import PlaygroundPage

from tests.wina_app.fakes import Recorded, done, load, make_workbench
from tests.wina_core.samples import run
from wina_core.jobs import (
    Assigned,
    CompletionFinished,
    EvaluateJob,
    Event,
    Failed,
    Held,
    PendingRun,
    Progress,
    Started,
    Token,
)
from wina_core.specs import NO_ROTATION, MethodSpec
from wina_core.specs.generation import CompletionSpec, SamplingSpec
from wina_core.specs.plans import SparsityPlan, UniformSparsity

pytestmark = pytest.mark.usefixtures("qapp")

CHOICE = PlaygroundSettings(
    prompt="def median(data):",
    chat=False,
    new_tokens=8,
    sampling=SamplingSpec(),
    rotation=NO_ROTATION,
    method=MethodSpec(name="wina"),
    sparsity=0.5,
    by_plan=False,
)


def token(configuration: int, number: int, divergence: float | None = None) -> Callable[[str], Event]:
    return lambda job_id: Token(
        job_id=job_id,
        configuration=configuration,
        id=number,
        text=f" {number}",
        log_probability=-1.0,
        dense_log_probability=None if divergence is None else -2.0,
        divergence=divergence,
        read=1,
        seconds=0.01,
        dense_seconds=None if divergence is None else 0.02,
    )


def answered(configuration: int, end: str = "length") -> Callable[[str], Event]:
    return lambda job_id: CompletionFinished(
        job_id=job_id, configuration=configuration, end=end, prompt_tokens=4, sparsity=0.5 if configuration else None
    )


class Setup:
    def __init__(self, tmp_path) -> None:
        self.workbench, self.engine, _ = make_workbench(tmp_path)
        self.view = Recorded(PlaygroundPage, choice=CHOICE)
        self.controller = PlaygroundController(self.workbench, self.view)
        load(self.workbench)

    def choose(self, **changes: object) -> None:
        """Change the controls, and wait no longer than the slider would."""
        self.view.returns(choice=replace(self.view.form.choice(), **changes))
        self.controller.change()

    @property
    def job(self):
        return self.engine.last.job


@pytest.fixture
def setup(tmp_path) -> Setup:
    return Setup(tmp_path)


def test_a_job_that_lost_its_engine_replaces_the_tokens_that_it_had(setup):
    setup.controller.generate()
    released = (lambda job_id: Held(job_id=job_id, held=True, released=True),)
    resumed = (lambda job_id: Held(job_id=job_id, held=False),)
    setup.engine.answer(token(0, 7), token(0, 8), token(1, 7, 0.1), *released, *resumed)
    assert setup.view.last("show_waiting")
    setup.engine.answer(token(0, 7), token(0, 8), token(1, 7, 0.1), answered(0), answered(1), done())
    assert [setup.controller.completions[side].ids for side in ("dense", "sparse")] == [(7, 8), (7,)]


def test_a_prompt_is_answered_on_both_sides(setup):
    setup.controller.generate()
    assert setup.job.prompt == CHOICE.prompt
    assert setup.job.configurations == (
        CompletionSpec(),
        CompletionSpec(method=MethodSpec(name="wina"), plan=UniformSparsity(sparsity=0.5)),
    )
    assert setup.view.named("show_action") == {"running": True, "reason": ""}
    setup.engine.answer(token(0, 7), token(1, 7, 0.1), token(0, 8), token(1, 9, 0.3), answered(0), answered(1), done())
    dense, sparse = (setup.controller.completions[side] for side in ("dense", "sparse"))
    assert (dense.ids, sparse.ids) == ((7, 8), (7, 9))
    assert setup.view.last("show_divergence") == 1
    figures = [args for args in setup.view._calls if args[0] == "show_figures"][-1][1]
    assert figures == (
        "sparse",
        {
            "tokens": "2",
            "prefill": "100 tokens/s",
            "first": "10 ms",
            "decode": "100.0 tokens/s",
            "speedup": "from 16 tokens on",
            "divergence": "0.2 nats",
            "sparsity": "50.0 %",
        },
    )
    assert setup.view.named("show_action") == {"running": False, "reason": ""}
    assert setup.workbench.settings.prompts == [CHOICE.prompt]


def test_a_change_while_it_streams_begins_the_sparse_side_anew_and_goes_on_with_the_dense_one(setup, qtbot):
    setup.controller.generate()
    first = setup.engine.last.job_id
    setup.engine.answer(token(0, 7), token(1, 7, 0.1), token(0, 8))
    setup.choose(sparsity=0.6)
    setup.choose(sparsity=0.7)
    qtbot.waitUntil(lambda: len(setup.engine.submitted) == 2)
    assert [request.job_id for request in setup.engine.sent if request.type == "cancel"] == [first]
    dense, sparse = setup.job.configurations
    assert dense == CompletionSpec(prefix=(7, 8))
    assert sparse.plan == UniformSparsity(sparsity=0.7)
    setup.engine.received.emit(token(1, 99, 0.1)(first))  # on its way when the job was given up
    setup.engine.received.emit(answered(0, "stopped")(first))
    setup.engine.received.emit(done(cancelled=True)(first))
    setup.engine.answer(token(0, 9), token(1, 7, 0.2))
    completions = setup.controller.completions
    assert (completions["dense"].ids, completions["sparse"].ids) == ((7, 8, 9), (7,))
    assert completions["dense"].ended is None
    qtbot.waitUntil(lambda: first not in [entry.id for entry in setup.workbench.jobs])


def test_a_change_after_the_end_answers_the_sparse_side_alone(setup, qtbot):
    setup.controller.generate()
    setup.engine.answer(token(0, 7), token(1, 7, 0.1), answered(0), answered(1), done())
    setup.choose(method=MethodSpec(name="scap"))
    qtbot.waitUntil(lambda: len(setup.engine.submitted) == 2)
    (sparse,) = setup.job.configurations
    assert sparse.method.name == "scap"
    assert sparse.calibration is not None
    setup.engine.answer(token(0, 5, 0.4), answered(0), done())
    assert setup.controller.completions["sparse"].ids == (5,)
    assert setup.controller.completions["dense"].ids == (7,)
    assert setup.view.last("show_divergence") == 0


def test_under_other_bits_nothing_is_answered_before_the_next_prompt(setup, qtbot):
    setup.controller.generate()
    setup.engine.answer(token(0, 7), token(1, 7, 0.1), answered(0), answered(1), done())
    setup.choose(sparsity=0.6)
    setup.workbench.workspace.set_quantization("int8")
    setup.choose(sparsity=0.7)
    qtbot.wait(2 * SETTLE_MS)
    assert len(setup.engine.submitted) == 1, "the dense side is another model's"
    setup.controller.generate()
    assert setup.job.model.quantization == "int8"


def test_the_prompt_and_the_sampling_wait_for_the_next_prompt(setup):
    setup.controller.generate()
    setup.choose(prompt="another", new_tokens=3)
    setup.controller.restart()
    assert (setup.job.prompt, setup.job.new_tokens) == (CHOICE.prompt, 8)
    setup.controller.generate()
    assert (setup.job.prompt, setup.job.new_tokens) == ("another", 3)
    assert setup.workbench.settings.prompts == ["another", CHOICE.prompt]


def test_an_edited_plan_is_answered_when_the_page_is_shown_again(setup, qtbot):
    plan = setup.workbench.workspace.plan
    setup.choose(by_plan=True)
    setup.controller.generate()
    assert setup.job.configurations[1].plan == plan
    setup.workbench.workspace.set_plan(SparsityPlan.uniform(plan.layout, 0.25))
    assert len(setup.engine.submitted) == 1
    setup.controller.set_visible(True)
    qtbot.waitUntil(lambda: len(setup.engine.submitted) == 2)
    assert setup.job.configurations[-1].plan.budget == 0.25


def test_nothing_is_sent_without_a_model_or_a_prompt(tmp_path):
    workbench, engine, _ = make_workbench(tmp_path)
    view = Recorded(PlaygroundPage, choice=CHOICE)
    controller = PlaygroundController(workbench, view)
    controller.generate()
    assert view.named("show_action")["reason"] == "Open a model first, or send prompts to a server"
    load(workbench)
    view.returns(choice=replace(CHOICE, prompt="  \n"))
    controller.change()
    controller.generate()
    assert view.named("show_action")["reason"].startswith("Type a prompt")
    assert engine.submitted == []


def test_stopping_keeps_what_is_there_and_a_failure_is_told_and_mended_by_the_slider(setup, qtbot):
    setup.controller.generate()
    setup.engine.answer(token(0, 7))
    setup.controller.stop()
    assert setup.engine.sent[-1].type == "cancel"
    setup.engine.answer(answered(0, "stopped"), answered(1, "stopped"), done(cancelled=True))
    assert setup.controller.completions["dense"].ids == (7,)
    setup.controller.restart()
    assert [each.is_dense for each in setup.job.configurations] == [False], "what was stopped stays"
    setup.controller.generate()
    setup.engine.answer(lambda job_id: Failed(job_id=job_id, error="The prompt has 600 tokens."))
    assert setup.view.last("show_error") == "The prompt has 600 tokens."
    assert setup.view.named("show_action")["running"] is False
    setup.choose(sparsity=0.2)
    qtbot.waitUntil(lambda: [each.is_dense for each in setup.job.configurations] == [True, False])


def test_what_comes_before_the_first_token_is_told(setup):
    setup.controller.generate()
    setup.engine.answer(lambda job_id: Progress(job_id=job_id, done=1, total=4, unit="layers", metric="rotating"))
    assert setup.view.last("show_waiting") == "rotating 25 %"
    setup.engine.received.emit(token(0, 7)(setup.engine.last.job_id))
    assert setup.view.last("show_waiting") == ""


def test_the_job_that_it_waits_for_is_named_unless_a_light_engine_takes_it(setup):
    batch = EvaluateJob(runs=(PendingRun(spec=run(), units=("choice",)),))
    job_id = setup.workbench.submit(batch, "Evaluate 1 run")
    setup.engine.received.emit(Started(job_id=job_id))
    setup.controller.generate()
    assert setup.view.last("show_waiting") == "Waiting for: Evaluate 1 run"
    setup.engine.received.emit(Assigned(engine=2, light=True))
    setup.controller.generate()
    assert setup.view.last("show_waiting") == "Waiting for the engine"


def test_another_model_begins_with_nothing(setup):
    setup.controller.generate()
    setup.engine.answer(token(0, 7))
    load(setup.workbench)
    assert setup.controller.completions == {}
    assert setup.engine.sent[-1].type == "cancel"
    setup.controller.restart()
    assert len(setup.engine.submitted) == 1


def test_an_engine_that_died_leaves_answers_that_can_go_on(setup):
    setup.controller.generate()
    setup.engine.answer(token(0, 7), token(1, 7, 0.1), lambda job_id: Failed(job_id=job_id, error="The engine died."))
    completions = setup.controller.completions
    assert [completions[side].ended.end for side in ("dense", "sparse")] == ["stopped", "stopped"]
    setup.controller.restart()
    assert setup.job.configurations[0] == CompletionSpec(prefix=(7,))
    assert completions["dense"].ended is None
