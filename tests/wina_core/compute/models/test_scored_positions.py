"""BOS begins rows of text where the tokenizer adds it, and no statistic takes its position."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.wina_core.tiny import TEXT, tiny_folder, tiny_loaded, tiny_model, tiny_text, tiny_tokenizer
from wina_core.compute.allocation.cells import AllocationSubject, Cells, PlanCandidate, cells_of
from wina_core.compute.allocation.divergence import Divergence, Journal
from wina_core.compute.calibration import calibrate
from wina_core.compute.evaluation import measure_fidelity
from wina_core.compute.evaluation.original import ReferenceFile, make_reference, measure_original
from wina_core.compute.gating import Gates, attach
from wina_core.compute.models.architectures import view
from wina_core.compute.models.loading import LoadedModel, load_tokenizer
from wina_core.compute.models.quantize import quantize
from wina_core.compute.models.text_tokens import first_token, read_tokens, read_tokens_and_bytes
from wina_core.compute.quantization.inputs import mean_squares, output_sensitivities, second_moments, sites_of
from wina_core.compute.reporter import NullReporter
from wina_core.compute.rotation.sites import measure_sites
from wina_core.compute.rotation.statistics import dense_moments
from wina_core.errors import WinaError
from wina_core.model_info.resolve import adds_bos, resolve
from wina_core.specs import Bits, CalibrationSpec, MethodSpec, ModelSource, TextSpec
from wina_core.specs.plans import UniformSparsity

BOS, HALF, WINA = 256, UniformSparsity(sparsity=0.5), MethodSpec(name="wina")


def loaded_with_bos(family: str = "llama", dtype: torch.dtype = torch.float64) -> LoadedModel:
    """A model whose BOS has an embedding like no other token's."""
    model = tiny_model(family, dtype=dtype)
    model.get_input_embeddings().weight[BOS] = 50.0
    return LoadedModel(ModelSource(location=family), model, tiny_tokenizer(bos=True), view(model))


def inputs_of(loaded: LoadedModel, rows: Tensor, name: str, layer: int = 1) -> Tensor:
    """The inputs of a projection, [rows, sequence, n]."""
    inputs = []
    linear = loaded.view.layers[layer].projections[name].linear
    hook = linear.register_forward_pre_hook(lambda _, args: inputs.append(args[0].detach()))
    with torch.no_grad():
        loaded.model(rows)
    hook.remove()
    return inputs[0]


@torch.no_grad()
def dense_and_gated(loaded: LoadedModel, gates: Gates, rows: Tensor, scored: slice) -> tuple[Tensor, Tensor]:
    """Return log probabilities at the scored positions, without gates and with them."""
    gated = loaded.model(rows).logits.log_softmax(-1)[:, scored]
    with gates.removed():
        return loaded.model(rows).logits.log_softmax(-1)[:, scored], gated


def divergence_of(dense: Tensor, gated: Tensor) -> float:
    return float((dense.exp() * (dense - gated)).sum(-1).mean())


def test_rows_begin_with_bos_and_then_have_the_texts_own_tokens(text: TextSpec) -> None:
    plain, with_bos = tiny_tokenizer(), tiny_tokenizer(bos=True)
    rows, counts = read_tokens_and_bytes(text, with_bos)
    assert torch.equal(rows, read_tokens(text, with_bos))
    assert rows.shape == (4, 64)
    assert rows[:, 0].tolist() == [BOS] * 4
    assert counts[:, 0].tolist() == [0] * 4
    assert counts.sum() == 4 * 63  # one token a byte
    assert torch.equal(rows[0, 1:], read_tokens(text, plain)[0, :63])
    assert BOS not in read_tokens(text, plain)


@pytest.mark.parametrize("bos", [False, True])
def test_the_files_say_whether_the_tokenizer_adds_bos(tmp_path: Path, bos: bool) -> None:
    folder = tiny_folder(tmp_path)
    without = resolve(ModelSource(location=str(folder)))
    tiny_tokenizer(bos=bos).save_pretrained(folder)
    config = folder / "tokenizer_config.json"  # of what it states, the tokenizer itself decides
    config.write_text(config.read_text().rstrip().rstrip("}") + ', "add_bos_token": false}')
    source = resolve(ModelSource(location=str(folder)))
    assert source.bos is adds_bos(folder) is (first_token(load_tokenizer(folder)) is not None) is bos
    assert (without.bos, resolve(ModelSource(location="demo")).bos) == (False, False)
    same_files = source.model_copy(update={"bos": False})
    assert (source.content_hash() == same_files.content_hash()) is not bos  # what was stored without BOS is not reused


@pytest.mark.parametrize("content", ["", '{"post_processor": {"type": "TemplateProcessing"}}', '{"post_processor": 3}'])
def test_a_broken_tokenizer_is_left_to_loading(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content)
    assert adds_bos(tmp_path) is False


