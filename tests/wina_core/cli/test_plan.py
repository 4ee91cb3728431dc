"""`wina plan`: plans go between the database and files."""

import json

import pytest
from typer.testing import CliRunner

from wina_core.cli import app
from wina_core.errors import WinaError
from wina_core.specs.plans import PlanLayout, SparsityPlan, load_plan

PLAN = SparsityPlan(
    layout=PlanLayout(projections=("q", "down"), parameters=((4, 12), (4, 12))), sparsity=((0.25, 0.5), (0.75, 0.5)),
    origin="edited",
)  # fmt: skip


@pytest.fixture
def wina(tmp_path):
    """Runs a command on a database of its own; what it raises is raised here, what it prints is returned."""

    def run(*arguments: str) -> str:
        place = str(tmp_path / "results.sqlite")
        done = CliRunner().invoke(app, ["plan", *arguments, "--database", place], catch_exceptions=False)
        if done.exception is not None:
            raise done.exception
        return done.stdout

    return run


def test_a_plan_is_saved_listed_shown_exported_and_forgotten(tmp_path, wina):
    file, copy = tmp_path / "plan.json", tmp_path / "copy.json"
    file.write_text(PLAN.model_dump_json())
    wina("save", str(file), "attention last")
    (listed,) = json.loads(wina("list", "--json"))
    assert (listed["name"], listed["origin"], listed["budget"]) == ("attention last", "edited", PLAN.budget)
    assert SparsityPlan.model_validate_json(wina("show", "attention last", "--json")) == PLAN
    assert "0.75" in wina("show", "attention last")
    wina("export", "attention last", str(copy))
    assert load_plan(copy) == PLAN
    wina("forget", "attention last")
    assert json.loads(wina("list", "--json")) == []


@pytest.mark.parametrize("command", ["show", "forget"])
def test_a_plan_that_is_not_there_is_named(wina, command):
    with pytest.raises(WinaError, match="no saved sparsity plan called 'missing'; choose one of the saved plans"):
        wina(command, "missing")
