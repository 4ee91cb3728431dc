"""Jobs of windows that were killed or machines that were switched off: offered by a toast and in the Run menu."""

from PySide6.QtCore import QObject

from wina_app.services.workbench import Workbench
from wina_app.style.translation import tr
from wina_app.window.menus import Menus
from wina_app.window.toast import Toast, Toasts


class UnfinishedJobs(QObject):
    """Two actions of the Run menu, visible while there are unfinished jobs."""

    def __init__(self, workbench: Workbench, menus: Menus, toasts: Toasts) -> None:
        super().__init__(toasts)
        self._toasts = toasts
        self._offered: Toast | None = None
        self.resume = menus.add(menus.run, tr("&Resume unfinished jobs"), workbench.resume_unfinished, "Ctrl+Shift+U")
        self.discard = menus.add(menus.run, tr("&Discard unfinished jobs"), workbench.discard_unfinished, "Ctrl+Alt+U")
        for action in (self.resume, self.discard):
            action.triggered.connect(lambda: self.offer(0))
        self.offer(0)
        workbench.unfinished_found.connect(self.offer)

    def offer(self, jobs: int) -> None:
        """Offer to resume so many jobs."""
        for action in (self.resume, self.discard):
            action.setVisible(jobs > 0)
        if self._offered is not None:
            self._toasts.remove(self._offered)
            self._offered = None
        if jobs:
            button = tr("Resume {jobs}", jobs=tr("{n} unfinished jobs", "{n} unfinished job", jobs))
            text = tr("Continue where they stopped?")
            self._offered = self._toasts.say(tr("Jobs"), text, button, self.resume.trigger, stays=True)
