"""The build's hook: its requirement where no compiler is installed."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The hook's module; hatchling, which is there during a build alone, is replaced by its one class."""
    name = "hatchling.builders.hooks.plugin.interface"
    monkeypatch.setitem(sys.modules, name, SimpleNamespace(BuildHookInterface=object))
    spec = importlib.util.spec_from_file_location("native_hook", ROOT / "packaging" / "native_hook.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(sys.platform == "win32", reason="the kernels are not built there")
@pytest.mark.parametrize(
    ("compiler", "built", "expected"), [([], False, ["ziglang"]), (["g++"], False, []), ([], True, [])]
)
def test_ziglang_is_required_where_nothing_else_compiles(
    hook: ModuleType, tmp_path: Path, compiler: list[str], built: bool, expected: list[str]
) -> None:
    library = tmp_path / "wina.so"
    if built:
        library.touch()
    native = hook.NativeKernels()
    native._build_module = lambda: SimpleNamespace(library=lambda: library, compiler=lambda: compiler)
    assert native.dependencies() == expected
