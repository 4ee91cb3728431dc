"""The dialog that shows the folders of a machine."""

import pytest
from PySide6.QtCore import QObject, Qt, Signal
from wina_app.services.folder_browser import FolderBrowser
from wina_app.shared.browse.dialog import BrowseDialog

from wina_core.errors import WinaError
from wina_core.remote.machines.messages import FolderEntry, FolderListing
from wina_core.specs.machine import Machine

GPU, LAB = Machine(name="gpu", destination="gpu"), Machine(name="lab", destination="lab")
HOME = FolderListing(
    path="/home/me",
    is_model=False,
    folders=(FolderEntry(name="llama", is_model=True, size=2**30), FolderEntry(name="data", is_model=False)),
)


MADE = []
"""Fake browsers, in the order in which they were made."""


class FakeBrowser(QObject):
    """Has the interface of `FolderBrowser`; remembers what it was asked."""

    listed = Signal(object)
    refused = Signal(str)

    def __init__(self, machine):
        super().__init__()
        self.machine, self.asked, self.left = machine, [], False
        MADE.append(self)

    def ask(self, path):
        """Remember."""
        self.asked.append(path)

    def leave(self):
        """Remember."""
        self.left = True


@pytest.fixture
def shown(qtbot):
    """Show a dialog over both machines, or for a new folder of a name."""

    def show(new_name=None):
        dialog = BrowseDialog(None, "Open", {"gpu": GPU, "lab": LAB}, new_name, FakeBrowser)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose, on=False)
        qtbot.addWidget(dialog)
        dialog.show()
        found = []
        dialog.chosen.connect(found.append)
        return dialog, MADE[-1], found

    yield show
    MADE.clear()


def rows(dialog):
    return [dialog.folders.topLevelItem(row) for row in range(dialog.folders.topLevelItemCount())]


def test_folders_are_entered_and_a_model_is_opened(shown):
    dialog, browser, found = shown()
    assert (browser.machine, browser.asked, dialog.accept_button.isEnabled()) == (GPU, ["~"], False)
    browser.listed.emit(HOME)
    assert [(row.text(0), row.text(1)) for row in rows(dialog)] == [("llama", "1.00 GiB"), ("data", "")]
    _llama, data = rows(dialog)
    dialog.folders.itemActivated.emit(data, 0)
    assert browser.asked[-1] == "/home/me/data"
    browser.listed.emit(HOME.model_copy(update={"path": "/home/me/data", "folders": ()}))
    assert dialog.state.text() == "No folders and no GGUF files in here."
    dialog.up.click()
    assert browser.asked[-1] == "/home/me"
    browser.listed.emit(HOME)
    dialog.folders.setCurrentItem(rows(dialog)[0])
    dialog.accept_button.click()
    assert (found, browser.left) == (["gpu:/home/me/llama"], True)


def test_a_gguf_file_is_opened_and_is_no_place_for_a_new_folder(shown):
    file = FolderEntry(name="tiny.Q4_0.gguf", is_model=True, size=2**20)
    listing = HOME.model_copy(update={"folders": (*HOME.folders, file)})
    dialog, browser, found = shown()
    browser.listed.emit(listing)
    assert (rows(dialog)[2].text(0), rows(dialog)[2].text(1)) == ("tiny.Q4_0.gguf", "1.00 MiB")
    dialog.folders.setCurrentItem(rows(dialog)[2])
    dialog.folders.itemActivated.emit(rows(dialog)[2], 0)
    assert found == ["gpu:/home/me/tiny.Q4_0.gguf"]
    dialog, browser, _ = shown("new")
    browser.listed.emit(listing)
    assert [row.text(0) for row in rows(dialog)] == ["llama", "data"]
    dialog.folders.itemActivated.emit(rows(dialog)[1], 0)
    assert browser.asked[-1] == "/home/me/data"


def test_a_machine_that_cannot_be_reached_says_why_and_another_can_be_chosen(shown):
    dialog, browser, found = shown()
    browser.refused.emit("The machine cannot be reached.")
    assert (dialog.state.text(), dialog.up.isEnabled()) == ("The machine cannot be reached.", False)
    dialog.machine.setCurrentText("lab")
    other = MADE[-1]
    assert (browser.left, other.machine) == (True, LAB)
    browser.listed.emit(HOME)
    assert not rows(dialog), "an answer that comes too late"
    other.listed.emit(HOME.model_copy(update={"is_model": True}))
    dialog.accept_button.click()
    assert found == ["lab:/home/me"]


def test_a_new_folder_has_a_name_and_lies_in_the_shown_one(shown):
    dialog, browser, found = shown("llama-rotated")
    browser.listed.emit(HOME)
    dialog.name.setText("../x")
    assert not dialog.accept_button.isEnabled()
    dialog.name.setText("out")
    dialog.accept_button.click()
    assert found == ["gpu:/home/me/out"]


def test_only_the_latest_question_is_answered_and_a_lost_connection_is_made_anew(qtbot):
    connections, answers = [], []

    class Connection:
        def __enter__(self):
            connections.append(self)
            return self

        def __exit__(self, *_):
            pass

        def ask(self, _operation, question, _result):
            answers.append(question.path)
            if question.path == "/lost":
                raise WinaError("The connection failed.")
            return HOME.model_copy(update={"path": question.path})

    browser = FolderBrowser(GPU, connect=lambda _: Connection())
    heard = []
    browser.listed.connect(lambda listing: heard.append(listing.path))
    browser.refused.connect(heard.append)
    for path in ("/lost", "/one", "/two"):
        browser.ask(path)
        qtbot.waitUntil(lambda path=path: path in answers)
        qtbot.waitUntil(lambda path=path: heard[-1:] == ["The connection failed." if path == "/lost" else path])
    browser.leave()
    assert len(connections) == 2
