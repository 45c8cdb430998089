"""Contents of a module of LLVM text: functions and constants, with the facts that other code needs besides their text."""

from __future__ import annotations

from collections.abc import Collection, Sequence

OPTNONE = "noinline nounwind optnone"
"""Attributes of functions that do little besides calling others: LLVM takes half the time for such functions, and they run as fast."""

DISPATCH = f'{OPTNONE} "glue"'
"""Attributes of callers without a loop, or with a loop of long iterations, which need no registers: LLVM takes an eighth of the time if
such callers are a module of their own."""

FUNCTION_LINES = 20
"""Cost of a function to LLVM besides its lines, in lines."""


class Definition:
    """A constant, or another definition without code: its text, and the names of the functions and constants whose address it holds."""

    __slots__ = ("_text", "name", "uses")

    def __init__(self, name: str, text: str, uses: Collection[str] = ()):
        self.name, self._text, self.uses = name, text, frozenset(uses)

    @property
    def text(self) -> str:
        return self._text

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Definition) and self.name == other.name and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def is_metadata(self) -> bool:
        """True if the definition belongs to the module, whichever function names it."""
        return self.name.startswith("!")

    @property
    def is_dispatch(self) -> bool:
        return False

    @property
    def cost(self) -> int:
        """Cost of the function to LLVM, in lines."""
        return self.text.count("\n") + 1

    def renamed(self, old: str, new: str) -> Definition:
        """The same definition under another name. Names that begin with `old` change with it."""
        return Definition(_renamed(self.name, old, new), self.text.replace(f"@{old}", f"@{new}"), _all_renamed(self.uses, old, new))


class Function(Definition):
    """A function: its head; its body, as one text, since single lines would take several times the memory; and the names of the functions
    and constants that it calls or takes the address of. `returned` is the operand of the last line's `ret`, which is the only `ret` unless
    the function `returns_early`.
    """

    __slots__ = ("attributes", "body", "linkage", "parameters", "result", "returned", "returns_early")

    def __init__(self, name: str, parameters: str, lines: Sequence[str], *, result: str = "void", returned: str | None = None,
                 linkage: str = "internal", attributes: str = "nounwind", uses: Collection[str] = (),
                 returns_early: bool = False):
        super().__init__(name, "", uses)
        self.parameters, self.result, self.linkage, self.attributes = parameters, result, linkage, attributes
        self.body = "\n".join([*lines, ""])
        self.returned, self.returns_early = returned, returns_early

    @property
    def text(self) -> str:
        if not self._text:
            end = "" if self.returned is None else f"  ret {self.returned}\n"
            self._text = f"define {self.head(self.linkage)} {{\nentry:\n{self.body}{end}}}"
        return self._text

    @property
    def lines(self) -> list[str]:
        return self.body.split("\n")[:-1]

    def head(self, linkage: str) -> str:
        """The text of a definition or declaration behind the keyword and `linkage`."""
        return " ".join(filter(None, (linkage, self.result, f"@{self.name}({self.parameters})", self.attributes)))

    @property
    def hidden(self) -> str:
        """The definition with hidden visibility, for functions that another module calls."""
        return self.text.replace("define internal ", "define hidden ", 1)

    @property
    def declaration(self) -> str:
        """The `declare` line for modules that call the function."""
        return f"declare {self.head('hidden' if self.linkage == 'internal' else self.linkage)}"

    @property
    def is_dispatch(self) -> bool:
        return self.attributes == DISPATCH

    @property
    def cost(self) -> int:
        return self.text.count("\n") + 1 + FUNCTION_LINES

    def changed(self, lines: Sequence[str] | None = None, attributes: str | None = None) -> Function:
        """The same function with another body, or other attributes."""
        return Function(self.name, self.parameters, self.lines if lines is None else lines, result=self.result, returned=self.returned,
                        linkage=self.linkage, attributes=self.attributes if attributes is None else attributes, uses=self.uses,
                        returns_early=self.returns_early)

    def renamed(self, old: str, new: str) -> Function:
        uses, body = _all_renamed(self.uses, old, new), self.body
        if self.uses.difference(uses):
            body = body.replace(f"@{old}", f"@{new}")
        return Function(_renamed(self.name, old, new), self.parameters, [body[:-1]] if body else [], result=self.result,
                        returned=self.returned, linkage=self.linkage, attributes=self.attributes, uses=uses,
                        returns_early=self.returns_early)


def _renamed(name: str, old: str, new: str) -> str:
    return new + name[len(old):] if name.startswith(old) else name


def _all_renamed(names: Collection[str], old: str, new: str) -> list[str]:
    return [_renamed(name, old, new) for name in names]
