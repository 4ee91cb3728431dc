"""The recipe of bundles on each system, without PyInstaller."""

import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from unittest.mock import MagicMock

import pytest

BUNDLE = Path(__file__).parents[2] / "packaging" / "bundle"


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Runs the recipe as on a system, and returns what it asks PyInstaller for, by step."""
    hooks = ModuleType("PyInstaller.utils.hooks")
    hooks.collect_data_files = hooks.collect_submodules = hooks.copy_metadata = lambda *_, **__: []
    for name in ("PyInstaller", "PyInstaller.utils", "PyInstaller.utils.hooks"):
        monkeypatch.setitem(sys.modules, name, hooks)
    monkeypatch.setattr(sys, "path", [*sys.path])
    torch = ModuleType("torch")
    torch.version = SimpleNamespace(cuda=None)
    monkeypatch.setitem(sys.modules, "torch", torch)

    def run(system: str) -> dict[str, list[tuple[tuple, dict]]]:
        monkeypatch.setattr(sys, "platform", system)
        steps: dict[str, list[tuple[tuple, dict]]] = {}

        def step(name: str):
            def record(*arguments, **named):
                steps.setdefault(name, []).append((arguments, named))
                return MagicMock()

            return record

        names = ("Analysis", "PYZ", "EXE", "COLLECT", "BUNDLE")
        variables = {"SPECPATH": str(BUNDLE), "workpath": str(tmp_path)}
        runpy.run_path(str(BUNDLE / "wina.spec"), init_globals=variables | {name: step(name) for name in names})
        return steps

    return run


@pytest.mark.parametrize(("system", "icon"), [("linux", None), ("win32", ".ico"), ("darwin", ".icns")])
def test_each_system_has_both_programs_with_its_icon_and_all_files_exist(recipe, system: str, icon: str | None):
    steps = recipe(system)
    ((scripts, *_), analysis) = steps["Analysis"][0]
    paths = [*scripts, *analysis["pathex"], *(file for file, _ in analysis["datas"])]
    assert all(Path(path).exists() for path in paths)
    assert {named["name"]: named["console"] for _, named in steps["EXE"]} == {"wina-workbench": False, "wina": True}
    for _, named in steps["EXE"]:
        assert named["icon"] is None if icon is None else Path(named["icon"]).stat().st_size > 1000
        assert icon is None or Path(named["icon"]).suffix == icon
    assert ("BUNDLE" in steps) == (system == "darwin")


def test_the_application_of_macos_opens_plans_and_studies(recipe):
    (_, named) = recipe("darwin")["BUNDLE"][0]
    kinds = named["info_plist"]["CFBundleDocumentTypes"]
    assert {suffix for kind in kinds for suffix in kind["CFBundleTypeExtensions"]} == {"wina.json", "wina.toml"}
    assert named["bundle_identifier"]
    assert named["version"] == named["info_plist"]["CFBundleShortVersionString"]
