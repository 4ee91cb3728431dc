"""The effect of a rotation, and the course of its refinement."""

from collections.abc import Sequence
from statistics import fmean
from typing import Literal, get_args

from wina_core.records.base import Record
from wina_core.records.models import QuantizationReport
from wina_core.records.units import LayerRecord
from wina_core.specs import USUAL_EFFORT, RotationSpec


class RefinementStep(Record):
    """The loss at one step of a refinement, before the step turns the basis."""

    site: str
    """Label of the basis: "stream", "layer 3", "layer 3 attention", "layer 3 mlp" or "layer 3 heads"; "all" where all
    are turned at once."""
    objective: Literal["error", "kl"]
    sparsity: float
    """Sparsity of the gates at this step; steps alternate between several, whose losses are not comparable."""
    step: int
    steps: int
    """Steps in all."""
    loss: float
    """Expected or measured KL divergence of the gated model from the dense one, in nats per token."""


class BasesRecord(Record):
    """The search for a rotation's bases, kept with them, so that a rotation by known bases reports it too."""

    seconds: float
    dense_residuals: tuple[LayerRecord, ...]
    refinement: tuple[RefinementStep, ...]
    """All three as in RotationReport, the time without that of applying the bases."""


class RotationCandidate(Record):
    """A rotation, and the gated model's KL divergence from the dense one with it."""

    rotation: RotationSpec
    kl: float
    """Mean over the rows, in nats per token."""
    stderr: float
    """Standard error of the mean, over rows."""
    change: float
    """Mean over rows of the KL minus that without rotation; negative where the rotation helps."""
    change_stderr: float
    """Standard error of that mean, over rows."""
    seconds: float
    """Time to measure it, without that of finding its bases."""
    rows: tuple[float, ...]
    """The KL of each row of text."""
    own_rows: tuple[float, ...] = ()
    """The KL of each row of text that the model wrote itself; empty where that was not measured."""
    own_change: float = 0.0
    """As `change`, on the model's own text."""
    own_change_stderr: float = 0.0

    @property
    def helps(self) -> bool:
        """Return whether it is better than no rotation on the text by more than the error."""
        return self.change < -self.change_stderr

    @property
    def harms(self) -> bool:
        """Return whether it is worse than no rotation by more than the error, on the text or on the model's own."""
        return self.change > self.change_stderr or self.own_change > self.own_change_stderr

    @property
    def own_kl(self) -> float | None:
        """Return the mean KL on the model's own text, in nats per token; None if it was not measured."""
        return sum(self.own_rows) / len(self.own_rows) if self.own_rows else None

    @property
    def change_text(self) -> str:
        return f"{self.change:+.3g} ± {self.change_stderr:.2g}"

    @property
    def own_change_text(self) -> str:
        """Return the change on the model's own text and its error; empty where that was not measured."""
        return f"{self.own_change:+.3g} ± {self.own_change_stderr:.2g}" if self.own_rows else ""

    @property
    def name(self) -> str:
        """Return the rotation's label without what candidates share: the text, and whether norms are folded."""
        shared = {"text": USUAL_EFFORT[self.rotation.objective][1]}
        folded = {"fold_norms": "none"} if self.rotation.turns else {}
        return self.rotation.model_copy(update={**shared, **folded}).label


class RotationChoice(Record):
    """The rotation that was chosen of some candidates, and how each did on text that no basis was computed from."""

    sparsity: float
    text: str
    """Label of the text that was read, for example "1024 tokens in rows of 128 of wikitext.txt"."""
    candidates: tuple[RotationCandidate, ...]
    """The first is no rotation."""
    chosen: int
    """Place of the chosen one."""
    by_hand: bool = False
    """True for a rotation that was given, and was compared with none."""
    seconds: float
    """Time of the search and of the comparison."""

    @property
    def rotation(self) -> RotationSpec:
        return self.candidates[self.chosen].rotation

    @property
    def change(self) -> str:
        """Return the KL divergences without a rotation and with the chosen one, each with its standard error."""
        compared = dict.fromkeys((0, self.chosen))
        return " → ".join(f"{self.candidates[at].kl:.3g} ± {self.candidates[at].stderr:.2g}" for at in compared)

    @property
    def harms(self) -> bool:
        """Return whether the chosen rotation is worse than none by more than the error, on the text or on sampled
        text."""
        return self.candidates[self.chosen].harms

    @property
    def sampled(self) -> bool:
        return bool(self.candidates[0].own_rows)

    @property
    def verdict(self) -> str:
        """Return a sentence on the chosen rotation, and advice where it does harm."""
        best = self.candidates[self.chosen]
        change = f"KL {self.change} at {100 * self.sparsity:.4g} % on {self.text}"
        if self.chosen == 0:
            rest = len(self.candidates) - 1
            if self.sampled:
                return (
                    f"No rotation: none of {rest} candidates is both better than no rotation beyond the error on this "
                    f"text and not worse on text sampled from the model ({change})."
                )
            return f"No rotation: none of {rest} candidates is better than no rotation beyond the error ({change})."
        if not self.by_hand:
            return f"Chosen of {len(self.candidates)} candidates: {best.name}; {change}."
        if best.change > best.change_stderr:
            return f"Worse than no rotation: {change}. Choose auto, or none."
        if self.harms:
            return (
                f"Worse than no rotation on text sampled from the model: KL {self.candidates[0].own_kl:.3g} → "
                f"{best.own_kl:.3g}, change {best.own_change_text}. {change}. Choose auto, or none."
            )
        if best.helps:
            return f"Better than no rotation: {change}."
        return f"No difference from no rotation beyond the error: {change}."


