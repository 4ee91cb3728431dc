"""What the Playground asks the engine for, and what becomes of it when something changes meanwhile."""

from collections.abc import Callable

from wina_app.pages.playground.controller import SETTLE_MS

from tests.wina_app.fakes import done
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
from wina_core.specs import MethodSpec
from wina_core.specs.generation import CompletionSpec
from wina_core.specs.plans import UniformSparsity

PROMPT = "def median(data):"


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


def test_a_job_that_lost_its_engine_replaces_the_tokens_that_it_had(setup):
    setup.control.generate()
    released = (lambda job_id: Held(job_id=job_id, held=True, released=True),)
    resumed = (lambda job_id: Held(job_id=job_id, held=False),)
    setup.engine.answer(token(0, 7), token(0, 8), token(1, 7, 0.1), *released, *resumed)
    assert setup.page.panes["dense"].text.placeholderText() != "The completion appears here."
    setup.engine.answer(token(0, 7), token(0, 8), token(1, 7, 0.1), answered(0), answered(1), done())
    assert [setup.control.completions[side].ids for side in ("dense", "sparse")] == [(7, 8), (7,)]


def test_a_prompt_is_answered_on_both_sides(setup):
    setup.control.generate()
    assert setup.job.prompt == PROMPT
    assert setup.job.configurations == (
        CompletionSpec(),
        CompletionSpec(method=MethodSpec(name="wina"), plan=UniformSparsity(sparsity=0.5)),
    )
    assert setup.page.stop.isEnabled()
    setup.engine.answer(token(0, 7), token(1, 7, 0.1), token(0, 8), token(1, 9, 0.3), answered(0), answered(1), done())
    dense, sparse = (setup.control.completions[side] for side in ("dense", "sparse"))
    assert (dense.ids, sparse.ids) == ((7, 8), (7, 9))
    assert setup.page.divergence.whole() == "The completions diverge at token 2: ' 8' against ' 9'."
    numbers = {name: number.text() for name, number in setup.page.panes["sparse"]._numbers.items()}
    assert numbers == {
        "prefill": "100 tokens/s",
        "first": "10 ms",
        "decode": "100.0 tokens/s",
        "speedup": "from 16 tokens on",
        "divergence": "0.2 nats",
        "sparsity": "50.0 %",
    }
    assert setup.page.panes["sparse"]._state.text() == "reached max length"
    assert not setup.page.stop.isEnabled()
    assert setup.workbench.settings.prompts == [PROMPT]


def test_a_change_while_it_streams_begins_the_sparse_side_anew_and_goes_on_with_the_dense_one(setup, qtbot):
    setup.control.generate()
    first = setup.engine.last.job_id
    setup.engine.answer(token(0, 7), token(1, 7, 0.1), token(0, 8))
    setup.form.sparsity.setValue(60)
    setup.form.sparsity.setValue(70)
    qtbot.waitUntil(lambda: len(setup.engine.submitted) == 2)
    assert [request.job_id for request in setup.engine.sent if request.type == "cancel"] == [first]
    dense, sparse = setup.job.configurations
    assert dense == CompletionSpec(prefix=(7, 8))
    assert sparse.plan == UniformSparsity(sparsity=0.7)
    setup.engine.received.emit(token(1, 99, 0.1)(first))  # on its way when the job was given up
    setup.engine.received.emit(answered(0, "stopped")(first))
    setup.engine.received.emit(done(cancelled=True)(first))
    setup.engine.answer(token(0, 9), token(1, 7, 0.2))
    completions = setup.control.completions
    assert (completions["dense"].ids, completions["sparse"].ids) == ((7, 8, 9), (7,))
    assert completions["dense"].ended is None
    qtbot.waitUntil(lambda: first not in [entry.id for entry in setup.workbench.jobs])


def test_a_change_after_the_end_answers_the_sparse_side_alone(setup, qtbot):
    setup.control.generate()
    setup.engine.answer(token(0, 7), token(1, 7, 0.1), answered(0), answered(1), done())
    setup.form.method.setCurrentIndex(setup.form.method.findText("scap"))
    setup.form.method.activated.emit(0)
    qtbot.waitUntil(lambda: len(setup.engine.submitted) == 2)
    (sparse,) = setup.job.configurations
    assert sparse.method.name == "scap"
    assert sparse.calibration is not None
    setup.engine.answer(token(0, 5, 0.4), answered(0), done())
    assert setup.control.completions["sparse"].ids == (5,)
    assert setup.control.completions["dense"].ids == (7,)
    assert "diverge at token 1" in setup.page.divergence.whole()


def test_under_other_bits_nothing_is_answered_before_the_next_prompt(setup, qtbot):
    setup.control.generate()
    setup.engine.answer(token(0, 7), token(1, 7, 0.1), answered(0), answered(1), done())
    setup.form.sparsity.setValue(60)
    setup.workbench.workspace.set_quantization("int8")
    setup.form.sparsity.setValue(70)
    qtbot.wait(2 * SETTLE_MS)
    assert len(setup.engine.submitted) == 1, "the dense side is another model's"
    setup.control.generate()
    assert setup.job.model.quantization == "int8"


def test_the_prompt_and_the_sampling_wait_for_the_next_prompt(setup):
    setup.control.generate()
    setup.form.prompt.setPlainText("another")
    setup.form.new_tokens.setValue(3)
    setup.control.restart()
    assert (setup.job.prompt, setup.job.new_tokens) == (PROMPT, 8)
    setup.control.generate()
    assert (setup.job.prompt, setup.job.new_tokens) == ("another", 3)
    assert setup.workbench.settings.prompts == ["another", PROMPT]


def test_stopping_keeps_what_is_there_and_a_failure_is_told_and_mended_by_the_slider(setup, qtbot):
    setup.control.generate()
    setup.engine.answer(token(0, 7))
    setup.control.stop()
    assert setup.engine.sent[-1].type == "cancel"
    setup.engine.answer(answered(0, "stopped"), answered(1, "stopped"), done(cancelled=True))
    assert setup.control.completions["dense"].ids == (7,)
    setup.control.restart()
    assert [each.is_dense for each in setup.job.configurations] == [False], "what was stopped stays"
    setup.control.generate()
    setup.engine.answer(lambda job_id: Failed(job_id=job_id, error="The prompt has 600 tokens."))
    assert setup.page.message.error == "The prompt has 600 tokens."
    assert not setup.page.stop.isEnabled()
    setup.form.sparsity.setValue(20)
    qtbot.waitUntil(lambda: [each.is_dense for each in setup.job.configurations] == [True, False])


def test_what_comes_before_the_first_token_is_told(setup):
    setup.control.generate()
    setup.engine.answer(lambda job_id: Progress(job_id=job_id, done=1, total=4, unit="layers", metric="rotating"))
    assert setup.page.panes["dense"].text.placeholderText() == "rotating 25 %"
    setup.engine.received.emit(token(0, 7)(setup.engine.last.job_id))
    assert setup.page.panes["dense"].text.placeholderText() == "The completion appears here."


def test_the_job_that_it_waits_for_is_named_unless_a_light_engine_takes_it(setup):
    batch = EvaluateJob(runs=(PendingRun(spec=run(), units=("choice",)),))
    job_id = setup.workbench.submit(batch, "Evaluate 1 run")
    setup.engine.received.emit(Started(job_id=job_id))
    setup.control.generate()
    assert setup.page.panes["dense"].text.placeholderText() == "Waiting for: Evaluate 1 run"
    setup.engine.received.emit(Assigned(engine=2, light=True))
    setup.control.generate()
    assert setup.page.panes["dense"].text.placeholderText() == "Waiting for the engine"
