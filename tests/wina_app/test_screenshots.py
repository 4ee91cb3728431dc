"""Pictures of the window: each scene is one, sharp, small, and named by what there are several of."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QDialog
from wina_app import screenshot_scenes, screenshots
from wina_app.screenshot_scenes import Wait
from wina_app.wiring import PAGES

_DISTANCE = 16
"""By which a shade may be off in red, green or blue."""


def options(folder: Path, *arguments: str):
    return screenshots.parser().parse_args([str(folder), *arguments])


def test_scenes_are_saved_in_every_appearance_and_leave_nothing_open(application, tmp_path):
    scenes = screenshot_scenes.scenes(application, before_model=False)
    assert set(scenes) == {*PAGES, "gate", "comparison", "help", "palette", "settings"}
    folder = tmp_path / "new"
    asked = options(folder, "--empty", "--size", "1280x720", "--only", "settings", "--only", "palette")
    asked.theme = ["light", "dark"]
    assert all(isinstance(wait, Wait) for wait in screenshots.pictures(application, asked))
    taken = {file.stem: QImage(str(file)) for file in folder.iterdir()}
    assert set(taken) == {"settings-light", "settings-dark", "palette-light", "palette-dark"}
    assert {(picture.width(), picture.height()) for picture in taken.values()} == {(1280, 720)}
    light, dark = (taken[f"palette-{theme}"].pixelColor(5, 5).lightness() for theme in asked.theme)
    assert light > 200 > 50 > dark
    assert not application.window.palette_view.isVisible()
    assert not [dialog for dialog in application.window.findChildren(QDialog) if dialog.isVisible()]


def test_few_colours_keep_what_is_rare_and_blur_what_is_alike():
    picture = QImage(64, 64, QImage.Format.Format_RGB32)
    shades = [QColor(x * 4, y * 4, 128) for y in range(64) for x in range(64)]
    for at, shade in enumerate(shades):
        picture.setPixelColor(at % 64, at // 64, shade)
    picture.setPixelColor(3, 3, QColor("#ff0000"))
    found = screenshots.few_colours(picture)
    assert found.colorCount() <= 256
    assert found.pixelColor(3, 3) == QColor("#ff0000")
    before, after = channels(picture), channels(found)
    assert np.abs(before - after).max() <= _DISTANCE


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
