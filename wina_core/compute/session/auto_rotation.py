"""Choice of a rotation by measuring candidates, kept in the cache; the rule is `rotation.comparison.best_candidate`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor, nn
from transformers import GenerationConfig

from wina_core.compute import pausable_clock
from wina_core.compute.hooks import attributes, cancellable
from wina_core.compute.models.finite import check_numbers
from wina_core.compute.models.loading import LoadedModel
from wina_core.compute.models.logits import ScoredPositions
from wina_core.compute.models.norms import normalized
from wina_core.compute.models.passage import Passage, in_batches
from wina_core.compute.models.shortcuts import shortcut_parameters
from wina_core.compute.models.text_tokens import first_token, read_other_tokens, read_tokens
from wina_core.compute.models.view import LayerView, ModelView
from wina_core.compute.reporter import Reporter
from wina_core.compute.rotation.apply import LayerBases
from wina_core.compute.rotation.bases import choose_bases, eigenvector_bases
from wina_core.compute.rotation.comparison import ComparedRotation, best_candidate, compare_rotations, layer_energies
from wina_core.compute.rotation.descent import Search
from wina_core.compute.rotation.matrices import copy_bases, read_bases, save_matrices
from wina_core.compute.rotation.transform import check_rotation
from wina_core.compute.session.cache import bases_file, cached, read_cached, write_cached
from wina_core.compute.stages import Stages
from wina_core.errors import WinaError
from wina_core.files.tables import write_atomically
from wina_core.files.user_file import read_file
from wina_core.model_info import products
from wina_core.records import BasesRecord, RotationCandidate, RotationChoice, SiteSpectrum
from wina_core.records.rotations import SPECTRUM_SITES, SpectrumSite
from wina_core.specs import NO_ROTATION, RotationSpec, TextSpec
from wina_core.specs.rotations import (
    COMPARED_ROWS,
    COMPARED_SEQUENCE,
    auto_candidates,
    refined_candidate,
)


def stored_choice(file: Path, reporter: Reporter) -> RotationChoice | None:
    """Return the choice in a file of the cache; None if it is missing or damaged."""

    def read(path: Path) -> RotationChoice:
        return RotationChoice.model_validate_json(read_file(path, "cache"))

    return read_cached(file, "comparison of rotations", read, reporter)


def choose_rotation(loaded: LoadedModel, spec: RotationSpec, file: Path, reporter: Reporter) -> RotationChoice:
    """Compare the candidates of `auto`, or a rotation with none, on an unrotated model, and keep the result in a file.

    The bases of the chosen one are kept, too. An interrupted search continues from its stages.
    """
    start = pausable_clock.now()
    products.remove_abandoned(file.parent)
    search = Search(reporter, file.with_suffix(products.STAGES_SUFFIX))
    with cancellable(loaded.model, reporter):
        rotation_search = _RotationSearch(loaded, spec, reporter, search)
        choice = rotation_search.of_candidates() if spec.is_auto else rotation_search.by_hand()
    seconds = pausable_clock.now() - start + search.earlier_seconds
    choice = choice.model_copy(update={"seconds": seconds})
    products.remember_seconds(file.stem, seconds)
    content = choice.model_dump_json(indent=1).encode()
    if write_cached(file, "comparison of rotations", lambda path: write_atomically(path, content), reporter):
        search.discard()
    return choice


_SPECTRA = TypeAdapter(tuple[SiteSpectrum, ...])


def measured_spectra(loaded: LoadedModel, text: TextSpec, reporter: Reporter) -> tuple[SiteSpectrum, ...]:
    """Return the energy spectra of an unrotated model's inputs on a text, from the cache or measured."""
    file = products.spectra_file(products.identity(loaded.source, loaded.folder), text)

    def compute(_stages: Stages) -> tuple[SiteSpectrum, ...]:
        return energy_spectra(loaded.view, read_tokens(text, loaded.tokenizer), reporter)

    def read(path: Path) -> tuple[SiteSpectrum, ...]:
        return _SPECTRA.validate_json(read_file(path, "cache"))

    def save(spectra: tuple[SiteSpectrum, ...], path: Path) -> None:
        write_atomically(path, _SPECTRA.dump_json(spectra))

    return cached(file, "spectra", read, compute, save, loaded.model, reporter)