def test_fidelity_leaves_out_the_position_of_bos(text: TextSpec) -> None:
    loaded = loaded_with_bos()
    rows = read_tokens(text, loaded.tokenizer)
    with attach(loaded, WINA, HALF) as gates:
        dense, gated = dense_and_gated(loaded, gates, rows, slice(1, None))
        by_metric = {record.metric: record for record in measure_fidelity(loaded, gates, text, 2, NullReporter())}
    likelihoods = gated[:, :-1].gather(-1, rows[:, 2:, None])
    assert by_metric["kl"].value == pytest.approx(divergence_of(dense, gated), rel=1e-9)
    assert by_metric["kl"].n == 4 * 63
    assert by_metric["perplexity"].value == pytest.approx(float((-likelihoods.mean()).exp()), rel=1e-9)
    assert by_metric["bits_per_byte"].value == pytest.approx(float(-likelihoods.mean()) / math.log(2), rel=1e-6)


@pytest.mark.parametrize("bos", [False, True])
def test_second_halves_are_scored_as_llama_perplexity_does(text: TextSpec, tmp_path: Path, bos: bool) -> None:
    loaded = loaded_with_bos() if bos else tiny_loaded(dtype=torch.float64)
    halves = text.model_copy(update={"scored": "second_half"})
    rows = read_tokens(halves, loaded.tokenizer)
    make_reference(loaded, rows, 2, NullReporter(), tmp_path / "reference")
    with attach(loaded, WINA, HALF) as gates:
        dense, gated = dense_and_gated(loaded, gates, rows, slice(32, 63))
        fidelity = measure_fidelity(loaded, gates, halves, 2, NullReporter())
        reference = ReferenceFile(tmp_path / "reference")
        original = measure_original(loaded, gates, reference, 2, NullReporter(), scored="second_half")
        whole = measure_original(loaded, gates, reference, 2, NullReporter())
    perplexity = float((-gated.gather(-1, rows[:, 33:, None]).mean()).exp())
    for records, rel in ((fidelity, 1e-9), (original, 1e-3)):
        by_metric = {record.metric: record for record in records}
        assert (by_metric["kl"].n, by_metric["perplexity"].n) == (4 * 31, 4 * 31)
        assert by_metric["kl"].value == pytest.approx(divergence_of(dense, gated), rel=rel)
        assert by_metric["perplexity"].value == pytest.approx(perplexity, rel=1e-6)
    assert original[0].prompt_hash != whole[0].prompt_hash  # their rows are other documents
    assert halves.content_hash() != text.content_hash()
    assert "second halves" in halves.label


@pytest.mark.parametrize("family", ["llama", "gpt_neox"])
def test_moments_leave_out_bos(text: TextSpec, family: str) -> None:
    loaded = loaded_with_bos(family)
    rows = read_tokens(text, loaded.tokenizer)
    x = inputs_of(loaded, rows, "o").double()[:, 1:].flatten(0, 1)
    expected = x.T @ x / len(x)
    moments = [dict(layer_moments) for layer_moments in second_moments(loaded.view, rows, NullReporter())][1]
    squares = mean_squares(loaded.view, rows, NullReporter())
    linear = loaded.view.layers[1].projections["o"].linear
    assert torch.allclose(moments[linear].double(), expected, rtol=1e-4, atol=1e-6)
    assert torch.allclose(squares[linear].double(), expected.diagonal(), rtol=1e-4)
    stream = [moment for _, moment in dense_moments(loaded.view, rows, NullReporter())][1]
    assert float(stream.attention.trace()) == pytest.approx(4 * 63 * loaded.view.hidden_size, rel=1e-3)  # normalized


def test_experts_leave_out_bos(text: TextSpec) -> None:
    loaded = loaded_with_bos("mixtral")
    rows = read_tokens(text, loaded.tokenizer)
    squares = mean_squares(loaded.view, rows, NullReporter())
    moments = [dict(layer_moments) for layer_moments in second_moments(loaded.view, rows, NullReporter())][1]
    calls: dict[int, list[Tensor]] = {}

    def read(expert: int, module: torch.nn.Module, args: tuple[Tensor]) -> None:
        text_tokens = module.positions % 64 >= 1
        calls.setdefault(expert, []).append(args[0][text_tokens])

    layer = loaded.view.layers[1]
    hooks = [
        expert.module.register_forward_pre_hook(lambda module, args, number=expert.expert: read(number, module, args))
        for expert in layer.experts
    ]
    with torch.no_grad():
        loaded.model(rows)
    for hook in hooks:
        hook.remove()
    for site in sites_of(layer):
        if site.expert in calls and site.name.endswith("gate"):
            x = torch.cat(calls[site.expert])
            linear = next(iter(site.linears))
            assert torch.allclose(squares[linear].double(), x.square().sum(0) / (4 * 63), rtol=1e-4, atol=1e-9)
            assert torch.allclose(moments[linear].double(), x.T @ x / (4 * 63), rtol=1e-4, atol=1e-6)
    assert all(
        torch.isfinite(sensitivities).all()
        for sensitivities in output_sensitivities(loaded.view, rows, NullReporter()).values()
    )


@pytest.mark.parametrize("bits", ["int8", "int4"])
def test_a_quantized_model_scores_the_positions_of_the_model_that_it_was(bits: Bits) -> None:
    loaded = loaded_with_bos(dtype=torch.float32)
    assert loaded.view.first_scored == 1
    quantize(loaded, bits, NullReporter())
    assert loaded.view.first_scored == 1


