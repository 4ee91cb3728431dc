"""The gallery of studies, what their roles stand for, and `wina study` on both."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.wina_core.tiny import tiny_folder
from wina_core.cli import app
from wina_core.errors import WinaError
from wina_core.specs import ROLE
from wina_core.studies.expand import expand
from wina_core.studies.gallery import (
    count_measurements,
    find_study,
    gallery,
    load_roles,
    needs,
    own_folder,
    roles_file,
    save_role,
)
from wina_core.studies.published import published

PAPER = [entry for entry in gallery() if entry.kind == "paper"]
OWN = """
name = "mine"
sparsities = [0.5]
roles = [{name = "Large", hub = "ada/large"}]
models = [{location = "role:Large", dtype = "float32"}]
configurations = [{}, {name = "TEAL", method = {name = "teal"}}]
evaluation = {tasks = ["demo_choice"], limit = 2, fidelity = false}
"""


pytestmark = pytest.mark.usefixtures("home")


def own_study(text: str = OWN, name: str = "mine") -> Path:
    own_folder().mkdir(parents=True, exist_ok=True)
    file = own_folder() / f"{name}.toml"
    file.write_text(text, encoding="utf-8")
    return file


def run(*words: str):
    return CliRunner().invoke(app, ["study", *words])


# ---- the shipped studies -----------------------------------------------------------------------------------------


def test_the_gallery_has_all_of_the_paper_in_its_order_and_twins_come_before_other_demos() -> None:
    paper = [entry.title.partition(":")[0] for entry in PAPER]
    figures = ["Figure 2", "Figure 3", "Figures 4, 6, 7", "Figure 5"]
    assert paper == [*figures, *(f"Table {number}" for number in range(2, 14))]
    demos = [entry.title for entry in gallery() if entry.kind == "demo"]
    assert [title.partition(":")[0] for title in demos[: len(paper)]] == [f"Demo of {title}" for title in paper]
    assert demos[len(paper)] == "Demo: a first look"
    assert {number.study for number in published()} <= {entry.study.paper for entry in PAPER if entry.study}


@pytest.mark.parametrize("entry", PAPER, ids=lambda entry: entry.name)
def test_a_study_of_the_paper_measures_what_was_published(entry) -> None:
    """Every published model, method, sparsity, task and quantization of the study's tables has its run."""
    study = entry.study
    roles = {model.location.removeprefix(ROLE) for model in study.models}
    numbers = [number for number in published(study.paper) if number.model in roles] if study.paper else []
    assert bool(numbers) == bool(study.paper)
    quantizations = {model.quantization for model in study.models}
    for number in numbers:
        configurations = [
            each
            for each in study.configurations
            if each.name == number.method and (not each.roles or number.model in each.roles)
        ]
        assert len(configurations) == 1
        assert number.sparsity in (0.0, *(configurations[0].sparsities or study.sparsities))
        assert number.quantization in quantizations
        if number.task not in ("average", "cost") and not study.evaluation.synthetic:
            assert number.task in study.evaluation.task_names
            assert study.evaluation.task(number.task).metric in (None, number.metric)


REAL = [entry for entry in gallery() if entry.kind == "real"]
SEARCHED = "data:lambada_openai[0:2500]"


@pytest.mark.parametrize("entry", REAL, ids=lambda entry: entry.name)
def test_a_study_of_real_models_tunes_nothing_on_what_it_measures(entry) -> None:
    study = entry.study
    evaluation = study.evaluation
    read = [each.rotation.text for each in study.configurations if each.rotation.reads_text]
    allocators = [*study.allocators, *(own for each in study.configurations for own in each.allocators)]
    read += [allocator.text for allocator in allocators if allocator.name != "uniform"]
    if any(each.method.needs_calibration for each in study.configurations):
        read.append(study.calibration.text)
    assert {text.source for text in read} <= {SEARCHED}
    assert {text.source for text in evaluation.texts} <= {"data:lambada_openai[3500:]", "data:wikitext"}
    if "lambada_openai" in evaluation.task_names:
        assert evaluation.task("lambada_openai").first >= 2500
    assert all(model.dtype == "float32" for model in study.models)
    gemma = [each for each in study.configurations if "SmolLM2-135M" not in each.roles]
    if any(role.name == "Gemma-3-270M" for role in study.roles):
        assert {each.rotation.mode for each in gemma} <= {"none", "auto"}, "it has no exact global rotation"


def test_runs_are_counted_without_weights() -> None:
    assert count_measurements(find_study("paper-gsm8k")) == (36, 0)
    further_dense = 2 * 4 + 2 * 1  # ours only for small batches
    assert count_measurements(find_study("paper-latency")) == (0, 2 * (4 * (1 + 2 * 5) + further_dense))
    for name in ("demo-frontier", "demo-quantization", "paper-gflops"):
        study = find_study(name)
        assert count_measurements(study) == (len(expand(study)), 0)


