"""Sizes of a search for bases: what a step reads, and the memory and disk that are said before it begins."""

from wina_core.model_info.cost.refinement import sites_per_step


def test_all_sites_are_read_until_a_step_would_take_minutes() -> None:
    sites_read = {sites: sites_per_step(n, sites) for n, sites in ((256, 12), (2048, 44), (3072, 56), (4096, 64))}
    assert sites_read == {12: 12, 44: 44, 56: 31, 64: 15}
    assert sites_per_step(8192, 160) == 4
