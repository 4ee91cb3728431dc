"""A controller of the Studies page over a gallery of two small studies, with all that it talks to."""

from wina_app.pages.studies.controller import StudiesController
from wina_app.pages.studies.page import StudiesPage

from tests.wina_app.fakes import Recorded, make_workbench
from tests.wina_app.studies import DEMO, PAPER, write
from wina_core.studies.expand import load_study
from wina_core.studies.gallery import GalleryEntry
from wina_core.studies.launch import LaunchOptions

PLAIN = LaunchOptions()


class Bench:
    """A controller over a gallery of two small studies, with all that it talks to."""

    def __init__(self, folder, monkeypatch):
        self.workbench, self.engine, self.store = make_workbench(folder)
        self.paper, self.demo = write(folder / "gallery", "paper", PAPER), write(folder / "gallery", "demo", DEMO)
        entries = (
            GalleryEntry(self.paper, "paper", load_study(self.paper)),
            GalleryEntry(self.demo, "demo", load_study(self.demo)),
        )
        monkeypatch.setattr("wina_app.pages.studies.catalogue.gallery", lambda: entries)
        self.view = Recorded(StudiesPage, choice=PLAIN)
        self.controller = StudiesController(self.workbench, self.view)
        self.controller.set_visible(True)

    def state(self, file):
        """What the view was told last of a study, once all are read."""
        while self.controller._catalogue.read_next():
            pass
        calls = [args for name, args, _ in self.view._calls if name == "show_state" and args[0] == file]
        return calls[-1][1]

    def show(self, file):
        self.controller.select(file)
        return self.state(file)

    def jobs(self):
        return [submit.job for submit in self.engine.submitted]
