"""Renaming, in place, of the words of schema 0005 and of study files of version 1 in the specs' JSON."""

from collections.abc import Mapping
from typing import Any

Content = dict[str, Any]

OLD_TEXT = {"source": "demo:calibration", "tokens": 49_152}
"""The default text of calibrations."""


def rename_method(method: Content) -> None:
    """Rename the scap of that time to our own variant."""
    if method.get("name") == "scap" and method.get("variant", "paper") == "paper":
        method["variant"] = "own"


def rename_allocator(allocator: Content) -> None:
    """Rename greedy as released to the WINA authors'; clear the variant of other allocators."""
    if allocator.get("variant") == "as_released":
        allocator["variant"] = "wina_released" if allocator.get("name") == "greedy" else "corrected"


def has_thresholds(method: Mapping[str, Any]) -> bool:
    """Return whether a method selects by calibrated thresholds."""
    return bool(method.get("selection", "topk") != "topk")


def rename_run(content: Content) -> None:
    """Rename the fields of a RunSpec or a DecodePoint; its thresholds were those of the dense model."""
    method = content.get("method") or {}
    rename_method(method)
    rename_allocator((content.get("plan") or {}).get("allocator") or {})
    if content.get("calibration") and has_thresholds(method):
        content["calibration"]["thresholds"] = "dense"


def rename_study(content: Content) -> None:
    """Rename the fields of a StudySpec; its thresholds were those of the dense model."""
    configurations = content.get("configurations") or content.get("arms") or ()
    methods = [each.get("method") or {} for each in configurations]
    for method in methods:
        rename_method(method)
    for allocator in content.get("allocators") or ():
        rename_allocator(allocator)
    calibration = content.get("calibration") or {}
    if any(map(has_thresholds, methods)):
        calibration = calibration | {"thresholds": "dense"}
    content["calibration"] = {"text": OLD_TEXT} | calibration
