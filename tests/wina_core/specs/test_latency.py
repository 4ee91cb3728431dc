"""Latency sweeps: grid, identities of points, presets, and refusals."""

import pytest
from pydantic import ValidationError
from wina_kernels.dense import MOST_ROWS

from wina_core.errors import WinaError
from wina_core.files.paths import resources_folder
from wina_core.specs import DENSE, CalibrationSpec, MethodSpec, ModelSource
from wina_core.specs.latency import (
    BACKENDS,
    DENSE_PRODUCTS,
    FEW_ROWS,
    DecodeSpec,
    LatencySpec,
    Shape,
    parse_shape,
    preset,
)

CONFIGS = resources_folder() / "paper" / "configs"
SHAPE = Shape(outputs=64, inputs=48)


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
    dense = [point for point in points if point.method == "dense"]
    assert {(point.sparsity, point.backend) for point in dense} == {(0.0, "torch")}


def test_dense_products_are_measured_by_default_where_their_kernels_apply() -> None:
    assert MOST_ROWS == FEW_ROWS
    points = LatencySpec(shapes=(SHAPE,), batches=(8, 9)).points()
    dense = {(point.batch, point.backend) for point in points if point.method == "dense"}
    assert dense == {*((8, backend) for backend in ("torch", *DENSE_PRODUCTS)), (9, "torch"), (9, "torch-int8")}
    auto = LatencySpec(shapes=(SHAPE,), dense_products=())
    for backend in BACKENDS:
        named = LatencySpec(shapes=(SHAPE,), dense_products=(), backends=(backend,))
        assert {point.content_hash() for point in named.points()} <= auto.hashes()


def test_shapes_are_written_outputs_first_and_shared_ones_are_measured_once() -> None:
    assert parse_shape("5120x17920") == parse_shape(" 5120 × 17920 ") == Shape(outputs=5120, inputs=17920)
    for text in ("5120x", "-1x5", "1.5x3", "1x2x3"):
        with pytest.raises(WinaError, match="is not a shape; write outputs x inputs"):
            parse_shape(text)
    with pytest.raises(WinaError, match="The shape 0x5 is not possible"):
        parse_shape("0x5")
    spec = LatencySpec(shapes=(*preset("llama-3-8b"), *preset("mistral-7b")))
    assert len(spec.shapes) == 6
    assert spec.op_of(spec.points()[0]) == "llama-3-8b q, o; mistral-7b q, o"


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
