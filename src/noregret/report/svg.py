"""Figures of matplotlib, panel by panel, as SVG elements to stand in a page."""

import re
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree

_SVG, _LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"


def inline(text: str, boxes: Sequence[tuple[float, ...]], name: str, variables: Mapping[str, str]) -> list[str]:
    """The axes of a matplotlib SVG, each as an SVG element for HTML, with ids of their own. boxes: what to show of
    each, in points; variables: colour -> CSS variable."""
    root = ElementTree.fromstring(text)
    groups = [g for g in root.iter(f"{_SVG}g") if re.fullmatch(r"axes_\d+", g.get("id", ""))]
    shared = [d for d in root if d.tag == f"{_SVG}defs"]
    made = []
    for i, (group, box) in enumerate(zip(groups, boxes, strict=True)):
        svg = ElementTree.Element("svg", viewBox=" ".join(f"{v:.1f}" for v in box), focusable="false")
        svg.set("aria-hidden", "true")
        svg.append(group)
        for d in shared if i == len(groups) - 1 else ():
            if len(d):
                svg.append(d)
        for element in svg.iter():
            _tidy(element, name)
        panel = ElementTree.tostring(svg, encoding="unicode")
        for colour, variable in variables.items():
            panel = panel.replace(colour, f"var(--{variable})")
        made.append(re.sub(r">\s+<", "><", panel))
    return made


def _tidy(element: ElementTree.Element, name: str) -> None:
    """No namespaces, fewer digits, ids that no other figure has."""
    element.tag = element.tag.removeprefix(_SVG)
    link = element.attrib.pop(_LINK, None)
    if link is not None:
        element.set("href", f"#{name}-{link[1:]}")
    own = element.attrib.pop("id", None)
    if own is not None and not re.fullmatch(r"[a-z0-9]+_\d+|[a-zA-Z]+\d*_\d+", own):
        element.set("id", f"{name}-{own}")
    for key in ("d", "x", "y", "transform", "width", "height"):
        if key in element.attrib:
            element.set(key, _rounded(element.attrib[key], 1 if key == "d" else 2))
    if "d" in element.attrib:
        element.set("d", " ".join(element.attrib["d"].split()))
    if "clip-path" in element.attrib:
        element.set("clip-path", element.attrib["clip-path"].replace("url(#", f"url(#{name}-"))
    if "style" in element.attrib:
        style = re.sub(r"font: (?:[a-z]+ )?([\d.]+)px [^;]+", r"font-size: \1px", element.attrib["style"])
        element.set("style", style)


def _rounded(text: str, digits: int) -> str:
    return re.sub(r"-?\d+\.\d{2,}", lambda found: f"{float(found[0]):.{digits}f}", text)
