"""Pictures of the window: each scene is one, sharp, small, and named by what there are several of."""

from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PySide6.QtGui import QColor, QImage
from wina_app.pages import PAGES
from wina_app.tools import screenshot_scenes, screenshots
from wina_app.tools.screenshot_scenes import Wait


def options(folder: Path, *arguments: str):
    return screenshots.parser().parse_args([str(folder), *arguments])


def test_scenes_are_saved_in_every_appearance_and_leave_nothing_open(application, tmp_path):
    scenes = screenshot_scenes.scenes(application, before_model=False)
    assert set(scenes) == {*PAGES, "gate", "comparison", "help", "palette", "settings"}
    folder = tmp_path / "new"
    asked = options(folder, "--empty", "--size", "1280x720", "--only", "palette")
    asked.theme = ["light", "dark"]
    assert all(isinstance(wait, Wait) for wait in screenshots.pictures(application, asked))
    taken = {file.stem: QImage(str(file)) for file in folder.iterdir()}
    assert set(taken) == {"palette-light", "palette-dark"}
    assert {(picture.width(), picture.height()) for picture in taken.values()} == {(1280, 720)}
    light, dark = (taken[f"palette-{theme}"].pixelColor(5, 5).lightness() for theme in asked.theme)
    assert light > 200 > 50 > dark
    assert not application.window.palette_view.isVisible()


def test_few_colours_keep_what_is_rare_and_merge_what_nobody_can_tell_apart():
    picture = shades(5)
    picture.setPixelColor(3, 3, QColor("#ff0000"))
    found = screenshots.few_colours(picture)
    assert found.format() == QImage.Format.Format_Indexed8
    assert found.pixelColor(3, 3) == QColor("#ff0000")
    assert np.abs(channels(picture) - channels(found)).max() <= screenshots._UNSEEN


def test_a_colour_map_keeps_all_its_colours():
    picture = shades(1)
    assert screenshots.few_colours(picture) is picture


def shades(alike: int) -> QImage:
    """64 x 64 pixels in as many colours, `alike` of them in a row apart by 1 and the next ones farther away."""
    picture = QImage(64, 64, QImage.Format.Format_RGB32)
    for y, x in product(range(64), range(64)):
        red, green = (at // alike * 4 * alike + at % alike for at in (x, y))
        picture.setPixelColor(x, y, QColor(red, green, 128))
    return picture


def channels(picture: QImage) -> np.ndarray:
    rgb = picture.convertToFormat(QImage.Format.Format_RGB32)
    return np.frombuffer(rgb.constBits(), np.uint8).astype(int)


def test_a_picture_that_cannot_be_written_ends_the_tour_with_a_sentence(qtbot, tmp_path):
    def steps():
        yield Wait("a moment", lambda: True)
        screenshots.save(QImage(4, 4, QImage.Format.Format_RGB32), tmp_path)

    assert run_tour(qtbot, steps(), jobs=[]) == [f"{tmp_path} could not be written; choose another folder."]


def test_a_job_that_fails_ends_the_tour_with_what_it_says(qtbot):
    failed = SimpleNamespace(title="Load demo", error="no", failure="There is no model.")
    waiting = iter([Wait("for ever", lambda: False)])
    assert run_tour(qtbot, waiting, jobs=[failed]) == ["Load demo: There is no model."]


def run_tour(qtbot, steps, jobs) -> list[str]:
    """What it has to complain about, once it has ended."""
    ended = []
    application = SimpleNamespace(workbench=SimpleNamespace(jobs=jobs))
    tour = screenshots.Tour(application, steps, lambda: ended.append(True))
    tour.start()
    qtbot.waitUntil(lambda: bool(ended))
    return tour.troubles


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("--size", "1280"), "'1280' is not a size such as 1280x800"), (("--text", "300"), "'300' is not a size from 80")],
)
def test_what_cannot_be_meant_is_refused(arguments, said, tmp_path, capsys):
    with pytest.raises(SystemExit):
        options(tmp_path, *arguments)
    assert said in capsys.readouterr().err
