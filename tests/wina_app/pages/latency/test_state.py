"""From what is typed to a sweep, and from stored rows to what the plots show."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wina_app.pages.latency.form import ChoiceError, DecodeForm, ProductForm, parse_batches, parse_shapes
from wina_app.pages.latency.plan import plan_job
from wina_app.shared.latency.chart import decode_chart, instability, product_chart
from wina_app.shared.latency.choices import PointSelection, is_local, make_choices
from wina_app.shared.latency.table import DecodeEntry, ProductEntry, make_entries

from tests.wina_app.fakes import ENVIRONMENT
from tests.wina_app.stored_runs import SOURCE
from tests.wina_app.timed_points import ELSEWHERE, HERE, decoded, timed
from wina_core.records import Environment
from wina_core.specs import DENSE, NO_ROTATION, MethodSpec
from wina_core.specs.latency import with_backend
from wina_core.store import LatencyRow


@pytest.fixture
def form(qtbot, qapp):  # noqa: ARG001 - widgets need an application
    """A sweep of dense and WINA at two sparsities."""
    form = ProductForm()
    qtbot.addWidget(form)
    form.tick_presets(())
    for line, text in ((form.shapes, "64x48"), (form.batches, "1"), (form.sparsities, "25, 50")):
        line.setText(text)
    tick(form.dtypes, "float32")
    tick(form.dense_products)
    return form


@pytest.fixture
def decoding(qtbot, qapp):  # noqa: ARG001 - widgets need an application
    form = DecodeForm()
    qtbot.addWidget(form)
    form.sparsities.setText("25, 50")
    form.new_tokens.setValue(16)
    return form


def tick(ticks, *names):
    for name, box in ticks.boxes.items():
        box.setChecked(name in names)


def products(store, *records):
    """The entries after the records were stored."""
    for record in records:
        store.record_latency(record)
    return list(make_entries(store.latency_rows(), {}, ProductEntry).values())


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("shapes", ("4096 by 11008", "64x48, 0x5", "")),
        ("batches", ("4, 0", "one", "")),
        ("sparsities", ("100", " ")),
        ("device", ("gpu",)),
    ],
)
def test_what_is_wrong_is_said_at_its_field_alone_each_in_its_own_words(form, field, values):
    said = set()
    for value in values:
        getattr(form, field).setText(value)
        with pytest.raises(ChoiceError) as error:
            form.make_spec()
        assert list(error.value.problems) == [field]
        said.add(error.value.problems[field])
    assert len(said) == len(values)


def test_all_fields_that_are_wrong_are_told_at_once(form):
    form.shapes.setText("a")
    for field in ("dtypes", "selections", "backends"):
        tick(getattr(form, field))
    with pytest.raises(ChoiceError) as error:
        form.make_spec()
    assert set(error.value.problems) == {"shapes", "dtypes", "selections", "backends"}


def test_presets_and_own_shapes_are_measured_together_each_once(form):
    form.tick_presets(("paper",))
    form.shapes.setText("4096x11008, 64 × 48")
    spec = form.make_spec()
    assert [shape.label for shape in spec.shapes] == ["4096x11008", "5120x17920", "64x48"]
    assert (spec.sparsities, spec.methods) == ((0.25, 0.5), ("dense", "wina"))


def test_dense_products_alone_need_neither_sparsity_nor_selection_nor_backend(form):
    form.sparsities.setText("")
    tick(form.methods, "dense")
    tick(form.selections)
    tick(form.backends)
    (point,) = form.make_spec().points()
    assert (point.method, point.backend, point.sparsity) == ("dense", "torch", 0.0)


@given(st.lists(st.integers(1, 2**14), min_size=1), st.sampled_from([",", " ", ", ", ";"]))
def test_batches_are_sorted_and_each_once(batches, separator):
    assert parse_batches(separator.join(map(str, batches))) == tuple(sorted(set(batches)))


@given(st.lists(st.tuples(st.integers(1, 2**20), st.integers(1, 2**20))))
def test_shapes_are_read_as_they_are_written(sizes):
    shapes = parse_shapes(", ".join(f"{m}x{n}" for m, n in sizes))
    assert [(shape.outputs, shape.inputs) for shape in shapes] == sizes


def test_decoding_is_that_of_the_other_pages_choice(decoding):
    spec = decoding.make_spec(SOURCE, NO_ROTATION, MethodSpec(name="teal"))
    assert [(point.sparsity, point.method.name, point.new_tokens) for point in spec.points()] == [
        (0.25, "teal", 16),
        (0.5, "teal", 16),
    ]
    assert spec.calibration is None
    calibrated = decoding.make_spec(SOURCE, NO_ROTATION, MethodSpec(name="teal", selection="threshold"))
    assert calibrated.calibration is not None


@pytest.mark.parametrize(
    ("source", "method", "sentence"),
    [(None, MethodSpec(name="wina"), "Open a model first."), (SOURCE, DENSE, "Dense decoding is measured beside")],
)
def test_decoding_without_a_model_or_a_gate_is_refused(decoding, source, method, sentence):
    with pytest.raises(ChoiceError) as error:
        decoding.make_spec(source, NO_ROTATION, method)
    assert error.value.problems["model"].startswith(sentence)


def test_a_job_measures_what_this_machine_has_not_stored_with_its_dense_products(form):
    tick(form.dense_products, "auto", "int8")
    tick(form.backends, "auto", "native")
    spec = form.make_spec()
    own = with_backend(spec.points()[1], "native").content_hash()

    def find(hashes):
        return {HERE.key: tuple(each for each in hashes if each == own), "another": tuple(hashes)}

    plan = plan_job(spec, HERE, find, again=False)
    assert (plan.missing, plan.points) == (4, 5), "torch, int8 and two sparsities; auto is the processor's kernel"
    assert plan.stored[HERE.key] == (own,)
    again = plan_job(spec, HERE, find, again=True)
    assert (again.missing, again.stored) == (5, {})
    assert plan_job(spec, None, find, again=False).missing == 7, "before the engine is known all may be missing"


def test_a_point_is_shown_as_it_was_timed_last_on_each_machine(store):
    newer = HERE.model_copy(update={"versions": {"python": "4"}})
    entries = products(store, timed(median=2.0), timed(newer, median=4.0), timed(ELSEWHERE, median=1.0))
    assert [(entry.machine[1], entry.row.record.median_ms) for entry in entries] == [
        ("a test, 1 of 2 threads", 4.0),
        ("a GPU", 1.0),
    ]


def test_entries_that_are_unchanged_are_used_again(store):
    products(store, timed(sparsity=0.25), timed(sparsity=0.5))
    known = make_entries(store.latency_rows(), {}, ProductEntry)
    store.record_latency(timed(sparsity=0.5, median=9.0))
    again = make_entries(store.latency_rows(), known, ProductEntry)
    assert [again[key] is known[key] for key in known] == [True, False]


def test_this_machine_is_shown_at_first_whatever_was_timed_later_elsewhere(store):
    entries = products(store, timed(), timed(ELSEWHERE))
    offer = make_choices(entries, PointSelection(), ENVIRONMENT)
    assert offer.machine == ("cpu", "a test, 1 of 2 threads")
    assert {text for text, _ in offer.machines} == {"a test, 1 of 2 threads", "a GPU"}
    assert make_choices(entries, PointSelection(), None).machine == ("cuda", "a GPU"), (
        "the last one, before the engine is known"
    )


@pytest.mark.parametrize(
    ("device", "hardware", "here", "same"),
    [
        ("cpu", "AMD EPYC, 4 of 8 threads", ("cpu", "AMD EPYC, 8 threads"), True),
        ("cpu", "AMD EPYC, 4 of 8 threads", ("cpu", "Intel Xeon, 8 threads"), False),
        ("cuda", "AMD EPYC, 4 of 8 threads", ("cpu", "AMD EPYC, 8 threads"), False),
        ("cuda", "a GPU", ("cuda", "a GPU"), True),
        ("cuda", "another GPU", ("cuda", "a GPU"), False),
    ],
)
def test_a_machine_is_known_by_its_hardware_whatever_threads_it_used(device, hardware, here, same):
    assert is_local(device, hardware, Environment(device=here[0], hardware=here[1], versions={})) == same


def chart_of(store, *records, y_axis="speedup"):
    return product_chart([entry.row for entry in products(store, *records)], y_axis)


def test_a_line_has_its_points_in_order_of_sparsity_with_p10_to_p90(store):
    chart = chart_of(store, timed(sparsity=0.5, median=1.0), timed(sparsity=0.25, median=2.0), timed(method="dense"))
    (line,) = chart.lines
    assert (line.name, line.method, line.x) == ("wina", "wina", (25.0, 50.0))
    assert (line.left, line.right) == ((1.5, 3.0), (2.0, 1.0))
    assert line.spans == ((1.5, 3.0), (0.75, 1.5))
    assert line.readouts[1].split("  ·  ") == [
        "wina",
        "measured 50.0 %, target 50 %",
        "1 ms (p10 0.75, p90 1.5)",
        "3 × PyTorch dense",
        "8 GB/s, 50.0 % of the memory bandwidth",
        "\N{WARNING SIGN} unstable: runs disagree by 100 %",
    ]


def test_points_are_drawn_at_measured_sparsity_in_its_order(store):
    near = timed(sparsity=0.5, median=1.0).model_copy(update={"measured_sparsity": 0.243})
    chart = chart_of(store, near, timed(sparsity=0.25, median=2.0))
    (line,) = chart.lines
    assert line.x == pytest.approx((24.3, 25.0))
    assert line.right == (1.0, 2.0)
    assert "measured 24.3 %, target 50 %  ·  ⚠ 25.7 points denser than its target" in line.readouts[0]


def test_lines_are_named_by_what_sets_them_apart(store):
    chart = chart_of(store, timed(), timed(backend="reference"), timed(dtype="bfloat16"), timed(method="teal"))
    assert [line.name for line in chart.lines] == [
        "teal, cpu, float32",
        "wina, cpu, bfloat16",
        "wina, cpu, float32",
        "wina, reference, float32",
    ]
    assert len({(line.method, line.marker, line.pattern) for line in chart.lines}) == 4, "each looks different"


def test_the_dense_line_is_that_of_the_speed_ups_and_the_strongest_dense_product_has_its_own(store):
    dense, int8 = timed(method="dense", median=2.5), timed(method="dense", backend="int8", median=1.5)
    entries = products(store, dense, int8, timed(sparsity=0.5, median=1.0))
    chart = product_chart([entry.row for entry in entries], "speedup")
    assert chart.right.references == (("PyTorch dense 3 ms", 3.0), ("best dense 1.5 ms", 1.5))
    (line,) = chart.lines
    assert line.left[0] == chart.right.references[0][1] / line.right[0], "both plots agree"
    assert chart.left.references == (("PyTorch dense", 1.0), ("best dense 2.00 ×", 2.0))
    assert chart.notes[0] == "best dense: our kernel with INT8 weights"
    assert "1.5 × best dense" in chart.lines[0].readouts[0]
    cells = [dict(zip((c.key for c in entry.columns), entry.texts, strict=True)) for entry in entries]
    assert [each["best_speedup"] for each in cells] == ["0.6", "1", "1.5"]
    assert [each["stable"] for each in cells] == ["\N{WARNING SIGN} 2.00"] * 3


def test_each_bound_says_what_it_bounds(store):
    chart = chart_of(store, timed(sparsity=0.5), timed(dtype="bfloat16"))
    (kept,) = chart.left.curves
    assert (kept.name, kept.note in chart.notes) == ("bound 1 / (1 − s)", True)
    assert [curve.name for curve in chart.right.curves] == ["16 GB/s, 16 bits", "16 GB/s, 32 bits"]
    assert [curve.note for curve in chart.right.curves] == [
        f"memory bandwidth 16 GB/s: bound of reading the kept weights at {bits} bits" for bits in (16, 32)
    ]
    start, *_, end = chart.right.curves[1].points
    assert start == (0.0, pytest.approx(64 * 48 * 4 / 16e6))
    assert end == (50.0, pytest.approx(start[1] / 2))


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.65, 0.9, 0.99]), min_size=1, unique=True))
def test_the_bound_is_one_over_what_is_kept_within_sight_of_the_lines(sparsities):
    rows = [LatencyRow(record=timed(sparsity=sparsity), point="", recorded=0.0) for sparsity in sparsities]
    curves = product_chart(rows, "speedup").left.curves
    curve = curves[0].points if curves else ()
    assert bool(curve) == (max(sparsities) > 0)
    for x, y in curve:
        assert y == pytest.approx(1 / (1 - x / 100))
    if curve:
        assert curve[0] == (0.0, 1.0)
        assert curve[-1][0] <= 100 * max(sparsities) + 1e-9
        assert curve[-1][1] <= 3.0 + 1e-9, "three times, or half again as much as the largest speed-up"


def test_one_slow_turn_in_ten_does_not_flatten_the_rest(store):
    slow = timed(sparsity=0.25).model_copy(update={"p90_ms": 500.0})
    chart = chart_of(store, slow, timed())
    assert chart.lines[0].spans[0] == (1.5, 500.0), "the bar is what was measured"
    assert chart.right.ceiling == 6.0, "twice the largest median, dense included"


def test_runs_that_disagree_are_marked_in_table_tooltip_and_plot_whichever_model_they_are_of(store):
    shaken = decoded(0.25).model_copy(update={"p10": 20.0, "p90": 31.0, "turns": 3, "timed_tokens": 12})
    for record in (decoded(0.0), shaken, decoded(0.5).model_copy(update={"dense_p10": 10.0})):
        store.record_decoding(record)
    entries = list(make_entries(store.decode_rows(), {}, DecodeEntry).values())
    cells = [dict(zip((c.key for c in entry.columns), entry.texts, strict=True)) for entry in entries]
    assert [each["stable"] for each in cells] == ["yes", "\N{WARNING SIGN} 1.55", "\N{WARNING SIGN} 2.05"]
    assert [(each["turns"], each["timed_tokens"]) for each in cells] == [
        ("5", "64"),
        ("3", "12"),
        ("5", "64"),
    ]
    assert [instability(entry.row) for entry in entries] == [
        "",
        "\N{WARNING SIGN} unstable: runs disagree by 55 %",
        "\N{WARNING SIGN} unstable: dense runs disagree by 105 %",
    ]


def test_decoding_is_drawn_in_tokens_per_second(store):
    for record in (decoded(0.5), decoded(0.25), decoded(0.5, "teal")):
        store.record_decoding(record)
    entries = make_entries(store.decode_rows(), {}, DecodeEntry).values()
    chart = decode_chart([entry.row for entry in entries], "speedup")
    assert [(line.name, line.x) for line in chart.lines] == [("teal", (50.0,)), ("wina", (25.0, 50.0))]
    assert (chart.lines[1].left, chart.lines[1].right) == ((1.5, 1.5), (30.0, 30.0))
    assert chart.lines[1].spans == ((28.0, 31.0), (28.0, 31.0))
    (dense,) = chart.right.curves
    assert dense.points == ((25.0, 20.0), (50.0, 20.0), (50.0, 20.0)), "as the table has it beside each point"
    assert chart.right.references == ()
    offer = make_choices(list(entries), PointSelection(), ENVIRONMENT)
    assert offer.loads == (("64 after 64", (64, 64, 1)),)
