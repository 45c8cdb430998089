"""Reads the text that `printer.print_graph` writes: `parse(print_graph(g)) == g`.

So passes are tested, and run from the command line, on small graphs in text form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from adjit.ir.definition import DEFINITIONS, OpDefinition
from adjit.ir.errors import Location, ParseError, Role
from adjit.ir.graph import PARAM_ROLES, SLOT_SPACES, Graph, Op, Slot, Value
from adjit.ir.types import SHORT_NAMES, TensorType

_TOKEN = re.compile(r"""
    (?P<comment>\#\s.*)
  | (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<value>%[A-Za-z_0-9][\w.]*)
  | (?P<symbol>@[^\s(]+)
  | (?P<bytes>0x(?:[0-9a-f]{2})*)
  | (?P<number>[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|inf\b))
  | (?P<word>[A-Za-z_][\w.]*)
  | (?P<punctuation>->|[@(){}\[\],:=+])
""", re.VERBOSE)
_LOCATION = re.compile(r"(?P<file>.+):(?P<line>\d+) in (?P<function>.+)\Z")
_ROLES = {role.value: role for role in Role}


def parse(text: str, definitions: Mapping[str, OpDefinition] = DEFINITIONS) -> Graph:
    """Graph that `text` describes; raises `ParseError` with line, column and a caret.

    >>> print(parse("graph @twice(%x: f32[2]) {\\n  %y: f32[2] = add %x, %x\\n  return %y\\n}"))
    <Graph twice: 1 params, 1 ops, 1 results>
    """
    return _Parser(text, definitions).whole()


class _Parser:
    def __init__(self, text: str, definitions: Mapping[str, OpDefinition]):
        self.lines = text.splitlines()
        self.definitions = definitions
        self.row = -1
        self.tokens: list[tuple[str, str, int]] = []
        self.position = 0
        self.comment = ""
        self.next_line()

    # -- lines and tokens

    def next_line(self) -> None:
        """Go to the next line that holds tokens; `//` lines are notes."""
        while self.row + 1 < len(self.lines):
            self.row += 1
            text = self.lines[self.row]
            if text.lstrip().startswith("//"):
                continue
            self.tokens, self.position = self.tokenize(text), 0
            last = self.tokens.pop() if self.tokens and self.tokens[-1][0] == "comment" else None
            self.comment = last[1][1:].strip() if last else ""
            if self.tokens:
                return
        self.row = len(self.lines)
        self.tokens, self.position, self.comment = [], 0, ""

    def tokenize(self, text: str) -> list[tuple[str, str, int]]:
        tokens: list[tuple[str, str, int]] = []
        column = 0
        while column < len(text):
            if text[column].isspace():
                column += 1
                continue
            match = _TOKEN.match(text, column)
            if match is None:
                raise self.error("unexpected character", column)
            tokens.append((str(match.lastgroup), match.group(), column))
            column = match.end()
        return tokens

    def error(self, message: str, column: int | None = None) -> ParseError:
        if self.row >= len(self.lines):
            return ParseError(f"end of text: {message}")
        if column is None:
            column = self.tokens[self.position][2] if self.position < len(self.tokens) else len(self.lines[self.row])
        return ParseError(f"line {self.row + 1}, column {column + 1}: {message}\n{self.lines[self.row]}\n{' ' * column}^")

    def peek(self) -> str:
        return self.tokens[self.position][1] if self.position < len(self.tokens) else ""

    def take(self, kind: str, what: str) -> str:
        if self.position >= len(self.tokens) or self.tokens[self.position][0] != kind:
            raise self.error(f"expected {what}")
        self.position += 1
        return self.tokens[self.position - 1][1]

    def size(self, what: str) -> int:
        """Parse a number that is neither signed nor fractional."""
        text = self.take("number", what)
        if not text.isdecimal():
            self.position -= 1
            raise self.error(f"expected {what}")
        return int(text)

    def accept(self, text: str) -> bool:
        if self.peek() != text:
            return False
        self.position += 1
        return True

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.error(f"expected '{text}'")

    def end_line(self) -> None:
        if self.position < len(self.tokens):
            raise self.error("expected the end of the line")
        self.next_line()

    # -- grammar

    def whole(self) -> Graph:
        graph = self.graph()
        if self.tokens:
            raise self.error("expected the end of the text")
        return graph

    def graph(self) -> Graph:
        if self.take("word", "'graph'") != "graph":
            self.position -= 1
            raise self.error("expected 'graph'")
        name = self.take("symbol", "a name that starts with '@'")[1:]
        scope: dict[str, Value] = {}
        params: list[Value] = []
        roles: list[str] = []
        self.expect("(")
        while not self.accept(")"):
            if params:
                self.expect(",")
            params.append(self.declare(scope))
            roles.append("input")
            if self.peek() not in (",", ")"):
                roles[-1] = self.take("word", "a role, ',' or ')'")
                if roles[-1] not in PARAM_ROLES:
                    self.position -= 1
                    raise self.error(f"unknown role (one of {', '.join(PARAM_ROLES)})")
        self.expect("{")
        self.end_line()
        ops: list[Op] = []
        while self.peek() != "return":
            if not self.tokens:
                raise self.error("expected 'return'")
            ops.append(self.op(scope))
        self.expect("return")
        results = self.values(scope)
        self.end_line()
        self.expect("}")
        self.end_line()
        return Graph(name, tuple(params), tuple(ops), results, tuple(roles))

    def op(self, scope: dict[str, Value]) -> Op:
        loc, role = self.location()
        declared: list[tuple[str, TensorType, int]] = []
        slots: list[Slot] = []
        while self.peek().startswith("%"):
            column = self.tokens[self.position][2]
            name = self.take("value", "a value")[1:]
            self.expect(":")
            declared.append((name, self.type(), column))
            if self.accept("@"):
                slots.append(self.slot())
            self.expect("," if self.peek() == "," else "=")
        name = self.take("word", "the name of an op")
        if name not in self.definitions:
            self.position -= 1
            raise self.error(f"unknown op '{name}'")
        operands = self.values(scope)
        if self.accept("scratch"):
            self.expect("@")
            slots.append(self.slot())
        attrs = self.attributes() if self.accept("{") else {}
        regions: list[Graph] = []
        if self.accept("["):
            self.end_line()
            while self.peek() == "graph":
                regions.append(self.graph())
            self.expect("]")
        results = []
        for result, type, column in declared:
            if result in scope:
                raise self.error(f"%{result} is defined twice", column)
            scope[result] = Value(type, None if result.isdigit() else result)
            results.append(scope[result])
        self.end_line()
        return Op(self.definitions[name], operands, tuple(results), attrs, tuple(regions), loc, role, tuple(slots))

    def location(self) -> tuple[Location | None, Role]:
        text, role = self.comment, Role.PRIMAL
        head, _, tail = text.rpartition(", ")
        if tail in _ROLES:
            text, role = head, _ROLES[tail]
        found = _LOCATION.match(text)
        return (Location(found["file"], int(found["line"]), found["function"]) if found else None), role

    def declare(self, scope: dict[str, Value]) -> Value:
        name = self.take("value", "a value")[1:]
        if name in scope:
            self.position -= 1
            raise self.error(f"%{name} is defined twice")
        self.expect(":")
        scope[name] = Value(self.type(), None if name.isdigit() else name)
        return scope[name]

    def slot(self) -> Slot:
        space = self.take("word", "a memory space")
        if space not in SLOT_SPACES:
            self.position -= 1
            raise self.error(f"unknown memory space (one of {', '.join(SLOT_SPACES)})")
        if self.accept("+"):
            return self.offset_by(Slot(space, self.size("an offset")))
        offset = self.take("number", "'+' and an offset")
        if not re.fullmatch(r"\+\d+", offset):
            self.position -= 1
            raise self.error("expected '+' and an offset")
        return self.offset_by(Slot(space, int(offset)))

    def offset_by(self, slot: Slot) -> Slot:
        """Slot with the byte offset into its buffer, if one follows."""
        return slot.offset_by(self.size("an offset")) if slot.space != "arena" and self.accept(":") else slot

    def type(self) -> TensorType:
        name = self.take("word", "a dtype")
        if name not in SHORT_NAMES:
            self.position -= 1
            raise self.error(f"unknown dtype (one of {', '.join(SHORT_NAMES)})")
        self.expect("[")
        shape: list[int] = []
        while not self.accept("]"):
            if shape:
                self.expect(",")
            shape.append(self.size("a size"))
        return TensorType(SHORT_NAMES[name], tuple(shape))

    def values(self, scope: dict[str, Value]) -> tuple[Value, ...]:
        values: list[Value] = []
        while self.peek().startswith("%") or (values and self.peek() == ","):
            if values:
                self.expect(",")
            name = self.take("value", "a value")[1:]
            if name not in scope:
                self.position -= 1
                raise self.error(f"%{name} is not defined")
            values.append(scope[name])
        return tuple(values)

    def attributes(self) -> dict[str, Any]:
        attrs: dict[str, Any] = {}
        while not self.accept("}"):
            if attrs:
                self.expect(",")
            key = self.take("word", "the name of an attribute")
            if key in attrs:
                self.position -= 1
                raise self.error(f"attribute {key} is given twice")
            self.expect("=")
            attrs[key] = self.attribute()
        return attrs

    def attribute(self) -> Any:
        if self.accept("("):
            items: list[Any] = []
            while not self.accept(")"):
                if items:
                    self.expect(",")
                    if self.accept(")"):
                        break
                items.append(self.attribute())
            return tuple(items)
        if self.position >= len(self.tokens):
            raise self.error("expected an attribute")
        kind, text, _ = self.tokens[self.position]
        self.position += 1
        if kind == "string":
            try:
                return json.loads(text)
            except ValueError:
                self.position -= 1
                raise self.error("a string that cannot be read") from None
        if kind == "bytes":
            return bytes.fromhex(text[2:])
        if kind == "number":
            return int(text) if text.lstrip("+-").isdecimal() else float(text)
        if text == "complex":
            real, imag = self.attribute()
            return complex(real, imag)
        words = {"none": None, "true": True, "false": False, "inf": float("inf"), "nan": float("nan"), **SHORT_NAMES}
        if kind == "word" and text in words:
            return words[text]
        self.position -= 1
        raise self.error("expected an attribute")
