"""What the Results page computes without any widget: filter, table, frontier, and a run as a study."""

import contextlib
import math
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QPersistentModelIndex, Qt
from wina_app.models.results_filter import Term, matches, parse_filter
from wina_app.models.results_frontier import (
    Measure,
    distinct_references,
    frontier,
    kinds,
    measures,
    models,
    names,
    readout,
)
from wina_app.models.results_rows import BY_KEY, COLUMNS, Entry
from wina_app.models.results_study import study_of
from wina_app.models.results_table import ResultsTable, make_entries

from tests.wina_app.stored_runs import (
    ARMS,
    GLOBAL,
    SPARSITIES,
    layout,
    record_demo_study,
    record_run,
    run_spec,
)
from wina_core.errors import WinaError
from wina_core.plan import SparsityPlan
from wina_core.specs import NO_ROTATION, AllocatedSparsity, AllocatorSpec, CalibrationSpec, MethodSpec, ModelSource
from wina_core.store import FrontierLine, Store
from wina_core.study import expand

ACC = Measure("demo_choice", "acc", True)


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "results.sqlite"
    with Store(f"sqlite:///{path}") as store:
        record_demo_study(store)
    return path


@pytest.fixture
def store(database, tmp_path):
    copy = shutil.copy(database, tmp_path)
    with Store(f"sqlite:///{copy}") as opened:
        yield opened


@pytest.fixture
def entries(store):
    return make_entries(store.metric_rows(), {})


@pytest.fixture
def table(entries):
    filled = ResultsTable()
    filled.set_entries(entries)
    return filled


def shown(table: ResultsTable, key: str) -> list[str]:
    return [entry.texts[BY_KEY[key]] for entry in table.shown]


# ---- filter ----------------------------------------------------------------------------------------------------------


def test_a_filter_is_words_and_columns():
    assert parse_filter('WINA Method:Teal "per head"', BY_KEY) == (
        Term("wina"),
        Term("teal", BY_KEY["method"]),
        Term("per head"),
    )
    assert parse_filter("  ", BY_KEY) == ()
    assert parse_filter('rotation:"global + heads"', BY_KEY) == (Term("global + heads", BY_KEY["rotation"]),)


def test_an_unknown_column_is_named_with_the_known_ones():
    with pytest.raises(WinaError, match=r'no column "methd".*method'):
        parse_filter("methd:wina", BY_KEY)


@given(st.text(alphabet="ab \"\\'#:", max_size=12))
def test_whatever_is_typed_is_read_or_refused_in_words(text):
    with contextlib.suppress(WinaError):
        assert all(isinstance(term, Term) for term in parse_filter(text, BY_KEY))


def test_all_terms_must_match():
    cells = ("wina", "demo_choice")
    assert matches((Term("win"), Term("choice", 1)), cells)
    assert not matches((Term("win"), Term("choice", 0)), cells)


# ---- table -----------------------------------------------------------------------------------------------------------


def test_the_table_has_a_row_for_each_stored_metric(table):
    assert table.rowCount() == 3 * (1 + len(ARMS) * len(SPARSITIES))
    assert table.columnCount() == len(COLUMNS)
    assert table.headerData(BY_KEY["stderr"], Qt.Orientation.Horizontal) == "± stderr"
    index = table.index(0, BY_KEY["value"])
    assert table.data(index, Qt.ItemDataRole.TextAlignmentRole) & Qt.AlignmentFlag.AlignRight


def test_filtering_keeps_the_order(table):
    before = [entry.key for entry in table.shown]
    table.set_filter(parse_filter("method:wina metric:acc", BY_KEY))
    assert set(shown(table, "method")) == {"wina"}
    assert set(shown(table, "metric")) == {"acc"}
    kept = [entry.key for entry in table.shown]
    assert kept == [key for key in before if key in kept]
    table.set_filter(())
    assert [entry.key for entry in table.shown] == before


