"""The command line on small models of the families, and the options of wina allocate."""

from pathlib import Path

import pytest

from tests.wina_core.tiny import tiny_folder, tiny_text
from wina_core.specs import NO_ROTATION, MethodSpec
from wina_core.specs.presets import preset


@pytest.mark.parametrize(
    ("flags", "rotation", "method"),
    [
        (("--method", "rsparse", "--rho", "0.7"), NO_ROTATION, MethodSpec(name="rsparse", rho=0.7)),
        (("--preset", "wina-free"), preset("wina-free").rotation, MethodSpec(name="wina", masks="shared")),
        (("--preset", "teal", "--masks", "shared"), NO_ROTATION, MethodSpec(name="teal", masks="shared")),
        (("--preset", "teal", "--method", "teal", "--rotation", "none"), NO_ROTATION, MethodSpec(name="teal")),
        (
            ("--preset", "wina-auto", "--selection", "topk"),
            preset("wina-auto").rotation,
            MethodSpec(name="wina", masks="shared", selection="topk", correction="tuned"),
        ),
        (
            ("--preset", "wina-auto", "--rotation-sparsity", "0.25"),
            preset("wina-auto").rotation.model_copy(update={"sparsity": 0.25}),
            preset("wina-auto").method,
        ),
    ],
)
def test_options_and_presets_reach_the_search(wina, planned, flags, rotation, method):
    wina.fails(1, "allocate", "demo", "--quantization", "int8", *flags)
    (job,) = planned
    assert (job.rotation, job.method, job.model.quantization) == (rotation, method, "int8")


@pytest.mark.parametrize(
    ("command", "flags", "named"),
    [
        ("eval", ("--masks", "separate"), "--masks"),
        ("eval", ("--method", "teal", "--variant", "as_released"), "--method, --variant"),
        ("export-model out", ("--rotation-text", "prose.txt", "--spectrum", "log"), "--rotation-text, --spectrum"),
        ("generate x", ("--masks", "separate", "--rotation", "global"), "--masks, --rotation"),
    ],
)
def test_flags_that_contradict_a_preset_are_refused(wina, command, flags, named):
    message = wina.fails(1, *command.split(), "--preset", "wina-auto", *flags)
    assert f'The preset "wina-auto" brings its own method and rotation; leave out {named}, or --preset.' in message


@pytest.mark.parametrize(
    ("flags", "text", "allocators"),
    [
        ((), "demo:calibration", ("marginal",)),
        (("--calibration-text", "prose.txt"), "prose.txt", ("marginal",)),
        (("--allocator", "curves"), "demo:calibration", ()),
    ],
)
def test_a_preset_is_evaluated_with_its_allocators_unless_others_are_given(
    wina, monkeypatch, tmp_path, flags, text, allocators
):
    (tmp_path / "prose.txt").write_text("Once upon a time.")
    monkeypatch.chdir(tmp_path)
    studies = []
    monkeypatch.setattr("wina_core.cli.evaluate.run_study", lambda study, *_, **__: studies.append(study))
    wina.succeeds("eval", "--model", "demo", "--preset", "wina-auto", *flags)
    *_, configuration = studies[0].configurations  # after the dense one, which a model of 16 bits has
    assert (configuration.rotation.mode, configuration.rotation.text.source) == ("auto", text)
    assert configuration.method == preset("wina-auto").method
    assert tuple(each.name for each in configuration.allocators) == allocators
    assert [each.name for each in studies[0].allocators] == [*(flags[1:] if "--allocator" in flags else ["uniform"])]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--selection", "threshold"), "An allocator searches with top-k selection"),
        (("--preset", "dense"), 'The method "dense" gates nothing, so there is no budget to spread'),
        (("--method", "rsparse", "--rho", "1.5"), "rho: it should be"),
        (("--preset", "cats", "--allocator", "uniform"), 'The method "cats" needs a gated MLP'),
    ],
)
def test_a_search_that_is_impossible_is_refused_in_one_sentence(wina, tmp_path: Path, flags, message):
    folder = tiny_folder(tmp_path / "model", "opt")
    code = 2 if message.startswith("rho") else 1
    assert message in wina.fails(code, "allocate", folder, "--text", tiny_text(tmp_path), "--tokens", "512", *flags)
