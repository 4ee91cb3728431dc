"""Earlier names of options still work, with a warning."""

import pytest
import typer

from wina_core import cli
from wina_core.cli.arguments.renamed import EVERYWHERE, IN_COMMAND, with_current_names


def options(command, path=()):
    """Yield the path of each command with the names of its options."""
    yield path, {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    for name, inner in getattr(command, "commands", {}).items():
        yield from options(inner, (*path, name))


OPTIONS = dict(options(typer.main.get_command(cli.app)))
RENAMED = [
    *((path, old, new) for path, names in OPTIONS.items() for old, new in EVERYWHERE.items() if new in names),
    *(((command,), old, new) for command, renamed in IN_COMMAND.items() for old, new in renamed.items()),
]


@pytest.mark.parametrize(("path", "old", "new"), RENAMED)
def test_an_earlier_name_becomes_the_current_one(path, old, new):
    assert new in OPTIONS[path]
    assert old not in OPTIONS[path]
    given = [*path, "argument", f"{old}=value", old]
    assert with_current_names(given) == ([*path, "argument", f"{new}=value", new], {old: new})


def test_a_name_of_one_command_stays_in_another():
    for words in ([], ["latency", "demo", "--new-tokens", "8"]):
        assert with_current_names(words) == (words, {})


def test_an_earlier_name_works_with_a_warning_and_is_not_in_the_help(wina):
    warning = "wina: --marks is now --annotations; the old name will stop working in the next release.\n"
    assert wina("results", "--marks", "--json")[::2] == (0, warning)
    assert "--marks" not in wina.succeeds("results", "--help")
