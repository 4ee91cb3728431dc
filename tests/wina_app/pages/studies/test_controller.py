"""From the gallery to what is stored of each study, to the jobs that compute the rest."""

import sys
from dataclasses import replace

import pytest
from wina_app.pages.studies.controller import StudiesController
from wina_app.pages.studies.reports import StudyReports
from wina_app.pages.studies.study_state import facts
from wina_app.services.settings import Settings
from wina_app.services.side_process import SideProcess
from wina_app.shared import product_question

from tests.wina_app.fakes import done, is_running
from tests.wina_app.pages.studies.studies_bench import PLAIN, Bench
from tests.wina_app.studies import BROKEN, DEMO, PAPER, ROLE, record, write
from wina_core.api.studies import open_study
from wina_core.jobs import EvaluateJob, Failed, Held, LatencyJob, Pause, Progress, Resume
from wina_core.jobs.planning import MemoryNeed
from wina_core.studies.expand import bind, expand, labelled, load_study
from wina_core.studies.gallery import load_roles
from wina_core.studies.launch import LaunchOptions
from wina_core.studies.tasks.index import TaskEntry, TaskIndex, save_index


@pytest.fixture
def bench(tmp_path, qapp, monkeypatch):  # noqa: ARG001 - signals need an application
    made = Bench(tmp_path, monkeypatch)
    yield made
    made.store.store.close()


@pytest.fixture
def mapped(bench, tmp_path):
    """The role stands for a folder; nothing of it is stored."""
    folder = tmp_path / "llama"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    bench.controller.map_role(ROLE, str(folder))
    return bench


def paper_runs(bench):
    return expand(bind(load_study(bench.paper), load_roles()))


def test_the_gallery_is_listed_with_what_each_study_needs_or_has_to_do(bench):
    assert [entry.name for entry in bench.view.last("show_list")] == ["tiny-paper", "tiny-demo"]
    assert bench.state(bench.paper).text == f"needs {ROLE}"
    assert bench.state(bench.demo).text == "runs here, 8 measurements"
    assert bench.view.last("show_study").name == "tiny-paper", "the first one is shown"


def test_nothing_is_read_for_a_hidden_page(bench):
    bench.controller.set_visible(False)
    before = len(bench.view.calls("show_state"))
    bench.workbench.environment_changed.emit()
    assert len(bench.view.calls("show_state")) == before


def test_a_mapped_role_is_remembered_and_its_study_runs_here(mapped, tmp_path):
    assert load_roles() == {ROLE: str(tmp_path / "llama")}
    assert mapped.state(mapped.paper).text == "runs here, 5 measurements"
    (role,) = mapped.view.last("show_roles")
    assert role.location == str(tmp_path / "llama")
    mapped.controller.map_role(ROLE, "")
    assert mapped.state(mapped.paper).text == f"needs {ROLE}"


def test_a_folder_that_is_not_there_is_refused_and_changes_nothing(bench):
    bench.controller.map_role(ROLE, "/nowhere/llama")
    assert "does not exist" in bench.view.last("show_error")
    assert load_roles() == {}


def test_what_is_stored_counts_measurement_by_measurement(mapped):
    runs = paper_runs(mapped)
    mapped.store.store.save_study(load_study(mapped.paper), runs)
    for run in runs[:2]:
        record(mapped.store.store, run, "piqa", "acc_norm", 0.7)
    mapped.controller.set_visible(True)
    state = mapped.state(mapped.paper)
    assert (state.text, state.to_do, state.complete) == ("2 of 5 measurements stored", 3, False)
    assert [state.grid.cells[key].text for key in (("dense", "dense"), ("WINA", "50 %"))] == ["70.0 %", "to do"]


def test_an_unknown_task_is_told_before_anything_is_queued(bench):
    save_index(TaskIndex([TaskEntry("humaneval_64", "task", "generate_until", "humaneval/humaneval_64.yaml")]))
    trouble = 'There is no task "humaneval"; did you mean humaneval_64?'
    state = bench.show(bench.demo)
    assert (state.text, state.trouble, state.total) == ("cannot run here", trouble, 8)
    bench.controller.run()
    assert bench.view.last("show_error") == trouble
    assert not bench.jobs()
    assert bench.store.store.studies() == []


def test_the_metrics_that_a_study_wants_go_with_its_job(bench, tmp_path):
    wish = '{ name = "demo_choice", metric = "acc" }'
    file = write(tmp_path, "wish", DEMO.replace('"demo_choice"', wish).replace("tiny-demo", "wish"))
    bench.controller.open_file(file)
    bench.controller.run()
    assert bench.jobs()[0].metrics == {"demo_choice": "acc"}


