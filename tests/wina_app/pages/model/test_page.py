"""The figures of the Model page, and its remarks."""

from PySide6.QtWidgets import QFileDialog
from wina_app.pages.model.page import ModelPage, projection_figures, summary_figures

from tests.wina_app.stored_runs import summary
from wina_core.specs import ModelSource


def test_the_experts_of_a_model_are_counted_where_they_are_held_and_read() -> None:
    dense = summary()
    assert "Experts" not in [name for name, _, _ in summary_figures(dense)]
    shape = dense.shape
    assert shape is not None
    mixture = dense.model_copy(
        update={"shape": shape.model_copy(update={"experts": (0, *(64,) * 7), "active_experts": 8})}
    )
    figures = {name: (text, tip) for name, text, tip in summary_figures(mixture)}
    assert figures["Experts"] == ("8 of 64 per token", "In 7 of the layers; memory holds all experts")
    held, read = ({name: tip for name, _, tip in projection_figures(each)} for each in (mixture, dense))
    assert held["q"] == read["q"]
    assert held["gate"] == f"{172032 * (1 + 7 * 8):,} weights."


def test_what_to_know_about_the_weights_is_shown_under_the_name(qtbot) -> None:
    page = ModelPage()
    qtbot.addWidget(page)
    remarked = summary().model_copy(update={"remarks": ("They were quantized before.", "They are in float32.")})
    for shown, text in ((remarked, "They were quantized before.\nThey are in float32."), (summary(), "")):
        page.show_summary("tiny", ModelSource(location="tiny.gguf"), shown)
        qtbot.waitUntil(lambda text=text: page.remarks.text() == text)
        assert page.remarks.isHidden() == (not text)


def test_a_gguf_file_is_chosen_beside_a_folder(qtbot, monkeypatch):
    page = ModelPage()
    qtbot.addWidget(page)
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *_: ("/models/a.gguf", ""))
    for button in (page.file, page.begin.file):
        with qtbot.waitSignal(page.open_requested) as opened:
            button.click()
        assert opened.args[0] == "/models/a.gguf"
