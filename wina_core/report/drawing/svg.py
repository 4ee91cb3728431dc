"""Rewriting matplotlib's SVG so that simple renderers, such as ImageMagick's own, draw it as browsers do.

matplotlib defines clip paths after their use, repeats markers by reference, rotates texts around a point, and sets
properties in style attributes with a dozen font families. An exported script contains this file, so it imports the
standard library alone.
"""

import copy
import re
from xml.etree import ElementTree

_SVG = "http://www.w3.org/2000/svg"
_LINK = "http://www.w3.org/1999/xlink"
_FAMILIES = "DejaVu Sans, Verdana, Arial, Helvetica, sans-serif"
_DIGITS = re.compile(r"-?\d+\.?\d*(?:e-?\d+)?")
_TURNED = re.compile(r"^rotate\((\S+) (\S+) (\S+)\)$")
_MOVED = re.compile(r"^translate\((\S+) (\S+)\)$")
Area = tuple[float, float, float, float]
"""Left, top, right and bottom."""
_NEAR = 0.5
"""Points by which a path may reach over its clip path's edge without being cut."""


def portable(svg: bytes) -> bytes:
    """Return the same drawing with plain attributes, paths in place of references, and clip paths before their use."""
    ElementTree.register_namespace("", _SVG)
    root = ElementTree.fromstring(svg)
    parents = {child: parent for parent in root.iter() for child in parent}
    for name in ("metadata", "style"):
        for found in list(root.iter(_tag(name))):
            parents[found].remove(found)
    for use in list(root.iter(_tag("use"))):
        _inline(use, root)
    clips = list(root.iter(_tag("clipPath")))
    for clip in clips:
        parents[clip].remove(clip)
    areas = {clip.get("id", ""): _area(clip) for clip in clips}
    for element in root.iter():
        _flatten(element)
        _turn(element)
        _unclip(element, areas)
        if element.tag in (_tag("path"), _tag("text")):
            element.attrib.setdefault("stroke", "none")
    for defined in list(root.iter(_tag("defs"))):
        parents[defined].remove(defined)
    if clips:
        first = ElementTree.Element(_tag("defs"))
        first.extend(clips)
        root.insert(0, first)
    root.set("stroke-linejoin", "round")
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="utf-8") + b"\n"


def _tag(name: str) -> str:
    return f"{{{_SVG}}}{name}"


def _inline(use: ElementTree.Element, root: ElementTree.Element) -> None:
    """Replace a reference to a path by the path at its place."""
    target = use.attrib.pop(f"{{{_LINK}}}href", "#")[1:]
    path = next((found for found in root.iter(_tag("path")) if found.get("id") == target), None)
    if path is None:
        return
    x, y = use.attrib.pop("x", "0"), use.attrib.pop("y", "0")
    style = "; ".join(filter(None, (path.get("style"), use.get("style"))))
    attributes = {key: value for key, value in path.attrib.items() if key not in ("id", "style")}
    use.tag = _tag("path")
    use.attrib |= copy.copy(attributes) | {"transform": f"translate({x} {y})", "style": style}


def _flatten(element: ElementTree.Element) -> None:
    """Replace the style attribute by one attribute for each property, the last one of a name."""
    for part in element.attrib.pop("style", "").split(";"):
        name, _, value = (piece.strip() for piece in part.partition(":"))
        if name:
            element.set(name, _FAMILIES if name == "font-family" else value)


def _turn(element: ElementTree.Element) -> None:
    """Replace a turn around a place by a move to it and a turn."""
    found = _TURNED.match(element.get("transform", ""))
    if found is None:
        return
    angle, x, y = found.groups()
    if float(angle) == 0.0:
        del element.attrib["transform"]
        return
    dx, dy = float(element.get("x", "0")) - float(x), float(element.get("y", "0")) - float(y)
    element.attrib |= {"transform": f"translate({x} {y}) rotate({angle})", "x": f"{dx:g}", "y": f"{dy:g}"}


def _area(clip: ElementTree.Element) -> Area:
    """Return left, top, right and bottom of a clip path, which matplotlib makes of one rectangle."""
    box = clip.find(_tag("rect"))
    if box is None:
        return (0.0, 0.0, 0.0, 0.0)
    left, top, width, height = (float(box.get(name, "0")) for name in ("x", "y", "width", "height"))
    return left, top, left + width, top + height


def _unclip(element: ElementTree.Element, areas: dict[str, Area]) -> None:
    """Remove the clip path of a line that it does not cut, and of markers, which are whole or left out."""
    area = areas.get(element.get("clip-path", "").removeprefix("url(#").removesuffix(")"))
    if area is None:
        return
    places = [(child, _MOVED.match(child.get("transform", ""))) for child in element]
    if element.tag == _tag("g") and all(moved for _, moved in places):
        for child, moved in places:
            if moved and not _within(area, [float(moved[1])], [float(moved[2])]):
                element.remove(child)
        del element.attrib["clip-path"]
    elif element.tag == _tag("path") and not element.get("transform"):
        numbers = [float(number) for number in _DIGITS.findall(element.get("d", ""))]
        if _within(area, numbers[0::2], numbers[1::2]):
            del element.attrib["clip-path"]


def _within(area: Area, across: list[float], down: list[float]) -> bool:
    left, top, right, bottom = area
    return bool(
        across
        and left - _NEAR <= min(across) <= max(across) <= right + _NEAR
        and top - _NEAR <= min(down) <= max(down) <= bottom + _NEAR
    )
