"""`wina machines`."""

import json

import pytest

from tests.wina_core.conftest import Wina
from wina_core.remote.registry import load_places

pytestmark = pytest.mark.usefixtures("home")


def test_machines_are_listed_and_faults_are_sentences(wina: Wina) -> None:
    assert "no machine yet" in wina.succeeds("machines", "list")
    wina.succeeds("machines", "add", "me@gpu", "--folder=/a b=/c", "--command", "env A=b wina")
    (listed,) = json.loads(wina.succeeds("machines", "list", "--json"))
    assert listed == {"machine": "me@gpu", "command": "env A=b wina", "folders": {"/a b": "/c"}}
    assert "/a b=/c" in wina.succeeds("machines", "list")
    for words, code, error in (
        (("add", "ssh://gpu"), 2, "it should be a host of your ~/.ssh/config"),
        (("add", "big", "--folder", "/a"), 1, "write HERE=THERE"),
        (("add", "big", "--command", ""), 2, "it should begin with a program"),
        (("check", "me@gpo"), 1, "did you mean me@gpu?"),
        (("add-ray", "grid", "head"), 2, "is no address of a Ray cluster"),
    ):
        assert error in wina.fails(code, "machines", *words)
    wina.succeeds("machines", "add-ray", "grid", "10.0.0.1:6379", "--gpus", 0.5)
    assert "Ray 10.0.0.1:6379" in wina.succeeds("machines", "list")
    assert "grid is a Ray cluster" in wina.fails(1, "machines", "check", "grid")
    assert set(load_places()) == {"grid", "me@gpu"}
    wina.succeeds("machines", "remove", "grid")
    wina.succeeds("machines", "remove", "me@gpu")
