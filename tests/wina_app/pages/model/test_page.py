"""The figures of the Model page, without a widget."""

from wina_app.pages.model.page import projection_bars, summary_figures

from tests.wina_app.stored_runs import summary


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
    held, read = ({bar.label: bar.value for bar in projection_bars(each)} for each in (mixture, dense))
    assert held["q"] == read["q"]
    assert held["gate"] == 172032 * (1 + 7 * 8)
