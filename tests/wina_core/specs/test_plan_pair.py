"""Files of a sparsity plan with the bits of its model."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wina_core.cli.makers import plans_of
from wina_core.errors import WinaError
from wina_core.specs import BitsPlan, QuantizationSpec
from wina_core.specs.plans import PlanLayout, SparsityPlan
from wina_core.specs.quantization import PlanPair, load_pair

LAYOUT = PlanLayout(projections=("q", "down"), parameters=((4, 12), (4, 12)))
PLAN = SparsityPlan.uniform(LAYOUT, 0.5).with_cells({(0, 1): 0.75})
BITS = QuantizationSpec(quantizer="gptq", bits=BitsPlan.uniform(LAYOUT, 4).with_cells({(1, 0): 8}), head_bits=8)


@given(
    st.lists(st.floats(0, 0.999), min_size=2, max_size=2),
    st.sampled_from([None, "none", "int8", "int4", BITS, QuantizationSpec(quantizer="hqq", bits=3.5, by_energy=True)]),
)
def test_a_pair_comes_back_as_it_was_written(targets, quantization):
    pair = PlanPair(plan=PLAN.with_cells({(0, 0): targets[0], (1, 1): targets[1]}), quantization=quantization)
    for indent in (None, 1):
        assert PlanPair.parse(pair.text(indent)) == pair


def changed(**changes: object) -> str:
    return json.dumps(json.loads(PlanPair(plan=PLAN, quantization=BITS).text()) | changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "is not a sparsity plan"),
        (" " * 5_000_000, "is larger than 4 MiB, too large for a plan"),
        (changed(version=2), "version: it should be 1, not 2"),
        (
            changed(plan=json.loads(SparsityPlan.uniform(LAYOUT.model_copy(update={"projections": ("q", "up")}), 0.5)
            .model_dump_json())),
            "target sparsities and its bits were made for different models",
        ),
    ],
    ids=["nested", "large", "newer", "layout"],
)  # fmt: skip
def test_a_bad_file_is_refused_in_one_sentence(tmp_path, text, message):
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(WinaError) as refused:
        load_pair(path)
    assert message in str(refused.value)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def written(folder: Path, **pairs: object) -> list[Path]:
    files = [folder / f"{name}.json" for name in pairs]
    for file, quantization in zip(files, pairs.values(), strict=True):
        file.write_text(PlanPair.model_validate({"plan": PLAN, "quantization": quantization}).text())
    return files


def test_the_command_line_quantizes_as_the_plans_files_say(tmp_path):
    assert plans_of(written(tmp_path, a=BITS, b=BITS), "none") == ([PLAN, PLAN], BITS)
    assert plans_of(written(tmp_path, a=None), "int8") == ([PLAN], "int8")
    assert plans_of([], "int4") == ([], "int4")


@pytest.mark.parametrize(
    ("pairs", "flag", "message"),
    [
        ({"a": BITS}, "int8", "a.json has bits of its own; leave out --quantization and --bits."),
        ({"a": BITS, "b": "int8"}, "none", "b.json have different bits; run them one at a time."),
        ({"a": None, "b": BITS}, "none", "a.json have different bits; run them one at a time."),
    ],
)
def test_bits_that_contradict_each_other_are_refused(tmp_path, pairs, flag, message):
    with pytest.raises(WinaError) as refused:
        plans_of(written(tmp_path, **pairs), flag)
    assert str(refused.value).endswith(message)
