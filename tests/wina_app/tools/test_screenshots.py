"""Pictures of the window: each scene is one, sharp, small, and named by what there are several of."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from PySide6.QtGui import QImage
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
