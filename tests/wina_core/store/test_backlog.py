"""Results that a full disk refuses: they wait, are stored in order and once, and outlive their process in a file."""

import os
from pathlib import Path

import pytest

from tests.wina_core.samples import ENVIRONMENT, run, study, unit
from tests.wina_core.store.full_disk import limit
from tests.wina_core.store.test_migrations import to_schema_0017
from wina_core.errors import WinaError
from wina_core.jobs import Done, EvaluateJob, Failed, Partial, PendingRun, Ready, RunStarted, Submit
from wina_core.store import Backlog, Store, backlog
from wina_core.store.connection import for_writing
from wina_core.store.refusals import UnwritableError

RUN = run()
UNITS = RUN.evaluation.units
ENVIRONMENT_OF_PAGES = ENVIRONMENT.model_copy(update={"versions": {"torch": "2" * 20_000}})
"""So large that the first event needs space."""
MESSAGES = (
    Ready(pid=1, environment=ENVIRONMENT_OF_PAGES),
    Submit(job_id="local", job=EvaluateJob(runs=(PendingRun(spec=RUN, units=UNITS),))),
    RunStarted(job_id="local", run=RUN.content_hash()),
    *(Partial(job_id="local", unit=unit(RUN, name)) for name in UNITS),
)
DONE = Done(job_id="local")