def test_sorting_is_numeric_with_the_unknown_last_either_way(table):
    table.set_filter(parse_filter("metric:acc", BY_KEY))
    for order in Qt.SortOrder:
        table.sort(BY_KEY["counted"], order)
        values = [entry.row.counted_sparsity for entry in table.shown]
        assert values[-1] is None, "dense was not gated"
        known = values[:-1]
        assert known == sorted(known, reverse=order == Qt.SortOrder.DescendingOrder)
    table.sort(-1)
    assert shown(table, "method")[0] == "dense"


@pytest.mark.parametrize(
    ("order", "expected"),
    [(Qt.SortOrder.AscendingOrder, [3, 2, 5, 0, 6, 1, 4]), (Qt.SortOrder.DescendingOrder, [0, 6, 2, 5, 3, 1, 4])],
)
def test_rows_of_equal_value_keep_their_order_either_way(entries, order, expected):
    values = (2.0, math.nan, 0.0, -math.inf, math.nan, 0.0, 2.0)
    rows = [Entry(entries[0].row._replace(unit=str(at), value=value)) for at, value in enumerate(values)]
    table = ResultsTable()
    table.set_entries(rows)
    table.sort(BY_KEY["value"], order)
    assert [rows.index(entry) for entry in table.shown] == expected


def test_new_results_leave_selection_and_order_alone(table, store):
    table.sort(BY_KEY["value"], Qt.SortOrder.DescendingOrder)
    kept = QPersistentModelIndex(table.index(10, 0))
    key = table.shown[10].key
    record_run(store, run_spec("wina", NO_ROTATION, 0.1), name="more")
    known = table.entries
    table.set_entries(make_entries(store.metric_rows(), known))
    assert table.rowCount() == len(known) + 3
    assert table.shown[kept.row()].key == key
    values = [entry.row.value for entry in table.shown]
    assert values == sorted(values, reverse=True)


def test_a_row_that_the_filter_hides_is_no_longer_selected(table):
    dense = next(row for row, entry in enumerate(table.shown) if entry.row.method == "dense")
    kept = QPersistentModelIndex(table.index(dense, 0))
    table.set_filter(parse_filter("method:teal", BY_KEY))
    assert not kept.isValid()


def test_unchanged_rows_are_not_made_again(entries, store):
    known = {entry.key: entry for entry in entries}
    assert all(entry is known[entry.key] for entry in make_entries(store.metric_rows(), known))


def test_numbers_read_well(entries):
    row = next(entry for entry in entries if entry.row.method == "dense" and entry.row.metric == "acc")
    assert row.texts[BY_KEY["value"]] == "0.71"
    assert row.texts[BY_KEY["stderr"]] == "0.016"
    assert row.texts[BY_KEY["n"]] == "800"
    assert row.texts[BY_KEY["counted"]] == "–"
    negative = Entry(row.row._replace(full_sparsity=-0.0512, value=math.nan))
    assert negative.texts[BY_KEY["full"]] == "−5.1"
    assert negative.value(BY_KEY["value"]) is None


# ---- frontier --------------------------------------------------------------------------------------------------------


def test_the_frontier_has_a_line_for_each_arm_and_the_dense_reference(entries):
    model = next(iter(models(entries)))
    data = frontier(entries, ACC, model)
    assert [line.label for line in data.lines] == ["teal", "wina", "wina, global + heads"]
    assert all([point.target_sparsity for point in line.points] == list(SPARSITIES) for line in data.lines)
    assert distinct_references(data.dense) == [("dense", 0.71)]


def test_the_frontier_shows_only_the_given_rows(entries):
    model = next(iter(models(entries)))
    some = [entry for entry in entries if entry.row.method == "teal" and entry.row.target_sparsity < 0.45]
    data = frontier(some, ACC, model)
    assert [(line.label, len(line.points)) for line in data.lines] == [("teal", 2)]
    assert data.dense == ()
    assert frontier(entries, ACC, "another model").lines == ()


