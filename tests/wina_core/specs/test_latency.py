"""Latency sweeps: grid, identities of points, presets, and refusals."""

import json

import pytest
from pydantic import ValidationError
from wina_kernels import backends
from wina_kernels.dense import MOST_ROWS

from wina_core.errors import WinaError
from wina_core.files.paths import resources_folder
from wina_core.specs import DENSE, CalibrationSpec, MethodSpec, ModelSource
from wina_core.specs.latency import (
    BACKENDS,
    BUDGET_SECONDS,
    DENSE_PRODUCTS,
    FEW_ROWS,
    DecodePoint,
    DecodeSpec,
    LatencyPoint,
    LatencySpec,
    Shape,
    missing_points,
    parse_shape,
    preset,
)

CONFIGS = resources_folder() / "paper" / "configs"
SHAPE = Shape(outputs=64, inputs=48)


def test_the_hash_of_a_point_never_changes() -> None:
    point = LatencyPoint(
        outputs=5120,
        inputs=17920,
        batch=1,
        dtype="bfloat16",
        method="wina",
        selection="threshold",
        sparsity=0.5,
        backend="cpu",
        repetitions=20,
    )
    assert point.content_hash() == "abcef620f9db5fec"
    decode = DecodePoint(model=ModelSource(location="demo"), sparsity=0.5)
    assert decode.content_hash() == "3e8b05ba386c4b7a"
    assert decode.budget_seconds is None, "stored points without a budget were timed without one"
    assert decode.model_copy(update={"budget_seconds": BUDGET_SECONDS}).content_hash() != decode.content_hash()


def test_a_grid_expands_into_distinct_points_those_on_the_same_weights_together() -> None:
    spec = LatencySpec(
        shapes=(SHAPE, Shape(outputs=8, inputs=8)),
        batches=(1, 4),
        dtypes=("float32", "bfloat16"),
        methods=("dense", "teal", "wina"),
        sparsities=(0.25, 0.5, 0.5),
        backends=("native", "reference"),
        dense_products=(),
    )
    points = spec.points()
    assert len(points) == len({point.content_hash() for point in points}) == 2 * 2 * 2 * (1 + 2 * 2 * 2)
    weights = [(point.shape, point.dtype) for point in points]
    assert [weight for index, weight in enumerate(weights) if index == 0 or weights[index - 1] != weight] == list(
        dict.fromkeys(weights)
    )
    dense = [point for point in points if point.method == "dense"]
    assert {(point.sparsity, point.backend) for point in dense} == {(0.0, "torch")}


def test_all_that_auto_may_come_to_is_among_the_hashes_of_a_sweep() -> None:
    auto = LatencySpec(shapes=(SHAPE,), dense_products=())
    for backend in BACKENDS:
        named = LatencySpec(shapes=(SHAPE,), dense_products=(), backends=(backend,))
        assert {point.content_hash() for point in named.points()} <= auto.hashes()


def test_dense_products_are_measured_by_default_where_their_kernels_apply() -> None:
    assert MOST_ROWS == FEW_ROWS
    points = LatencySpec(shapes=(SHAPE,), batches=(8, 9)).points()
    dense = {(point.batch, point.backend) for point in points if point.method == "dense"}
    assert dense == {*((8, backend) for backend in ("torch", *DENSE_PRODUCTS)), (9, "torch"), (9, "torch-int8")}
    assert LatencySpec(shapes=(SHAPE,)).content_hash() == "d17590edde241791"


def test_missing_points_are_the_distinct_ones_that_are_not_stored() -> None:
    first, second = LatencySpec(shapes=(SHAPE,), batches=(1, 2), methods=("dense",), dense_products=()).points()
    distinct, missing = missing_points([first, second, first], {second.content_hash()})
    assert (list(distinct.values()), missing) == ([first, second], [first])


def test_a_shape_that_two_operations_share_is_measured_once_under_both_names() -> None:
    spec = LatencySpec(shapes=(*preset("llama-3-8b"), *preset("mistral-7b")))
    assert len(spec.shapes) == 6
    assert spec.op_of(spec.points()[0]) == "llama-3-8b q, o; mistral-7b q, o"


@pytest.mark.parametrize(
    ("name", "config"),
    [(name.lower(), name) for name in ("Llama-2-7B", "Llama-3-8B", "Mistral-7B", "Phi-4-14B")],
)
def test_presets_have_every_projection_of_the_model(name: str, config: str) -> None:
    sizes = json.loads((CONFIGS / config / "config.json").read_text())
    d, f = sizes["hidden_size"], sizes["intermediate_size"]
    kv = sizes["num_key_value_heads"] * d // sizes["num_attention_heads"]
    expected = {(d, d), (kv, d), (f, d), (d, f), (d + 2 * kv, d), (2 * f, d)}
    assert {(shape.outputs, shape.inputs) for shape in preset(name)} == expected
    named = [op for shape in preset(name) for op in shape.op.removeprefix(f"{name} ").split(", ")]
    assert sorted(named) == sorted(["q", "k", "v", "o", "gate", "up", "down", "qkv", "gate+up"])


def test_backends_are_those_of_the_kernels_and_their_own_choice() -> None:
    assert set(BACKENDS) == {*backends.BACKENDS, "dispatched"}


def test_a_backend_of_older_versions_is_read_and_offered_no_more() -> None:
    """A study that is stored with it must open."""
    assert LatencySpec(shapes=(SHAPE,), backends=("cpu",)).points()
    assert "cpu" not in BACKENDS


def test_shapes_are_written_outputs_first() -> None:
    assert parse_shape("5120x17920") == parse_shape(" 5120 × 17920 ") == Shape(outputs=5120, inputs=17920)


@pytest.mark.parametrize("text", ["", "5120", "5120x", "-1x5", "1.5x3", "axb", "1x2x3"])
def test_a_text_that_is_no_shape_is_refused(text: str) -> None:
    with pytest.raises(WinaError, match="is not a shape; write outputs x inputs"):
        parse_shape(text)


def test_a_sweep_of_far_too_many_points_is_refused_before_they_are_made() -> None:
    spec = LatencySpec(shapes=(SHAPE,), batches=tuple(range(1, 301)), sparsities=tuple(i / 100 for i in range(100)))
    with pytest.raises(WinaError, match="This sweep has 60,000 points, more than 20,000; split it up"):
        spec.points()


def test_decoding_needs_a_method_that_gates_and_the_calibration_that_it_reads() -> None:
    model = ModelSource(location="demo")
    with pytest.raises(ValidationError, match="choose a method that gates"):
        DecodeSpec(model=model, method=DENSE)
    by_threshold = MethodSpec(name="wina", selection="threshold")
    with pytest.raises(ValidationError, match="needs a calibration"):
        DecodeSpec(model=model, method=by_threshold)
    spec = DecodeSpec(model=model, method=by_threshold, calibration=CalibrationSpec(), sparsities=(0.25, 0.5, 0.25))
    assert [point.sparsity for point in spec.points()] == [0.25, 0.5]
    assert spec.hashes() == {point.content_hash() for point in spec.points()}
