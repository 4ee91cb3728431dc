"""Reports: safe to open whatever names hold, and the same in every format."""

import csv
import json
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from tests.wina_core.conftest import Wina
from tests.wina_core.report.report_study import fill, named, runs, study, unit
from wina_core.errors import WinaError
from wina_core.report.document import html, make_report, markdown, write_up
from wina_core.specs import Configuration, EvaluationSpec, MethodSpec, ModelSource, RotationSpec, TextSpec
from wina_core.specs.studies import Role
from wina_core.store import Store
from wina_core.studies.expand import load_study

# ---- files -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a whole report."""
    folder = tmp_path_factory.mktemp("report")
    with Store("sqlite://") as opened:
        fill(opened, study(), missing=("teal", "piqa"), samples=200)
        page = make_report(opened, study(), folder / "out", with_tables=True)
    assert (page.parent, page.suffix) == (folder / "out", ".html")
    assert page.stem.startswith("the-commons-sense-x-1-"), "with a part of the hash, since other names come to this too"
    return page


def test_the_page_needs_nothing_else_and_takes_names_for_text(written: Path) -> None:
    page = written.read_text(encoding="utf-8")
    assert not set(re.findall(r"<\s*(\w+)", page)) & {"script", "link", "iframe", "object", "svg"}
    sources = re.findall(r"\b(?:src|href)\s*=\s*[\"']?([^\"'>]*)", page)
    assert [source.partition(",")[0] for source in sources] == ["data:image/svg+xml;base64"] * 2
    assert "url(" not in page
    assert "default-src 'none'; img-src data:" in page
    assert "Table 3 &lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert len(re.findall(r'<img [^>]* alt="[^"]', page)) == 2  # the frontier and the layers
    assert len(page) < 1_000_000
    for file in written.parent.glob("*.svg"):
        root = ElementTree.parse(file).getroot()
        assert not any(element.tag.endswith(("}script", "}image", "}foreignObject")) for element in root.iter())
        links = [value for element in root.iter() for name, value in element.attrib.items() if name.endswith("href")]
        assert all(link.startswith("#") for link in links)


def test_the_page_says_how_to_do_it_again_without_anybodys_folders(written: Path) -> None:
    page, other = written.read_text(encoding="utf-8"), written.with_suffix(".md").read_text(encoding="utf-8")
    for text in (page, other):
        assert "somebody" not in text
        assert re.search(r"wina study run the-commons-sense-x-1-[0-9a-f]{8}\.toml --role", text)
        assert "a processor" in text
        assert "torch 2.13.0, lm-eval 0.4.13" in text or "lm-eval 0.4.13, torch 2.13.0" in text
        assert "38 of 40 measurements; 2 missing" in text
        assert "– (1 missing)" in text
    again = load_study(written.with_suffix(".toml"))
    assert again == study(roles=(Role(name="Llama-2-7B", hub="meta-llama/Llama-2-7b-hf"),))


def test_a_shared_study_carries_nobodys_folders_and_its_report_tells_what_is_needed(
    store: Store, tmp_path: Path
) -> None:
    private = TextSpec(source="/home/somebody/secret/text.txt")
    of = study(
        models=(ModelSource(location="role:Llama-2-7B"), ModelSource(location="C:\\Users\\somebody\\mine")),
        configurations=(
            Configuration(
                method=MethodSpec(name="wina"), rotation=RotationSpec(matrices="/home/somebody/bases.safetensors")
            ),
            Configuration(method=MethodSpec(name="teal"), rotation=RotationSpec(objective="error", text=private)),
        ),
        allocators=({"name": "curves", "text": private},),
        calibration={"text": private},
        evaluation=EvaluationSpec(
            tasks=("humaneval",), data_folder="/home/somebody/data", task_folders=("~/tasks",), fidelity=private
        ),
    )
    store.save_study(of, named(of))
    store.record_unit(unit(runs(of)[0], "humaneval", 0.5, "pass@1", samples=20))
    page = make_report(store, of, tmp_path)
    assert "somebody" not in page.with_suffix(".toml").read_text(encoding="utf-8")
    assert "somebody" not in page.read_text(encoding="utf-8")
    again = load_study(page.with_suffix(".toml"))
    assert [model.location for model in again.models] == ["role:Llama-2-7B", "role:mine"]
    text = page.with_suffix(".md").read_text(encoding="utf-8")
    assert "--role Llama-2-7B=FOLDER --role mine=FOLDER --log-samples --confirm-run-unsafe-code" in text
    assert "consents to running the programs that the model writes for humaneval" in text
    assert r"of which it keeps only the names: text.txt, data, tasks, bases.safetensors" in text


def test_the_markdown_page_has_the_same_tables_and_its_plots(written: Path) -> None:
    text = written.with_suffix(".md").read_text(encoding="utf-8")
    assert "| Measured | Target | Method | PiQA | Arc-C |" in text
    assert "| 67.0 %† | 65 % | TEAL |" in text
    assert text.count("† The gated sparsity of a run misses its target by more than 0.5 points.") == 1
    assert "| 50.2 % | 50 % | WINA | 78.00 (77.80, +0.20 ≈) | **44.50** (44.71, −0.21 ≈) |" in text
    assert "<script>" not in text
    parsed = MarkdownIt("commonmark").enable("table").parse(text)
    assert [token.type for token in parsed].count("table_open") == 4, "results, two of significance, hardware"
    images = re.findall(r"\]\((\S+\.svg)\)", text)
    assert len(images) == 2
    assert all((written.parent / image).is_file() for image in images)


def test_significance_is_paired_where_samples_are(written: Path) -> None:
    text = written.with_suffix(".md").read_text(encoding="utf-8")
    assert "### Against TEAL" in text
    (line,) = re.findall(r"\| Llama-2-7B \| 65.2 / 67.0 % \| 65 / 65 % \| WINA \| boolq \|.*McNemar.*", text)
    assert line.endswith("| 200 | 6 / 0 | exact McNemar | 1.8 points denser |")
    assert "| 0.031 (min 0.031) |" in line
    assert "mean of" not in text  # as in the table above: a task is missing


def test_every_table_is_written_in_every_format(written: Path) -> None:
    name = written.stem
    names = {path.name for path in written.parent.glob(f"{name}-table-1.*")}
    assert names == {f"{name}-table-1{suffix}" for suffix in (".tex", ".csv", ".xlsx", ".parquet", ".json")}
    with (written.parent / f"{name}-table-1.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    wina = next(line for line in lines if (line["Target"], line["Method"]) == ("50 %", "WINA"))
    assert (float(wina["PiQA"]), float(wina["PiQA paper"])) == (78.0, 77.80)
    assert float(wina["PiQA difference"]) == pytest.approx(0.2)
    missing = json.loads((written.parent / f"{name}-table-1.json").read_text(encoding="utf-8"))[1]
    assert missing["Measured"] == "52.0 %", "a mark is for readers"
    assert (missing["Method"], missing["PiQA"], missing["PiQA paper"]) == ("TEAL", None, 77.09)
    tex = (written.parent / f"{name}-table-1.tex").read_text(encoding="utf-8")
    assert tex.count(r"\midrule") == 3
    assert r"52.0 \%$\dagger$ & 50 \% & TEAL" in tex
    assert r"{\footnotesize $\dagger$ The gated sparsity of a run misses its target" in tex
    assert r"50.2 \% & 50 \% & WINA & 78.00 {\scriptsize(77.80)} & \textbf{44.50} {\scriptsize(44.71)}" in tex
    assert "-- (1 missing)" in tex


# ---- errors ----------------------------------------------------------------------------------------------------


def test_errors_name_the_study_the_baseline_or_the_folder(store: Store, tmp_path: Path) -> None:
    with pytest.raises(WinaError, match="has not been launched here; run it first"):
        make_report(store, study(), tmp_path)
    fill(store, study())
    with pytest.raises(WinaError, match='has no configuration "SCAP"; its configurations are: "dense", "TEAL", "WINA"'):
        make_report(store, study(), tmp_path, baseline="SCAP")
    (tmp_path / "file").write_text("")
    with pytest.raises(WinaError, match=r"Cannot create the folder .*file/reports"):
        make_report(store, study(), tmp_path / "file" / "reports")


def test_the_command_reports_what_was_run_under_a_files_name(store: Store, wina: Wina, tmp_path: Path) -> None:
    store.save_study(study(), named(study()))
    file = tmp_path / "study.toml"
    file.write_text('name = "The commons\' <sense> & $x_1$"\nlatency = { shapes = [{ outputs = 8, inputs = 8 }] }\n')
    words = ("--output-path", tmp_path / "out", "--database", store.url.database)
    code, _, err = wina("report", file, *words)
    assert (code, "has changed since the study was run" in err) == (0, True)
    assert len(list((tmp_path / "out").glob("the-commons-sense-x-1-*.html"))) == 1
    assert 'No study "other" is stored' in wina.fails(1, "report", "other", *words)


# ---- names that do harm ----------------------------------------------------------------------------------------

HARMFUL = (
    '"><img src=x onerror=alert(1)> </svg></table><script>alert(1)</script> --><b>bold</b> {{ 7 * 7 }} {% raw %} '
    "&lt;i&gt; ]]> ' ` \" \\ [link](http://example.org) ![](x) | cell"
)


class Elements(HTMLParser):
    """Names of all elements and their attributes, and the text between."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.found |= {tag, *(f"{name}=" for name, _ in attrs)}

    def handle_data(self, data: str) -> None:
        """Note a text."""
        self.texts.append(data)


def test_a_page_has_no_element_that_came_from_a_name(store: Store) -> None:
    def elements(name: str) -> Elements:
        of = study(
            name=name,
            title=name,
            description=name,
            configurations=(
                Configuration(name="dense", method=MethodSpec(name="dense")),
                Configuration(name=name, method=MethodSpec(name="wina")),
            ),
        )
        fill(store, of)
        return Elements(html(write_up(store, of, "study.toml")))

    harmless, harmful = elements("plain name"), elements(HARMFUL)
    assert harmful.found <= harmless.found
    assert HARMFUL in harmful.texts


def test_the_markdown_page_has_no_markup_that_came_from_a_name(store: Store) -> None:
    name = f"{HARMFUL}\n\n# heading\n\n<script>alert(1)</script>\n\n    code ``` https://example.org www.example.org"

    def kinds(name: str) -> tuple[set[str], list[str]]:
        of = study(
            title=name, description=name, configurations=(Configuration(name=name, method=MethodSpec(name="wina")),)
        )
        fill(store, of)
        text = markdown(write_up(store, of, "study.toml"), "study")
        assert not any(link in text.partition("To reproduce")[0] for link in ("http://", "https://", "www."))
        page = MarkdownIt("commonmark").enable("table").parse(text)
        inline = [child for token in page for child in token.children or ()]
        texts = ["".join(child.content for child in token.children or ()) for token in page if token.type == "inline"]
        return {token.type for token in (*page, *inline)}, texts

    harmless, _ = kinds("plain name")
    harmful, texts = kinds(name)
    assert harmful <= harmless
    assert " ".join(name.split()) in texts