@dataclass(frozen=True)
class _RotationSearch:
    """The search for a rotation of one model."""

    loaded: LoadedModel
    spec: RotationSpec
    reporter: Reporter
    search: Search

    def of_candidates(self) -> RotationChoice:
        """Compare the candidates that are exact for the model."""
        rotations = [rotation for rotation in auto_candidates(self.spec) if self._is_exact(rotation)]
        text = rotations[-1].text
        tokens = read_tokens(text, self.loaded.tokenizer)
        rows = self._other_rows([text, self.spec.text] if self.spec.objective != "eigen" else [text])
        bases_of_rotations = eigenvector_bases(self.loaded.view, rotations, tokens, self.reporter, self.search)
        candidates = [
            ComparedRotation(rotation, bases) for rotation, bases in zip(rotations, bases_of_rotations, strict=True)
        ]
        compared = self._compare(candidates, rows)
        chosen = best_candidate(compared)
        refined = refined_candidate(self.spec, rotations[chosen])
        if refined is not None:
            bases = self._refined(refined)
            # Without rotation once more: a candidate's change is relative to the first of its comparison.
            more = self._compare([candidates[0], ComparedRotation(refined, bases)], rows)
            candidates.append(ComparedRotation(refined, bases))
            compared = (*compared, more[-1])
            chosen = best_candidate(compared)
        # The first candidate is no rotation and has no bases.
        if rotations[0] != compared[chosen].rotation:
            self._keep(candidates[chosen])
        return self._choice(compared, chosen, rows)

    def by_hand(self) -> RotationChoice:
        """Compare a given rotation with none."""
        view = self.loaded.view
        check_rotation(view, self.spec)
        rows = self._other_rows([self.spec.text] if self.spec.reads_text else [])
        bases: Sequence[LayerBases] | Iterator[LayerBases]
        if self.spec.matrices:
            bases = read_bases(view, self.spec, Path(self.spec.matrices).expanduser())
        elif not self.spec.turns:
            bases = [LayerBases()] * len(view.layers)
        else:
            bases = self._refined(self.spec)
        plain = ComparedRotation(NO_ROTATION, [LayerBases()] * len(view.layers))
        return self._choice(self._compare([plain, ComparedRotation(self.spec, bases)], rows), 1, rows, by_hand=True)

    def _compare(self, candidates: Sequence[ComparedRotation], rows: Tensor) -> tuple[RotationCandidate, ...]:
        return compare_rotations(self.loaded.view, candidates, rows, self.spec.sparsity, self.reporter, self.own_text)

    @cached_property
    def own_text(self) -> Tensor | None:
        """Text sampled from the model; None if its weights are read from files for each token."""
        if self.loaded.view.mapped:
            return None
        self.reporter.stage("text from the model")
        self.reporter.progress(0, 1, "texts")
        return write_own_text(self.loaded, COMPARED_ROWS, COMPARED_SEQUENCE)

    def _choice(
        self, compared: tuple[RotationCandidate, ...], chosen: int, rows: Tensor, *, by_hand: bool = False
    ) -> RotationChoice:
        text = self.spec.text.model_copy(update={"tokens": rows.numel(), "sequence": rows.shape[1]})
        return RotationChoice(
            sparsity=self.spec.sparsity,
            text=text.label,
            candidates=compared,
            chosen=chosen,
            by_hand=by_hand,
            seconds=0.0,
        )

    def _other_rows(self, read: Sequence[TextSpec]) -> Tensor:
        """Return rows that no basis is computed from, of the text that these read."""
        text = self.spec.text.model_copy(
            update={"tokens": COMPARED_ROWS * COMPARED_SEQUENCE, "sequence": COMPARED_SEQUENCE}
        )
        return read_other_tokens(text, read, self.loaded.tokenizer)

    def _is_exact(self, rotation: RotationSpec) -> bool:
        if not rotation.is_identity and shortcut_parameters(self.loaded.model):
            return False
        try:
            check_rotation(self.loaded.view, rotation)
        except WinaError:
            return False
        return True

    def _refined(self, rotation: RotationSpec) -> list[LayerBases]:
        """Return the bases of a rotation from the cache, or else find and keep them."""
        view, file = self.loaded.view, bases_file(self.loaded, rotation)

        def read(path: Path) -> list[LayerBases]:
            return list(read_bases(view, rotation, path, path.stem))

        stored = read_cached(file, "basis", read, self.reporter)
        if stored is not None:
            return stored
        search = Search(self.reporter, file.with_suffix(products.STAGES_SUFFIX))
        tokens = read_tokens(rotation.text, self.loaded.tokenizer) if rotation.reads_text else None
        bases = list(choose_bases(view, rotation, tokens, self.reporter, search))
        self._keep(ComparedRotation(rotation, bases), search)
        return bases

    def _keep(self, candidate: ComparedRotation, search: Search | None = None) -> None:
        """Store the bases of a rotation in the file that rotating the model reads."""
        search = search or self.search
        file = bases_file(self.loaded, candidate.rotation)
        if file.exists():
            return
        matrices: dict[str, Tensor] = {}
        for _ in copy_bases(iter(candidate.bases), candidate.rotation, matrices):
            pass
        record = BasesRecord(
            seconds=search.seconds,
            dense_residuals=layer_energies(self.loaded.view, self.reporter),
            refinement=tuple(search.steps),
        )
        products.remember_seconds(file.stem, record.seconds)
        if write_cached(file, "basis", lambda path: save_matrices(matrices, path, path.stem, record), self.reporter):
            search.discard()


