"""The guide's results page is what its command writes."""

import csv
import shutil

import pytest
import results_page

from wina_core.specs import FIDELITY


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """A copy of the numbers, and a page, in a temporary folder."""
    shutil.copytree(results_page.NUMBERS, tmp_path / "results")
    monkeypatch.setattr(results_page, "NUMBERS", tmp_path / "results")
    monkeypatch.setattr(results_page, "PAGE", tmp_path / "results.md")
    return tmp_path


def test_the_committed_page_is_what_the_command_writes(elsewhere):
    committed = (results_page.ROOT / "resources" / "guide" / "results.md").read_text(encoding="utf-8")
    results_page.main([])
    assert (elsewhere / "results.md").read_text(encoding="utf-8") == committed


def test_a_table_has_a_column_for_each_quantity_and_target_and_marks_missed_targets(elsewhere):
    row = dict.fromkeys(results_page.COLUMNS, "") | {"method": "dense", "rotation": "none", "task": FIDELITY}
    dense = row | {"target_sparsity": "0.0", "gated_sparsity": "0.0", "metric": "kl", "value": "0.0"}
    gated = dense | {"method": "teal", "target_sparsity": "0.65", "gated_sparsity": "0.676", "value": "0.17554"}
    small = gated | {"target_sparsity": "0.5", "gated_sparsity": "0.5", "value": "0.00076"}
    with (elsewhere / "results" / "tiny-study.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, results_page.COLUMNS)
        writer.writeheader()
        writer.writerows([dense, gated, small])
    assert results_page.study_table("tiny-study", metrics=("kl",)).splitlines() == [
        "| method | rotation | measured, 50 % | measured, 65 % | KL, 50 % | KL, 65 % |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
        "| dense | none | 0.0 | 0.0 | 0.0000 | 0.0000 |",
        "| teal | none | 50.0 | 67.6† | 0.00076 | 0.1755 |",
    ]


def test_numbers_of_a_database_without_the_studies_stay(elsewhere, monkeypatch, capsys):
    monkeypatch.setattr(results_page, "_refresh_costs", lambda: None)
    before = results_page.page()
    results_page.main(["--database", str(elsewhere / "empty.sqlite")])
    assert "demo-methods is not in the database" in capsys.readouterr().err
    assert results_page.page() == before


def write_scores(folder, name):
    """Write a study's scores of two tasks, one of which has two metrics, and of LAMBADA."""
    row = dict.fromkeys(results_page.COLUMNS, "") | {"rotation": "none"}
    dense = row | {"method": "dense", "target_sparsity": "0.0"}
    gated = row | {"method": "teal", "target_sparsity": "0.5"}
    numbers = [
        (dense, "piqa", "acc", "0.7", "0.03"),
        (dense, "piqa", "acc_norm", "0.72", "0.03"),
        (dense, "boolq", "acc", "0.5", "0.04"),
        (dense, "lambada_openai", "perplexity", "20.5", "1.5"),
        (dense, "lambada_openai", "acc", "0.4", ""),
        (gated, "piqa", "acc_norm", "0.66", "0.03"),
        (gated, "piqa", "acc", "0.65", "0.03"),
    ]
    with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, results_page.COLUMNS)
        writer.writeheader()
        for of, task, metric, value, stderr in numbers:
            writer.writerow(of | {"task": task, "metric": metric, "value": value, "stderr": stderr})


def test_a_table_of_scores_has_their_mean_and_a_column_for_each_task(elsewhere):
    write_scores(elsewhere / "results", "real-tiny")
    # the error of the mean: sqrt(0.03 ** 2 + 0.04 ** 2) / 2
    assert results_page.scores_table("real-tiny", averaged=("piqa", "boolq")).splitlines() == [
        "| method | rotation | target | mean | piqa | boolq | lambada_openai |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
        "| dense | none | 0 % | 61.0 ± 2.5 | 72.0 ± 3.0 | 50.0 ± 4.0 | 40.0 |",
        "| teal | none | 50 % |  | 66.0 ± 3.0 |  |  |",
    ]


def test_the_front_has_the_runs_that_no_other_beats_in_both_mean_and_net_sparsity(elsewhere):
    row = dict.fromkeys(results_page.COLUMNS, "") | {"model": "small", "rotation": "none", "task": "piqa"}
    runs = [("dense", 0.0, 0.0, 0.6), ("teal", 0.5, 0.49, 0.7), ("wina", 0.5, 0.5, 0.7), ("teal", 0.65, 0.6, 0.5)]
    with (elsewhere / "results" / "real-tiny.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, results_page.COLUMNS)
        writer.writeheader()
        for method, target, net, value in runs:
            numbers = {"target_sparsity": target, "net_sparsity": net, "metric": "acc", "value": value}
            writer.writerow(row | {"method": method} | numbers)
    assert results_page.front_table(["real-tiny"], averaged=("piqa",)).splitlines()[2:] == [
        "| small | wina | none | 50 % | 50.0 | 70.0 |",
        "| small | teal | none | 65 % | 60.0 | 50.0 |",
    ]
