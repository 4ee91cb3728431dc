"""The workflow that runs the README's commands on three systems."""

from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def test_the_workflow_runs_the_commands_of_the_readme_everywhere_and_may_only_read():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8"))
    job = workflow["jobs"]["tests"]
    matrix = job["strategy"]["matrix"]
    assert workflow["permissions"] == {"contents": "read"}
    assert {name.split("-")[0] for name in matrix["system"]} == {"ubuntu", "macos", "windows"}
    assert matrix["python"] == ["3.11", "3.12", "3.13"]
    commands = [step.get("run", "") for step in job["steps"]]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for command in ("packaging/start.py", "packaging/start.py test"):
        assert f"python3 {command} " in readme
        assert f"python {command}" in commands


def test_the_lint_job_runs_the_checks_of_start_py_that_need_no_installation():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8"))
    commands = " ".join(step.get("run", "") for step in workflow["jobs"]["lint"]["steps"])
    assert all(tool in commands for tool in ("ruff check", "ruff format --check", "lint-imports"))
    assert "install --constraint packaging/constraints.txt" in commands, "in the versions of all others"
