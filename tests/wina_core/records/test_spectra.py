"""The sentence about the energy spectra of a model's inputs."""

import pytest

from wina_core.records import SiteSpectrum
from wina_core.records.rotations import explain_spectra


def _spectra(cumulative: tuple[float, ...]) -> tuple[SiteSpectrum, ...]:
    return tuple(
        SiteSpectrum(layer=layer, site="mlp", directions=(1, 30, 60, 100), cumulative=cumulative) for layer in range(2)
    )


@pytest.mark.parametrize(
    ("cumulative", "sentence"),
    [
        ((0.1, 0.9, 0.95, 1.0), "90 % of the energy of the stream's inputs lies in 30 % of the directions."),
        (
            (0.5, 0.8, 0.96, 1.0),
            "one direction alone holds 50 % of the energy of the stream's inputs, and 60 % of the directions hold 90 % "
            "of the rest.",
        ),
    ],
)
def test_the_sentence_describes_the_spectra_and_no_gain_of_a_rotation(
    cumulative: tuple[float, ...], sentence: str
) -> None:
    spectra = _spectra(cumulative)
    assert explain_spectra(spectra) == f"On average over the layers: {sentence}"
    named = explain_spectra(spectra, "8192 tokens of wikitext")
    assert named == f"On 8192 tokens of wikitext, on average over the layers: {sentence}"
