"""Reader of DOT text, as strict as the tests need: every statement is understood, every HTML-like label is well-formed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree

_TOKEN = re.compile(r'\s*(?:(?P<word>[\w.]+)|"(?P<text>(?:[^"\\]|\\.)*)"|(?P<html><)|(?P<mark>->|[{}\[\]=]))', re.DOTALL)


@dataclass
class Picture:
    """Nodes with their attributes, edges (start, end, attributes), the members of each subgraph, and the defaults."""

    name: str
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    edges: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)
    subgraphs: dict[str, list[str]] = field(default_factory=dict)
    attributes: dict[str, dict[str, str]] = field(default_factory=dict)

    def find(self, text: str) -> list[str]:
        """Return the nodes whose label contains `text`."""
        return [node for node, attributes in self.nodes.items() if text in label(attributes)]

    def one(self, text: str) -> str:
        (node,) = self.find(text)
        return node

    def ends(self) -> set[tuple[str, str]]:
        """Edges, by the labels of their two nodes."""
        return {(label(self.nodes[start]), label(self.nodes[end])) for start, end, _ in self.edges}


def label(attributes: dict[str, str]) -> str:
    """Return the text of a label: of an HTML-like one without its tags, lines and cells separated by "|"."""
    text = attributes["label"]
    if not text.startswith("<"):
        return text
    tree = ElementTree.fromstring(f"<label>{text[1:-1]}</label>")
    return re.sub(r"\|+", "|", "|".join("".join(_pieces(tree)).split("\n"))).strip("|")


def read_dot(text: str) -> Picture:
    """Parse a DOT text; raises `ValueError` for other texts."""
    tokens = list(_tokens(text))
    opening = next((number for number, (kind, _) in enumerate(tokens) if kind == "{"), 0)
    if [kind for kind, _ in tokens[:opening]] not in (["name"], ["name", "name"]) or tokens[0][1] != "digraph":
        raise ValueError(f"no digraph: {text[:60]!r}")
    picture = Picture("" if opening == 1 else tokens[1][1])
    rest = _statements(tokens[opening + 1:], picture, None)
    if rest:
        raise ValueError(f"text after the digraph: {rest[:3]}")
    return picture


def _tokens(text: str) -> Any:
    position = 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"no DOT text: {text[position:position + 60]!r}")
        position = match.end()
        if match["html"]:
            depth, start = 1, position
            while depth:
                depth += {"<": 1, ">": -1}.get(text[position], 0)
                position += 1
            html = f"<{text[start:position - 1]}>"
            ElementTree.fromstring(f"<label>{html[1:-1]}</label>")
            yield "html", html
        elif match["mark"]:
            yield match["mark"], match["mark"]
        else:
            yield "name", match["word"] if match["word"] is not None else match["text"].replace('\\"', '"')


def _statements(tokens: list[tuple[str, str]], picture: Picture, inside: str | None) -> list[tuple[str, str]]:
    while tokens:
        (kind, text), tokens = tokens[0], tokens[1:]
        if kind == "}":
            return tokens
        if kind != "name":
            raise ValueError(f"a statement begins with {text!r}")
        if text == "subgraph":
            (_, name), (opening, _), *tokens = tokens
            assert opening == "{"
            picture.subgraphs[name] = []
            tokens = _statements(tokens, picture, name)
        elif tokens[0][0] == "->":
            end, tokens = tokens[1][1], tokens[2:]
            attributes, tokens = _attributes(tokens)
            picture.edges.append((text, end, attributes))
        elif text in ("graph", "node", "edge") or (tokens[0][0] == "="):
            if tokens[0][0] == "=":
                picture.attributes.setdefault(inside or "graph", {})[text] = tokens[1][1]
                tokens = tokens[2:]
                continue
            attributes, tokens = _attributes(tokens)
            key = inside if inside and text == "graph" else text
            picture.attributes.setdefault(key, {}).update(attributes)
        else:
            attributes, tokens = _attributes(tokens)
            if text in picture.nodes:
                raise ValueError(f"node {text} is drawn twice")
            picture.nodes[text] = attributes
            if inside:
                picture.subgraphs[inside].append(text)
    raise ValueError("the digraph is not closed")


def _attributes(tokens: list[tuple[str, str]]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    if not tokens or tokens[0][0] != "[":
        return {}, tokens
    attributes, position = {}, 1
    while tokens[position][0] != "]":
        (_, key), (equals, _), (kind, value) = tokens[position:position + 3]
        assert equals == "="
        assert kind in ("name", "html")
        attributes[key] = value
        position += 3
    return attributes, tokens[position + 1:]


def _pieces(tree: ElementTree.Element) -> Any:
    if tree.tag in ("br", "tr", "td"):
        yield "\n"
    yield tree.text or ""
    for child in tree:
        yield from _pieces(child)
        yield child.tail or ""