SpectrumSite = Literal["attention", "mlp", "o", "down"]
SPECTRUM_SITES: tuple[SpectrumSite, ...] = get_args(SpectrumSite)
"""Inputs of q, k, v; of gate and up; of o; of down."""
_HALF, _MOST = 0.5, 0.9


class SiteSpectrum(Record):
    """Energies of one input in its principal directions: cumulative eigenvalues of its second moment."""

    layer: int
    site: SpectrumSite
    directions: tuple[int, ...]
    """Numbers of first directions, up to that of all."""
    cumulative: tuple[float, ...]
    """The share of the energy in each such number of directions."""

    @property
    def size(self) -> int:
        return self.directions[-1]

    @property
    def first(self) -> float:
        return self.cumulative[0]

    @property
    def half(self) -> int:
        return self._reaching(_HALF)

    @property
    def ninety(self) -> int:
        return self._reaching(_MOST)

    @property
    def beyond_first(self) -> int:
        """Return the least number of directions that hold 90 % of the energy outside the first one.

        In many models, that one is an outlier.
        """
        return self._reaching(self.first + _MOST * (1 - self.first))

    def _reaching(self, share: float) -> int:
        pairs = zip(self.directions, self.cumulative, strict=True)
        # Stored shares are rounded to six digits.
        return next((count for count, held in pairs if held >= share - 2e-6), self.size)


_OUTLIER = 0.3
"""Share of the energy in one direction from which on it stands out."""


def explain_spectra(spectra: Sequence[SiteSpectrum], text: str = "") -> str:
    """Return how many directions hold the energy of the stream's inputs, on a text if named; empty without spectra.

    It does not say whether a rotation helps: models with like spectra differ in that.
    """
    stream = [spectrum for spectrum in spectra if spectrum.site in ("attention", "mlp")]
    if not stream:
        return ""
    where = f"On {text}, on average over the layers" if text else "On average over the layers"
    first = fmean(spectrum.first for spectrum in stream)
    if first < _OUTLIER:
        share = fmean(spectrum.ninety / spectrum.size for spectrum in stream)
        return f"{where}: 90 % of the energy of the stream's inputs lies in {100 * share:.0f} % of the directions."
    share = fmean(spectrum.beyond_first / spectrum.size for spectrum in stream)
    return (
        f"{where}: one direction alone holds {100 * first:.0f} % of the energy of the stream's inputs, and "
        f"{100 * share:.0f} % of the directions hold 90 % of the rest."
    )


class RotationReport(Record):
    """The effect of a rotation on a model's logits and on the orthogonality of its weights."""

    rotation: str
    """Content hash of the RotationSpec."""
    logits_deviation: float
    """||rotated - dense||_F / ||dense||_F of the logits on a probe text."""
    residuals: tuple[LayerRecord, ...]
    """metric "off_diagonal_energy": ||offdiag(W^T W)||_F^2 / ||W^T W||_F^2 per layer and projection."""
    shortcut_parameters: int
    """Weights of the d x d residual shortcuts that the rotated model reads for every token; 0 if free."""
    seconds: float
    dense_residuals: tuple[LayerRecord, ...] = ()
    """The same metric of the weights before the rotation; empty in reports of older versions."""
    refinement: tuple[RefinementStep, ...] = ()
    """Some steps of each basis, its first and last ones included; empty without a refinement, and in reports of older
    versions."""
    folded: tuple[str, ...] = ()
    """Names of the projections whose inputs carry their column norms (`RotationSpec.fold_norms`)."""
    choice: RotationChoice | None = None
    """The comparison with no rotation, and of `auto` the chosen rotation; None in reports of older versions."""
    spectra: tuple[SiteSpectrum, ...] = ()
    """Of the model before the rotation; empty unless requested."""
    spectra_text: str = ""
    """Label of the text that they were measured on; empty in reports of older versions."""
    exported_to: str | None = None
    quantization: QuantizationReport | None = None
    """The further effect of quantizing the rotated model; the other numbers are from before."""