# ---- text sampled from a model: a second domain to check a choice on -------------------------------------------------

_SEED = 0


@torch.no_grad()
def write_own_text(loaded: LoadedModel, rows: int, length: int) -> Tensor:
    """Return rows of text sampled from the dense model at temperature 1, int64 [rows, length] on the CPU.

    The prompt is BOS, or a random token if there is none; rows begin with it only if the tokenizer begins texts
    with it. Equal models write equal text on one machine. Raises WinaError for logits that are not numbers.
    """
    model: Any = loaded.model
    tokens, start = loaded.tokenizer, getattr(loaded.tokenizer, "bos_token_id", None)
    size = min(len(tokens), loaded.view.embedding.weight.shape[0])  # embeddings may have rows of no token
    generator = torch.Generator().manual_seed(_SEED)
    first = torch.randint(size, (rows, 1), generator=generator) if start is None else torch.full((rows, 1), start)
    check_numbers(model(first[:1].to(loaded.device), use_cache=False).logits)
    extra = int(first_token(tokens) is None)  # the prompt, which is no part of the text then
    settings = GenerationConfig(do_sample=True, temperature=1.0, top_k=0, top_p=1.0, pad_token_id=0)
    settings.min_new_tokens = settings.max_new_tokens = length - 1 + extra  # the end of a text ends no row early
    device = loaded.device
    with (
        attributes(model, generation_config=GenerationConfig()),  # the model's own would fill what is not set
        torch.random.fork_rng(devices=[device] if device.type == "cuda" else []),
    ):
        # transformers samples from the global generator.
        torch.manual_seed(_SEED)
        generated: Tensor = model.generate(
            first.to(device), attention_mask=torch.ones_like(first, device=device), generation_config=settings
        )
    return generated[:, extra:].cpu()


# ---- energy spectra of the inputs of gated matrices: how many directions hold most of their energy -------------------

_POINTS = 24
"""Points of a cumulative spectrum, spaced evenly on a logarithmic axis."""


@torch.no_grad()
def energy_spectra(view: ModelView, tokens: Tensor, reporter: Reporter) -> tuple[SiteSpectrum, ...]:
    """Return the cumulative spectrum of the second moment of each gated input of the unrotated model on `tokens` [rows,
    sequence]: of the norms' outputs without gain, and of o's and down's inputs. Experts' inner inputs are left out."""
    moments: dict[SpectrumSite, Tensor] = {}
    scored = ScoredPositions.of(view, tokens)

    def hooks(layer: LayerView) -> Iterator[Any]:
        moments.clear()
        modules: dict[SpectrumSite, nn.Module] = {"attention": layer.attention_norm, "mlp": layer.mlp_norm}
        linears: tuple[SpectrumSite, ...] = ("o", "down")
        modules |= {site: layer.projections[site].linear for site in linears if site in layer.projections}
        for site, module in modules.items():
            yield module.register_forward_pre_hook(partial(_add_moment, moments, scored, site))

    spectra = []
    reporter.stage("spectra of inputs")
    for layer in Passage(view, in_batches(tokens)).layers(reporter, hooks):
        for site in SPECTRUM_SITES:
            if site in moments:
                spectra.append(site_spectrum(layer.index, site, moments[site]))
                reporter.check()
        reporter.progress(layer.index + 1, len(view.layers), "layers")
    return tuple(spectra)


def site_spectrum(layer: int, site: SpectrumSite, moment: Tensor) -> SiteSpectrum:
    """Return the spectrum of a second moment [n, n] at about `_POINTS` counts of directions, those that hold half and
    90 % of the energy, and 90 % of it outside the first direction, among them."""
    values = torch.linalg.eigvalsh(moment).double().clamp(min=0).flip(0)
    shares = (values.cumsum(0) / values.sum().clamp(min=torch.finfo(values.dtype).tiny)).cpu()
    size = len(shares)
    first = float(shares[0])
    counts = {min(int((shares < share).sum()) + 1, size) for share in (0.5, 0.9, first + 0.9 * (1 - first))}
    counts |= {round(size ** (point / (_POINTS - 1))) for point in range(_POINTS)}
    directions = tuple(sorted(counts))
    cumulative = tuple(round(float(shares[count - 1]), 6) for count in directions)
    return SiteSpectrum(layer=layer, site=site, directions=directions, cumulative=cumulative)


def _add_moment(
    moments: dict[SpectrumSite, Tensor],
    scored: ScoredPositions,
    site: SpectrumSite,
    module: nn.Module,
    args: tuple[Tensor],
) -> None:
    x = scored.rows(args[0]).float()
    if site in ("attention", "mlp"):
        x = normalized(module, x)  # a norm's output without its gain, as rotated matrices read it
    gram = x.T @ x
    moments[site] = gram if site not in moments else moments[site].add_(gram)