def test_sensitivities_are_of_predictions_after_bos(text: TextSpec) -> None:
    loaded = loaded_with_bos()
    rows = read_tokens(text, loaded.tokenizer)
    everything = replace(loaded.view, first_scored=0)
    linear = loaded.view.layers[1].projections["o"].linear
    ours = output_sensitivities(loaded.view, rows, NullReporter())[linear]
    assert not torch.allclose(ours, output_sensitivities(everything, rows, NullReporter())[linear], rtol=1e-3)
    sites = measure_sites(loaded.view, stream=True, heads=True, tokens=rows, reporter=NullReporter())
    assert {len(site.inputs) for site in sites} == {4 * 63}


def test_thresholds_are_quantiles_without_bos(text: TextSpec) -> None:
    loaded = loaded_with_bos()
    rows = read_tokens(text, loaded.tokenizer)
    calibration = calibrate(loaded, MethodSpec(name="teal"), CalibrationSpec(text=text), NullReporter())
    scores = inputs_of(loaded, rows, "o")[:, 1:].abs().flatten()
    column = loaded.view.projections.index("o")
    assert calibration.threshold(1, column, 0.5) == pytest.approx(float(scores.quantile(0.5)), rel=0.02)
    assert calibration.threshold(1, column, 0.95) == pytest.approx(float(scores.quantile(0.95)), rel=0.02)
    assert calibration.tokens == 4 * 63


def test_an_allocators_divergence_leaves_out_bos(text: TextSpec) -> None:
    loaded = loaded_with_bos()
    rows = read_tokens(text, loaded.tokenizer)
    cells: Cells = cells_of(loaded.view.layout, WINA)
    divergence = Divergence(AllocationSubject(loaded, WINA), cells, rows, Journal(None, NullReporter()), NullReporter())
    (value,) = divergence.measure([PlanCandidate((0.5,) * len(cells.blocks))], None, lambda _: None)
    with attach(loaded, WINA, HALF) as gates:
        assert value == pytest.approx(divergence_of(*dense_and_gated(loaded, gates, rows, slice(1, None))), rel=1e-6)


# ---- texts as rows of tokens -----------------------------------------------------------------------------------------


def test_rows_are_spread_evenly_over_the_text(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()  # one token a character of this text
    blocks = [TEXT[start : start + 48] for start in range(0, len(TEXT) - 47, 48)]
    tokens = read_tokens(TextSpec(source=tiny_text(tmp_path), tokens=200, sequence=48), tokenizer)
    assert tokens.shape == (4, 48)
    expected = [blocks[row * len(blocks) // 4] for row in range(4)]
    assert [tokenizer.decode(row) for row in tokens] == expected


def test_byte_counts_add_up_to_the_text(tmp_path: Path) -> None:
    line = "naïve Ω → 🙂\n"
    length = len(line.encode())  # the tiny tokenizer has one token a byte
    spec = TextSpec(source=tiny_text(tmp_path, line * 60), tokens=20 * 2 * length, sequence=2 * length)
    counts = read_tokens_and_bytes(spec, tiny_tokenizer())[1]
    assert counts.shape == (20, 2 * length)
    assert counts.min() >= 0
    assert counts.sum(1).tolist() == [2 * length] * 20


def test_tokens_are_those_with_bytes_also_of_a_tokenizer_that_truncates(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.enable_truncation(16)
    spec = TextSpec(source=tiny_text(tmp_path), tokens=200, sequence=48)
    assert read_tokens(spec, tokenizer).equal(read_tokens_and_bytes(spec, tiny_tokenizer())[0])


def test_only_the_beginning_of_a_huge_text_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = TextSpec(source=tiny_text(tmp_path, TEXT), tokens=128, sequence=64)
    tokenizer = tiny_tokenizer()
    tokens = read_tokens(spec, tokenizer)
    tiny_text(tmp_path, TEXT + "something else" * 5000)
    assert not read_tokens(spec, tokenizer).equal(tokens)
    monkeypatch.setattr("wina_core.compute.models.text_tokens._LONGEST", len(TEXT))
    assert read_tokens(spec, tokenizer).equal(tokens)


@pytest.mark.parametrize(
    ("tokens", "sequence", "message"),
    [
        (4096, 64, "has 2,720 tokens, but 4,096 were requested; choose fewer tokens or a longer text"),
        (64, 128, "64 tokens do not fill one row of 128; choose more tokens or shorter rows"),
        (64, 16, "is not UTF-8; save it in that encoding"),
    ],
)
def test_texts_that_give_no_rows_are_refused(tmp_path: Path, tokens: int, sequence: int, message: str) -> None:
    text = Path(tiny_text(tmp_path))
    if "UTF-8" in message:
        text.write_bytes("é".encode("latin-1") * 500)
    with pytest.raises(WinaError, match=message):
        read_tokens(TextSpec(source=str(text), tokens=tokens, sequence=sequence), tiny_tokenizer())