def test_with_samples_what_is_stored_without_them_is_missing(mapped):
    runs = paper_runs(mapped)
    mapped.store.store.save_study(load_study(mapped.paper), runs)
    record(mapped.store.store, runs[0], "piqa", "acc_norm", 0.7)
    mapped.view.returns(choice=replace(PLAIN, samples=True))
    mapped.controller.change()
    assert mapped.state(mapped.paper).to_do == 5
    mapped.controller.select(mapped.demo)
    assert mapped.state(mapped.paper).to_do == 4, "they are asked of the selected study alone"


def test_a_file_of_ones_own_is_listed_shown_and_remembered(bench, tmp_path):
    file = write(tmp_path, "mine", DEMO.replace("tiny-demo", "mine"))
    bench.controller.open_file(file)
    assert bench.view.last("show_study").name == "mine"
    assert bench.view.named("show_study") == {"removable": True}
    assert Settings(tmp_path / "window.json").studies == [str(file)]
    bench.controller.forget()
    assert [entry.name for entry in bench.view.last("show_list")] == ["tiny-paper", "tiny-demo"]
    assert Settings(tmp_path / "window.json").studies == []
    assert file.exists()


def test_a_broken_file_is_listed_with_its_field_and_reason(bench, tmp_path):
    file = write(tmp_path, "broken", BROKEN)
    bench.controller.open_file(file)
    entry = bench.view.last("show_study")
    assert entry.study is None
    assert "sparsities[0]" in entry.error
    assert "1.5" in entry.error
    bench.controller.run()
    assert not bench.engine.submitted


@pytest.fixture
def data(tmp_path):
    """A data folder with one document."""
    folder = tmp_path / "data"
    (folder / "piqa").mkdir(parents=True)
    (folder / "piqa" / "validation.jsonl").write_text('{"goal": "a"}\n')
    return folder


def test_a_data_folder_stands_in_for_the_hub_as_on_the_command_line(mapped, data):
    runs = paper_runs(mapped)
    mapped.store.store.save_study(load_study(mapped.paper), runs)
    record(mapped.store.store, runs[0], "piqa", "acc_norm", 0.7)
    mapped.controller.set_visible(True)
    assert mapped.state(mapped.paper).to_do == 4
    mapped.controller.choose_data(f" {data} ")
    study = open_study(str(mapped.paper), {}, str(data))
    assert mapped.state(mapped.paper).to_do == 5, "what is stored is of other data"
    assert mapped.view.last("show_study").study.evaluation.data_folder == str(data)
    assert mapped.view.last("show_data") == str(data)
    mapped.controller.run()
    (queued,) = mapped.jobs()
    assert [run.spec for run in queued.runs] == list(expand(study))
    assert mapped.store.store.study_spec(study.content_hash()) == study
    asked = []
    mapped.controller.results_requested.connect(asked.append)
    mapped.controller.show_results()
    assert asked == [study]


def test_a_data_folder_is_all_studies_and_kept_until_it_is_taken_back(mapped, data, tmp_path):
    mapped.controller.choose_data(str(data))
    assert Settings(tmp_path / "window.json").study_data == {"": str(data)}
    mapped.show(mapped.demo)
    assert mapped.view.last("show_data") == str(data)
    assert mapped.state(mapped.demo).text == "runs here, 8 measurements"
    again = StudiesController(mapped.workbench, mapped.view)
    again.set_visible(True)
    assert mapped.view.last("show_data") == str(data)
    again.choose_data("")
    assert Settings(tmp_path / "window.json").study_data == {}
    again.run()
    assert mapped.jobs()[0].runs[0].spec.evaluation.data_folder is None