@pytest.fixture(autouse=True)
def temporary(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a temporary folder of the test's own, and retry with every event."""
    monkeypatch.setattr(backlog, "RETRY_SECONDS", 0.0)
    monkeypatch.setenv("TMPDIR", str(home.parent / "temporary"))
    (tmp_path / "temporary").mkdir()
    return tmp_path / "temporary"


@pytest.fixture
def full(file_store: Store) -> Store:
    """A store that takes nothing more."""
    file_store.save_study(study(), (RUN,))
    limit(file_store, 0)
    return file_store


def fed(store: Store) -> Backlog:
    """Return the backlog after all messages but the end of the job."""
    backlog = Backlog(store)
    for message in MESSAGES:
        backlog.record(message)
    return backlog


def waiting_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.waiting-*"))


def is_whole(store: Store) -> bool:
    (row,) = store.runs()
    return (row.status, row.hardware, len(store.metric_rows())) == ("done", ENVIRONMENT.hardware, len(UNITS))


def test_what_a_full_disk_refuses_is_stored_in_order_and_at_its_time_once_there_is_space(
    full: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("time.time", lambda: 1000.0)
        waiting = fed(full)
    assert waiting.waiting == len(UNITS)
    assert "is full or failing" in waiting.refusal
    assert full.metric_rows() == []
    limit(full, None)
    waiting.record(DONE)
    assert (waiting.waiting, waiting.refusal, waiting.close()) == (0, "", "")
    assert is_whole(full)
    assert {row.finished for row in full.metric_rows()} == {1000.0}


def test_what_still_waits_at_the_end_is_stored_by_the_next_start_once(full: Store, tmp_path: Path) -> None:
    waiting = fed(full)
    waiting.record(DONE)
    sentence = waiting.close()
    (file,) = waiting_files(tmp_path)
    assert f"{len(UNITS)} results could not be stored" in sentence
    assert str(file) in sentence
    assert os.name == "nt" or file.stat().st_mode & 0o777 == 0o600
    full.close()
    with Store(full.url.database) as again:
        assert Backlog(again).remarks == [f"Stored the results that waited in {file}."]
        assert is_whole(again)
        assert waiting_files(tmp_path) == []
        assert Backlog(again).remarks == []


def test_a_process_that_died_before_the_end_of_its_job_leaves_an_interrupted_run(full: Store) -> None:
    backlog = Backlog(full)
    for message in MESSAGES[:4]:
        backlog.record(message)
    backlog.close()
    full.close()
    with Store(full.url.database) as again:
        Backlog(again)
        assert [row.status for row in again.runs()] == ["interrupted"]
        assert len(again.metric_rows()) == 1


def test_a_backlog_has_a_limit_and_what_was_stored_or_refused_makes_room(
    full: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = fed(full)
    held = waiting._bytes
    monkeypatch.setattr(backlog, "LARGEST_MEMORY", held + 400)
    large = Failed(job_id="local", error="e" * 500)
    with pytest.raises(WinaError, match="No more than 0 MiB of results can wait"):
        waiting.record(large)
    waiting.record(Failed(job_id="local", error="e"))
    assert held < waiting._bytes <= held + 400
    limit(full, None)
    waiting.flush()
    assert waiting._bytes == 0


def test_a_result_that_can_never_be_stored_is_reported_and_holds_up_no_other(full: Store) -> None:
    waiting = fed(full)
    waiting.record(Partial(job_id="local", unit=unit(RUN).model_copy(update={"run": "nobody"})))
    limit(full, None)
    with pytest.raises(WinaError, match="has no run nobody"):
        waiting.flush()
    waiting.record(DONE)
    assert is_whole(full)


def test_a_locked_database_is_waited_for_without_holding_up_the_job(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog, "_PATIENCE", 0.01)
    store.save_study(study(), (RUN,))
    with for_writing(store._engine).begin():
        waiting = fed(store)
        assert "keeps" in waiting.refusal
    waiting.record(DONE)
    assert is_whole(store)


def test_a_damaged_file_is_kept_aside_with_one_sentence(full: Store, tmp_path: Path) -> None:
    fed(full).close()
    (file,) = waiting_files(tmp_path)
    file.write_bytes(file.read_bytes()[:5000])
    full.close()
    with Store(full.url.database) as again:
        (remark,) = Backlog(again).remarks
        assert "cannot be stored" in remark
        assert str(file.with_suffix(".damaged")) in remark
        assert waiting_files(tmp_path) == [file.with_suffix(".damaged")]
        assert Backlog(again).remarks == []


def test_what_waited_in_an_earlier_schema_is_stored(full: Store, tmp_path: Path) -> None:
    waiting = fed(full)
    waiting.record(DONE)
    waiting.close()
    (file,) = waiting_files(tmp_path)
    to_schema_0017(file)
    full.close()
    with Store(full.url.database) as again:
        assert Backlog(again).remarks == [f"Stored the results that waited in {file}."]
        assert is_whole(again)
        assert waiting_files(tmp_path) == []


@pytest.mark.skipif(os.name != "posix", reason="permissions and links as POSIX has them")
def test_results_never_land_in_another_database(full: Store, tmp_path: Path, temporary: Path) -> None:
    """Beside a database they belong to it by name, and move with it; elsewhere by its path."""
    fed(full).close()
    (file,) = waiting_files(tmp_path)
    file.rename(tmp_path / file.name.replace("results.sqlite", "other.sqlite"))
    (file,) = waiting_files(tmp_path)
    full.close()
    with Store(tmp_path / "results.sqlite") as same, Store(tmp_path / "third.sqlite") as third:
        assert Backlog(same).remarks == Backlog(third).remarks == []
        (temporary / "linked").symlink_to(file)
        (temporary / "linked").rename(tmp_path / "results.sqlite.waiting-linked.sqlite")
        assert Backlog(same).remarks == [], "a link may lead anywhere"


@pytest.fixture
def full_folders(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Folders that take no database: at first those of the database and of the data."""
    folders = [tmp_path, home / "data"]

    class Refusing(Store):
        def __init__(self, address: Path, *, shared: bool) -> None:
            if address.parent in folders:
                raise UnwritableError(f"The disk is full, so {address} was not written.")
            super().__init__(address, shared=shared)

    monkeypatch.setattr(backlog, "Store", Refusing)
    return folders


def test_the_first_folder_that_takes_a_file_has_it(
    full: Store, home: Path, tmp_path: Path, full_folders: list[Path]
) -> None:
    assert full_folders
    fed(full).close()
    assert [file.parent for file in waiting_files(tmp_path)] == [home / "cache"]
    full.close()
    with Store(full.url.database) as again:
        Backlog(again)
        assert is_whole(again)


@pytest.mark.skipif(os.name != "posix", reason="the temporary folder has the user's number")
def test_what_no_folder_takes_is_lost(full: Store, home: Path, temporary: Path, full_folders: list[Path]) -> None:
    full_folders += [home / "cache", temporary / f"wina-workbench-{os.geteuid()}"]
    with pytest.raises(WinaError, match="What could not be stored is lost, since no folder takes it: The disk is"):
        fed(full).close()


def test_a_failed_job_that_waits_fails_its_run(full: Store) -> None:
    waiting = fed(full)
    waiting.record(Failed(job_id="local", error="The engine ran out of memory.", run=RUN.content_hash()))
    waiting.close()
    full.close()
    with Store(full.url.database) as again:
        Backlog(again)
        assert is_whole(again), "all its units are here"
