"""The frontier drawn into a file without a window."""

from pathlib import Path

import pytest
from PySide6.QtGui import QColor, QImage
from wina_app.style.theme import method_colour
from wina_app.tools import render_figure

from tests.wina_app.stored_runs import record_demo_study
from wina_core.store import Store


@pytest.fixture
def database(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'results.sqlite'}"
    with Store(url) as store:
        record_demo_study(store)
    return url


@pytest.mark.usefixtures("qapp")
def test_a_stored_study_is_drawn(database: str, tmp_path: Path) -> None:
    with Store(database) as store:
        study = store.studies()[0].name
    file = tmp_path / "frontier.png"
    assert (
        render_figure.main(
            [str(file), "--study", study, "--task", "demo_choice", "--metric", "acc", "--database", database]
        )
        == 0
    )
    image = QImage(str(file))
    assert image.width() == round(render_figure.SIZE[0] / 25.4 * render_figure.DPI)
    wanted = QColor(method_colour("wina")).rgb()
    assert any(image.pixel(x, y) == wanted for x in range(0, image.width(), 2) for y in range(0, image.height(), 2))


@pytest.mark.usefixtures("qapp")
def test_the_suffix_names_the_format(database: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    asked = ["--study", "demo study", "--task", "demo_choice", "--metric", "acc", "--database", database]
    assert render_figure.main([str(tmp_path / "frontier.py"), *asked]) == 0
    data = (tmp_path / "frontier.py").read_text()
    assert "wina" in data
    assert "64.8" in data, "as measured, where the target is 65 %"
    assert render_figure.main([str(tmp_path / "frontier.bmp"), *asked]) == 1
    assert "cannot be drawn so" in capsys.readouterr().err


def test_a_study_that_is_not_stored_is_named(database: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    file = tmp_path / "frontier.png"
    assert render_figure.main([str(file), "--study", "nothing", "--database", database]) == 1
    assert 'in a study "nothing"; run the study first' in capsys.readouterr().err
    assert not file.exists()
