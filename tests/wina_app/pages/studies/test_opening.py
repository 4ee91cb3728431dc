"""A study file of the user's own is shown once it is read, whatever else is being read meanwhile."""

from tests.wina_app.pages.studies.studies_bench import Bench
from tests.wina_app.studies import DEMO, write


def test_a_file_that_is_opened_while_the_gallery_is_being_read_is_shown(qapp, tmp_path, monkeypatch):  # noqa: ARG001
    bench = Bench(tmp_path, monkeypatch)
    mine, ask, asked = write(tmp_path, "mine", DEMO), bench.store.ask, []
    monkeypatch.setattr(bench.store, "ask", lambda *question: asked.append(question))
    bench.controller.set_visible(True)
    bench.controller.open_file(mine)
    while asked:
        ask(*asked.pop(0))
    assert bench.view.last("show_study").file == mine
    bench.store.store.close()


def test_the_study_of_the_last_session_is_selected_once_the_gallery_is_read(qapp, tmp_path, monkeypatch):  # noqa: ARG001
    bench = Bench(tmp_path, monkeypatch)
    bench.controller.restore(bench.demo)
    assert bench.view.last("show_study").file == bench.demo
    bench.store.store.close()