def test_references_that_differ_are_named_apart(store):
    record_run(store, run_spec("dense", GLOBAL, 0.0), name="rotated")
    rows = make_entries(store.metric_rows(), {})
    moved = [
        Entry(entry.row._replace(value=0.7)) if entry.row.rotation != "none" and entry.row.method == "dense" else entry
        for entry in rows
    ]
    model = next(iter(models(rows)))
    assert len(distinct_references(frontier(rows, ACC, model).dense)) == 1, "an exact rotation changes nothing"
    names = [name for name, _ in distinct_references(frontier(moved, ACC, model).dense)]
    assert names == ["dense", "dense, global + heads"]


def test_names_say_only_what_sets_lines_apart(store):
    def line_names(**changes) -> list[str]:
        rows = [
            Entry(entry.row._replace(**changes) if entry.row.rotation != "none" else entry.row)
            for entry in make_entries(store.metric_rows(), {})
        ]
        return names(frontier(rows, ACC, next(iter(models(rows)))).lines)

    assert line_names() == ["teal", "wina", "wina, global + heads"]
    assert line_names(settings="limit 100")[2] == "wina, global + heads, limit 100"
    assert line_names(plan="edited") == ["teal, uniform", "wina, uniform", "wina, global + heads, edited"]


def test_the_measures_are_what_the_rows_have(entries):
    assert [measure.title for measure in measures(entries)] == [
        "demo:heldout: kl",
        "demo:heldout: perplexity",
        "demo_choice: acc",
    ]


def test_a_readout_tells_all_there_is(entries):
    model = next(iter(models(entries)))
    line = frontier(entries, ACC, model).lines[0]
    text = readout(line.label, ACC, line.points[0])
    for part in ("teal", "demo_choice: acc 0.69", "± 0.016", "target 25.0 %", "counted 24.8 %", "n 800"):
        assert part in text


# ---- studies ---------------------------------------------------------------------------------------------------------


def test_lines_of_one_method_and_rotation_are_told_apart_by_their_kind():
    def line(method: str, selection: str = "topk", plan: str = "uniform", rotation: str = "none") -> FrontierLine:
        return FrontierLine("", "m", method, rotation, selection, plan, "", ())

    lines = [
        line("wina", plan="curves"), line("wina"), line("wina", rotation="global"), line("wina", "top_p"),
        line("wina (shared masks)"), line("teal", plan="curves"),
    ]  # fmt: skip
    assert names(lines) == [
        "wina, curves", "wina, uniform", "wina, global, uniform", "wina, top p, uniform",
        "wina (shared masks), uniform", "teal, curves",
    ]  # fmt: skip
    assigned = kinds(lines)
    assert assigned[1] == assigned[2] == 0
    assert assigned[0] == assigned[5], "the same spread has the same pattern"
    assert len({assigned[row] for row in (0, 1, 3, 4)}) == 4


@pytest.mark.parametrize("explicit", [False, True])
@pytest.mark.parametrize("selection", ["topk", "threshold"])
def test_a_run_as_a_study_expands_to_exactly_that_run(explicit, selection):
    spec = run_spec("wina", GLOBAL, SparsityPlan.uniform(layout(), 0.5) if explicit else 0.5).model_copy(
        update={
            "model": ModelSource(location="someone/model"),
            "method": MethodSpec(name="wina", selection=selection),
            "calibration": CalibrationSpec() if selection == "threshold" else None,
        }
    )
    (run,) = expand(study_of(spec))
    assert run.content_hash() == spec.content_hash()


def test_the_dense_run_as_a_study():
    spec = run_spec("dense", NO_ROTATION, 0.0).model_copy(update={"model": ModelSource(location="someone/model")})
    (run,) = expand(study_of(spec))
    assert run.content_hash() == spec.content_hash()


def test_an_allocated_run_is_a_study_that_allocates_again():
    plan = AllocatedSparsity(sparsity=0.65, allocator=AllocatorSpec(name="greedy", variant="as_released"))
    spec = run_spec("wina", NO_ROTATION, 0.5).model_copy(
        update={"plan": plan, "model": ModelSource(location="someone/model")}
    )
    assert [run.plan for run in expand(study_of(spec))] == [plan]
