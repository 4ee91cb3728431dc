"""Where things are saved: the suffix, and what is asked before a file is replaced."""

import pytest
from PySide6.QtWidgets import QFileDialog, QMessageBox
from wina_app.widgets.file_dialogs import save_as

FORMATS = "CSV (*.csv);;Study (*.toml *.json)"
YES, NO = QMessageBox.StandardButton.Yes, QMessageBox.StandardButton.No


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Save with these answers to the file dialog and to the question whether to replace; returns the path and what
    was asked."""

    def saved(*typed, kind="CSV (*.csv)", replace=()):
        names, answers, asked = iter(typed), iter(replace), []

        def choose(_parent, _title, proposed, _formats):
            asked.append(proposed)
            name = next(names)
            return (str(tmp_path / name) if name else "", kind)

        def question(_parent, _title, text):
            asked.append(text)
            return next(answers)

        monkeypatch.setattr(QFileDialog, "getSaveFileName", choose)
        monkeypatch.setattr(QMessageBox, "question", question)
        return save_as(None, "Save", "results.csv", FORMATS), asked

    return saved


@pytest.mark.parametrize(
    ("typed", "kind", "name"),
    [
        ("runs", "CSV (*.csv)", "runs.csv"),
        ("runs", "Study (*.toml *.json)", "runs.toml"),
        ("runs", "", "runs.csv"),
        ("runs.JSON", "CSV (*.csv)", "runs.JSON"),
        ("at 0.5", "CSV (*.csv)", "at 0.5.csv"),
    ],
)
def test_a_name_without_a_suffix_of_the_formats_gets_the_chosen_ones(ask, tmp_path, typed, kind, name):
    assert ask(typed, kind=kind) == (tmp_path / name, ["results.csv"])


def test_a_file_with_the_suffix_is_replaced_only_where_the_user_says_so(ask, tmp_path):
    (tmp_path / "runs.csv").write_text("mine")
    question = '"runs.csv" exists already. Do you want to replace it?'
    assert ask("runs", replace=[YES]) == (tmp_path / "runs.csv", ["results.csv", question])
    path, asked = ask("runs", "other", replace=[NO])
    assert path == tmp_path / "other.csv"
    assert asked == ["results.csv", question, str(tmp_path / "runs")], "the dialog is back with what was typed"
    assert ask("runs", "", replace=[NO])[0] is None


def test_the_dialog_itself_has_asked_about_a_name_that_stays(ask, tmp_path):
    (tmp_path / "runs.csv").write_text("mine")
    assert ask("runs.csv") == (tmp_path / "runs.csv", ["results.csv"])