def test_a_study_whose_texts_lie_in_a_data_folder_needs_one(bench, tmp_path):
    text = PAPER.replace("fidelity = false", 'fidelity = { source = "data:lambada_openai[1:]", tokens = 512 }')
    file = write(tmp_path, "texts", text.replace('tasks = ["piqa"]', "tasks = []"))
    bench.controller.open_file(file)
    state = bench.state(file)
    assert (state.text, state.trouble, state.word) == (f"needs {ROLE} and a data folder", "", "")
    assert (state.total, state.grid.to_do) == (5, 5)
    (tmp_path / "llama").mkdir()
    (tmp_path / "llama" / "config.json").write_text("{}")
    bench.controller.map_role(ROLE, str(tmp_path / "llama"))
    assert bench.state(file).text == "needs a data folder"
    assert not bench.jobs()
    folder = tmp_path / "data"
    (folder / "lambada_openai").mkdir(parents=True)
    (folder / "lambada_openai" / "test.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n')
    bench.controller.select(bench.paper)
    bench.controller.choose_data(str(folder))
    assert bench.state(file).text == "runs here, 5 measurements", "one folder for all studies"
    bench.controller.choose_data(str(tmp_path / "llama"))
    assert "holds no data" in bench.state(file).trouble


def test_running_queues_the_missing_runs_and_the_sweep(bench):
    bench.show(bench.demo)
    bench.controller.run()
    evaluate, latency = bench.jobs()
    assert isinstance(evaluate, EvaluateJob)
    assert [run.units for run in evaluate.runs] == [("demo_choice", "humaneval")]
    assert isinstance(latency, LatencyJob)
    assert bench.view.last("show_notice") == "Queued 2 measurements and 6 timed products."
    assert [row.name for row in bench.store.store.studies()] == ["tiny-demo"], "saved before it is queued"


def test_a_study_asks_once_before_it_takes_more_than_memory(bench, monkeypatch):
    need = MemoryNeed("big", weights=13.5e9, memory=8e9, disk=27e9, folder=bench.demo.parent, free=50e9)
    monkeypatch.setattr(product_question, "memory_needs", lambda _job: (need,))
    bench.show(bench.demo)
    bench.view.returns(ask_compute=False)
    bench.controller.run()
    assert not bench.engine.submitted
    bench.view.returns(ask_compute=True)
    bench.controller.run()
    assert len(bench.jobs()) == 2, "its runs and its sweep"
    assert ["big" in asked.text for asked in bench.view.calls("ask_compute")] == [True] * 2


def test_what_is_stored_is_reused_and_said_so(mapped):
    runs = paper_runs(mapped)
    mapped.store.store.save_study(load_study(mapped.paper), runs)
    for run in runs[:4]:
        record(mapped.store.store, run, "piqa", "acc_norm", 0.7)
    mapped.controller.run()
    (job,) = mapped.jobs()
    assert [run.spec for run in job.runs] == [runs[4]]
    assert mapped.view.last("show_notice") == "Queued 1 measurement. 4 measurements are stored already and reused."


def test_runs_that_another_job_will_compute_are_not_queued_again(mapped):
    mapped.controller.run()
    mapped.controller.run()
    assert len(mapped.jobs()) == 1
    assert mapped.view.last("show_notice") == "Nothing is left to queue. 5 measurements are queued by another job."


def test_consent_and_samples_are_the_launchs_own_and_consent_is_withdrawn(bench):
    bench.show(bench.demo)
    bench.view.returns(choice=LaunchOptions(samples=True, run_model_code=True))
    bench.controller.run()
    job = bench.jobs()[0]
    assert (job.samples, job.run_model_code) == (True, True)
    assert bench.view.calls("withdraw_consent")
    assert "run_model_code" not in job.runs[0].spec.model_dump_json()


def test_progress_is_that_of_the_whole_study_with_its_jobs_held_and_let_go(mapped):
    runs = paper_runs(mapped)
    mapped.store.store.save_study(load_study(mapped.paper), runs)
    record(mapped.store.store, runs[0], "piqa", "acc_norm", 0.7)
    mapped.controller.run()
    assert "waiting for the engine" in mapped.view.last("show_progress").text
    mapped.engine.answer(
        lambda job_id: Progress(job_id=job_id, done=2, total=4, unit="requests", eta_seconds=90.0, metric="TEAL 25 %")
    )
    shown = mapped.view.last("show_progress")
    assert shown.fraction == pytest.approx((1 + 4 * 0.5) / 5)
    assert shown.text == "1 of 5 measurements stored  ·  1:30 min left  ·  TEAL 25 %"
    mapped.controller.pause()
    assert isinstance(mapped.engine.sent[-1], Pause)
    assert mapped.view.last("show_progress").changing
    mapped.engine.received.emit(Held(job_id=mapped.engine.last.job_id, held=True))
    assert mapped.view.last("show_progress").paused
    mapped.controller.resume()
    assert isinstance(mapped.engine.sent[-1], Resume)
    mapped.engine.received.emit(Held(job_id=mapped.engine.last.job_id, held=False))
    assert not mapped.view.last("show_progress").paused
    mapped.controller.cancel()
    mapped.engine.received.emit(done(cancelled=True)(mapped.engine.last.job_id))
    assert mapped.view.last("show_progress") is None
    assert "cancelled" in mapped.view.last("show_notice")


def test_a_job_that_fails_says_why(mapped):
    mapped.controller.run()
    mapped.engine.answer(lambda job_id: Failed(job_id=job_id, error="The engine ended."))
    assert mapped.view.last("show_error") == "The engine ended."


def test_the_estimate_is_of_stored_measurements_and_says_what_is_left_out(mapped):
    text = lambda: mapped.view.last("show_estimate")  # noqa: E731
    mapped.controller.estimate()
    assert text() == "5 measurements of unknown time: none like them was measured here."
    assert not mapped.jobs()
    mapped.workbench.machines.choose(["gpu"])
    assert text() == "", "another machine takes another time"


def reporting(bench, program):
    """A controller that writes reports by a program of the test's, over the same gallery and store."""
    reports = StudyReports(bench.workbench, (sys.executable, "-c", program))
    bench.controller = StudiesController(bench.workbench, bench.view, reports)
    bench.controller.set_visible(True)
    return reports


QUICK = """
import pathlib, sys
page = pathlib.Path(sys.argv[-1]) / "page.html"
page.parent.mkdir()
page.write_text("Table 3: a tiny one")
print(f"The report is {page}.")
"""


@pytest.mark.parametrize(
    "program", [QUICK, pytest.param("from wina_core.cli import main; main()", marks=pytest.mark.nightly)]
)
def test_a_report_is_written_by_a_process_of_its_own_over_the_same_database(mapped, tmp_path, qtbot, program):
    """Its runs were computed by other studies."""
    reporting(mapped, program)
    runs = paper_runs(mapped)
    mapped.store.store.save_study(load_study(mapped.demo), labelled(bind(load_study(mapped.paper), load_roles())))
    for run in runs:
        record(mapped.store.store, run, "piqa", "acc_norm", 0.7)
    mapped.controller.report(tmp_path / "reports")
    assert mapped.view.last("show_notice").startswith("Writing")
    qtbot.waitUntil(lambda: bool(mapped.view.last("show_report") or mapped.view.calls("show_error")))
    assert not mapped.view.calls("show_error")
    page = mapped.view.last("show_report")
    study = bind(load_study(mapped.paper), load_roles())
    assert mapped.store.store.study_spec(study.content_hash()) == study, "which `wina report` reads there"
    assert page.parent == tmp_path / "reports"
    assert "Table 3: a tiny one" in page.read_text(encoding="utf-8")
    assert mapped.view.last("show_saved") == page
    mapped.controller.select(mapped.demo)
    assert mapped.view.last("show_report") is None
    mapped.controller.select(mapped.paper)
    assert mapped.view.last("show_report") == page


def test_closing_the_window_ends_the_writing_of_a_report(mapped, tmp_path, qtbot):
    reports = reporting(mapped, "import time; time.sleep(600)")
    mapped.controller.report(tmp_path / "reports")
    (process,) = reports.findChildren(SideProcess)
    qtbot.waitUntil(lambda: is_running(process))
    mapped.workbench.stop()
    assert not is_running(process)
    assert not mapped.view.calls("show_error")


def test_a_study_is_submitted_by_wina_with_the_choices_of_dialog_and_page(bench):
    words = []
    bench.controller._arrays.submit = words.extend
    bench.show(bench.demo)
    bench.view.returns(ask_submission="partition=gpu", choice=replace(PLAIN, samples=True))
    bench.controller.submit()
    assert words == [str(bench.demo), "--slurm=partition=gpu", "--log-samples"]
    words.clear()
    for refused in (None, "gpus=one", "comment=$(id)"):
        bench.view.returns(ask_submission=refused)
        bench.controller.submit()
        assert not words
    assert len(bench.view.calls("show_error")) == 2


def test_a_file_that_is_opened_while_the_gallery_is_being_read_is_shown(bench, tmp_path, monkeypatch):
    mine, ask, asked = write(tmp_path, "mine", DEMO), bench.store.ask, []
    monkeypatch.setattr(bench.store, "ask", lambda *question: asked.append(question))
    bench.controller.set_visible(True)
    bench.controller.open_file(mine)
    while asked:
        ask(*asked.pop(0))
    assert bench.view.last("show_study").file == mine


def test_a_study_tells_what_it_consists_of(bench):
    shown = dict(facts(load_study(bench.paper)))
    assert shown["Models"] == ROLE
    assert shown["Configurations"] == "dense  ·  TEAL  ·  WINA"
    assert shown["Sparsities"] == "25, 50 %"
    assert dict(facts(load_study(bench.demo)))["Timed products"] == "1 shape  ·  batch 1  ·  50 %  ·  dense, wina"