# ---- the user's own, and roles -----------------------------------------------------------------------------------


def test_own_studies_are_listed_last_and_a_broken_one_with_its_reason() -> None:
    own_study()
    own_study("name = 3\n", "broken")
    broken, mine = gallery()[-2:]
    assert (mine.kind, mine.name, mine.error) == ("own", "mine", "")
    assert (broken.kind, broken.name, broken.study) == ("own", "broken", None)
    assert "is invalid: name: it should be a valid string, not 3" in broken.error
    with pytest.raises(WinaError, match="is invalid"):
        find_study("broken")


def test_an_unknown_name_is_refused_with_close_ones() -> None:
    with pytest.raises(WinaError, match=r"no study \"paper-gsm8\" in the gallery; did you mean .*paper-gsm8k"):
        find_study("paper-gsm8")


def test_a_role_is_mapped_once_and_for_good(tmp_path: Path) -> None:
    folder = tmp_path / "a model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    own_study()
    study = find_study("mine")
    assert [role.name for role in needs(study, load_roles())] == ["Large"]
    assert save_role("Large", str(folder)) == {"Large": str(folder)}
    assert save_role("Größe", "ada/large") == load_roles() == {"Large": str(folder), "Größe": "ada/large"}
    assert needs(study, load_roles()) == ()
    with pytest.raises(WinaError, match="does not exist"):
        save_role("Large", str(tmp_path / "nowhere"))
    assert save_role("Large", "") == {"Größe": "ada/large"}


@pytest.mark.parametrize("content", ["{", '{"a": 1}'])
def test_a_broken_mapping_is_refused_and_kept(content: str) -> None:
    roles_file().write_text(content)
    for act in (load_roles, lambda: save_role("Large", "demo")):
        with pytest.raises(WinaError, match=r"roles\.json cannot be read .*correct or delete the file"):
            act()
    assert roles_file().read_text() == content


# ---- wina study --------------------------------------------------------------------------------------------------


def test_the_list_says_what_a_study_needs_or_how_much_of_it_is_stored() -> None:
    own_study()
    own_study(OWN.replace('"mine"', '"elsewhere"').replace('"role:Large"', '"/models/large"'), "elsewhere")
    listed = {row["study"]: row for row in json.loads(run("list", "--json").stdout)}
    assert "/models/large does not exist" in listed["elsewhere"]["state"]
    assert listed["mine"]["state"] == "needs Large (ada/large)"
    assert listed["paper-gsm8k"]["measures"] == "36 runs"
    assert listed["demo-quick"]["state"] == "runs here"


def test_a_study_runs_by_its_name_and_reuses_what_is_stored(tmp_path: Path) -> None:
    own_study()
    model = tiny_folder(tmp_path / "model")
    refused = run("run", "mine")
    assert 'no model for the role "Large"' in str(refused.exception)
    assert 'has no role "Small"; its roles are Large.' in str(run("run", "mine", "--role", "Small=demo").exception)
    first = run("run", "mine", "--role", f"Large={model}")
    assert first.exit_code == 0, first.exception
    assert "mine: 2 measurements to compute." in first.stderr
    header, *rows = first.stdout.splitlines()
    assert len(rows) == 2
    assert header.split("  ")[-2:] == ["demo_choice acc_norm", "demo_choice acc"]
    assert ["Large", "ada/large", str(model)] in [
        line.split() for line in run("roles", f"Large={model}").stdout.splitlines()
    ]
    again = run("run", "mine")
    assert "mine: 2 of 2 measurements are stored and reused." in again.stderr
    assert again.stdout == first.stdout
    listed = {row["study"]: row["state"] for row in json.loads(run("list", "--json").stdout)}
    assert listed["mine"] == "runs here, 2 of 2 measurements stored"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("Lama-2-7B=ada/large", 'No study of the gallery has a role "Lama-2-7B"; did you mean Llama-2-7B'),
        ("zzz=ada/large", 'give the model with each call: --role "zzz=FOLDER".'),
        ("Large=/nowhere/large", "The model folder /nowhere/large does not exist"),
        ("Large={home}", "has no config.json"),
    ],
)
def test_a_wrong_mapping_is_refused_and_none_of_its_call_is_kept(given: str, error: str, tmp_path: Path) -> None:
    own_study()
    refused = run("roles", "Large=ada/large", given.replace("{home}", str(tmp_path)))
    assert error in str(refused.exception)
    assert load_roles() == {}
