"""The table of tuned divisions of work that ships."""

import json
from pathlib import Path

import pytest
import torch

pytest.importorskip("triton", reason="Triton ships for Linux alone")
from wina_kernels.gpu import tiles
from wina_kernels.gpu.tiles import TILES, Config, Tile
from wina_kernels.weights import QuantizedWeight

CASE = tiles.ProductCase("sm_90", inputs=4096, outputs=6144, rows=1, bits=16, most_shares=64)
FIRST, SECOND = (Config(tile, 8) for tile in TILES[16][1][:2])


def entry(dropped: float, config: Config = FIRST, case: tiles.ProductCase = CASE) -> tiles.TunedConfig:
    return tiles.TunedConfig(case, dropped, config, "a card")


def test_the_entry_of_the_nearest_sparsity_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "tuned.json"
    tiles.write_entries([entry(0.4, FIRST), entry(0.65, SECOND)], file)
    assert tiles.read_entries(file) == [entry(0.4, FIRST), entry(0.65, SECOND)]
    assert tiles.shipped(CASE, 0.5, file) == FIRST
    assert tiles.shipped(CASE, 0.6, file) == SECOND
    assert tiles.shipped(CASE, 0.2, file) is None
    assert tiles.shipped(tiles.ProductCase("sm_90", 4096, 6144, 2, 16, 64), 0.4, file) is None


def test_new_entries_replace_those_of_the_same_case(tmp_path: Path) -> None:
    file = tmp_path / "tuned.json"
    other = tiles.ProductCase("gfx942", 4096, 6144, 1, 16, 64)
    tiles.write_entries([entry(0.4), entry(0.4, case=other)], file)
    assert tiles.shipped(CASE, 0.4, file) == FIRST
    tiles.write_entries([entry(0.4, SECOND)], file)
    assert tiles.shipped(CASE, 0.4, file) == SECOND, "what was read before is not kept"
    assert tiles.shipped(other, 0.4, file) == FIRST


def test_an_entry_whose_tile_does_not_ship_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tuned.json"
    strange = entry(0.5, Config(Tile(24, 8, 1), 8)).line
    file.write_text(json.dumps({"entries": [strange]}), encoding="utf-8")
    with pytest.raises(ValueError, match="does not ship"):
        tiles.read_entries(file)


def test_the_table_that_ships_is_whole() -> None:
    entries = tiles.read_entries()
    assert len(entries) == len(json.loads(tiles.FILE.read_text(encoding="utf-8"))["entries"])


def test_the_case_of_a_product() -> None:
    codes, scale = torch.zeros(64, 48, dtype=torch.uint8), torch.ones(1, 48)
    weight_t = QuantizedWeight.of(codes, scale, None, 64, 4)
    assert tiles.case_of(weight_t, 3, 64) == tiles.ProductCase(
        "", inputs=64, outputs=48, rows=4, bits=4, most_shares=64
    )
    assert tiles.case_of(torch.zeros(64, 48), 1, 16) == tiles.ProductCase("", 64, 48, 1, 32, 16)
