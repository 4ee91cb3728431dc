"""The Playground's page: coloured tokens, what pointing at one tells, and controls that say what they say."""

import math

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtGui import QTextCharFormat
from wina_app.pages.playground.page import PlaygroundPage
from wina_app.pages.playground.response_pane import DIVERGENCE, divergence_colour
from wina_app.style.theme import apply_theme, contrast, text_on

from wina_core.jobs import Token
from wina_core.jobs.completion import Completion
from wina_core.specs import MethodSpec
from wina_core.specs.generation import CompletionSpec
from wina_core.specs.plans import UniformSparsity

UNDERLINE = QTextCharFormat.UnderlineStyle.WaveUnderline
SPARSE = CompletionSpec(method=MethodSpec(name="wina"), plan=UniformSparsity(sparsity=0.5))


def token(number: int, text: str, divergence: float | None = None, p: float = 0.5) -> Token:
    return Token(
        job_id="",
        configuration=0,
        id=number,
        text=text,
        log_probability=math.log(p),
        dense_log_probability=None if divergence is None else math.log(0.25),
        divergence=divergence,
        read=1,
        seconds=0.002,
    )


DENSE = Completion(CompletionSpec(), [token(1, "return"), token(2, " x"), token(3, "\n")])
GATED = Completion(SPARSE, [token(1, "return", 0.0001), token(4, " data", 0.5, 0.125), token(5, "\n", 20.0)])


@pytest.fixture
def page(setup) -> PlaygroundPage:
    page = setup.page
    page.show_completion("dense", DENSE)
    page.show_completion("sparse", GATED)
    page.show_divergence(1, "")
    return page


def test_tokens_are_coloured_by_their_divergence_and_stay_readable(qapp, page):
    text = page.panes["sparse"].text
    assert text.colour_of(0) is None  # hardly any
    assert text.colour_of(1) == DIVERGENCE.colour(math.log10(0.5))
    assert text.colour_of(2) == DIVERGENCE.colour(1.0)  # beyond the scale
    assert [page.panes["dense"].text.colour_of(at) for at in range(3)] == [None] * 3
    for exponent in range(-30, 11):
        colour = divergence_colour(10 ** (exponent / 10))
        assert contrast(text_on(colour), colour) >= 4.5
    for mode in ("dark", "light"):
        apply_theme(qapp, mode)
        place = text.document().find(" data")
        shown = place.charFormat()
        assert shown.background().color() == text.colour_of(1)
        assert shown.foreground().color() == text_on(text.colour_of(1))
        assert shown.underlineStyle() == UNDERLINE  # it is where the completions part
        image = text.grab().toImage()
        ratio = text.devicePixelRatioF()
        box = text.cursorRect(place)
        point = text.viewport().mapToParent(QPoint(box.left() - 2, box.top() + 2))
        assert image.pixelColor(round(point.x() * ratio), round(point.y() * ratio)) == text.colour_of(1)


def test_pointing_at_a_token_tells_its_probability_in_both_models(page):
    text = page.panes["sparse"].text
    cursor = text.document().find(" data")
    box = text.cursorRect(cursor)
    assert text.token_at(QPoint(box.left() - 3, box.center().y())) == 1
    assert text.token_at(QPoint(box.left() + 200, box.center().y())) is None
    text.pointed.emit(1)
    assert page.pointed.whole() == "token 2: ' data' (id 4)   p dense 0.25   p sparse 0.125   KL 0.5 nats   2 ms"
    page.panes["dense"].text.pointed.emit(0)  # here both agree, so that the sparse side's numbers hold too
    assert page.pointed.whole() == "token 1: 'return' (id 1)   p dense 0.5   p sparse 0.5   KL 0.0001 nats   2 ms"
    page.panes["dense"].text.pointed.emit(1)
    assert "p sparse \N{EN DASH}" in page.pointed.whole()
    text.pointed.emit(None)
    assert page.pointed.whole() == ""


def test_the_keyboard_reaches_where_the_answers_part(qtbot, page):
    page.to_divergence.trigger()
    assert page.panes["sparse"].text.textCursor().position() == len("return")
    qtbot.waitUntil(lambda: page.pointed.whole().startswith("token 2:"))


def test_tokens_arrive_one_by_one_and_a_mark_set_before_holds(page):
    page.show_completion("sparse", Completion(SPARSE))
    page.show_divergence(1, "")
    text = page.panes["sparse"].text
    for one in GATED.tokens:
        page.add_token("sparse", one)
    assert text.toPlainText() == "return data\N{DOWNWARDS ARROW WITH CORNER LEFTWARDS}\n"
    assert text.document().find(" data").charFormat().underlineStyle() == UNDERLINE
    assert text.document().find("return").charFormat().underlineStyle() != UNDERLINE


def test_the_form_says_what_is_chosen_and_the_plan_disables_the_slider(qtbot, page):
    form = page.form
    form.slider.setValue(65)
    form.step_sparsity(-1)
    assert form.sparse_spec(None).plan == UniformSparsity(sparsity=0.6)
    with qtbot.waitSignal(page.changed):
        form.by_plan.click()
    assert not form.slider.isEnabled()
    assert "plan" in form.slider.toolTip()
    assert not form.chat.isEnabled()
    assert "no chat template" in form.chat.toolTip()


def test_what_is_not_possible_says_why(page):
    page.form.prompt.setPlainText("  ")
    assert not page.primary.isEnabled()
    assert page.primary.toolTip() == "Type a prompt or choose an example"
    assert not page.stop.isEnabled()
    assert page.stop.toolTip() == "Nothing is being generated"
    page.show_context([], ready=False)
    assert page.is_empty
