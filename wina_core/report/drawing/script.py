"""A figure as a Python program that draws it with matplotlib alone, from the CSV beside it."""

import inspect
import re
from pprint import pformat

from wina_core.files import formulas
from wina_core.report.drawing import figure as plain_data
from wina_core.report.drawing import label_positions, svg
from wina_core.report.drawing.figure import Figure, Style, without_data

_OWN = re.compile(r"^from wina_core\..*\n", re.MULTILINE)
_DOCSTRING = re.compile(r'\A""".*?"""\n', re.DOTALL)
_HEAD = '''"""Draw the data beside this file: `python plot.py` writes plot.png, `python plot.py figure.pdf` a PDF.

Needs matplotlib. The figure's words and style are at the end; change what you like.
"""

from math import inf, nan  # numbers that are not known
'''
_BODY = '''

def main() -> None:
    """Draw the figure into the file that the command line names."""
    import sys
    from pathlib import Path

    here = Path(__file__)
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else here.with_suffix(".png")
    data = here.with_name(DATA).read_text(encoding="utf-8")
    target.write_bytes(render(with_data(FIGURE, data), STYLE, target.suffix[1:].lower()))
    print(target)


if __name__ == "__main__":
    main()
'''


def script_of(figure: Figure, style: Style, data: str) -> str:
    """Return the program that draws a figure from the CSV file named `data` beside it.

    The program has the figure's words as literals alone, so that no text of a model, task or run is ever more than a
    text.
    """
    from wina_core.report.drawing import renderer

    sources = [_source(module) for module in (formulas, plain_data, label_positions, svg, renderer)]
    literals = {"DATA": data, "STYLE": style, "FIGURE": without_data(figure)}
    given = "\n".join(
        f"{name} = {pformat(value, width=110, compact=True, sort_dicts=False)}" for name, value in literals.items()
    )
    return f"{_HEAD}\n{''.join(sources)}\n\n{given}\n{_BODY}"


def _source(module: object) -> str:
    """Return a module's source without its docstring and its imports of other modules of the project."""
    return _OWN.sub("", _DOCSTRING.sub("", inspect.getsource(module)))  # type: ignore[arg-type]
