"""The loop that runs a program on one piece of arrays after another, as machine code: a call from Python takes as long as a small piece.

    status = adjit_pieces(program, table, arena, index)

`program` is the address of `adjit_run` of a program. The `table` has words of 8 bytes: the number of pieces of a row, elements of a
piece, elements of a row, number of rows, of arrays, and of parameters among them; then for each array its address, and the bytes from an
element of a row to the next and from a row to the next (0 for what all share); then room for the addresses of a piece. The last piece ends
where the row ends. `index`, if it is not null, gets the numbers of the elements of each piece. The status is that of the first piece that
fails, or 0.
"""

from __future__ import annotations

from adjit.codegen.llvm.builder import Builder
from adjit.codegen.llvm.link import CompiledObject
from adjit.codegen.llvm.object_code import emit_object
from adjit.codegen.llvm.target import TARGETS

SYMBOL = "adjit_pieces"
HEADER, RECORD = 6, 3
"""Words of the table before the arrays, and for each array."""


def piece_loop_text() -> str:
    """The text of the module."""
    text = Builder()
    with text.function(SYMBOL, "ptr %program", "ptr %table", "ptr %arena", "ptr %index", result="i64", linkage=""):
        pieces, chunk, length, rows, arrays, params = (text.load("i64", "%table", 8 * word) for word in range(HEADER))
        records = text.at("%table", 1, 8 * HEADER)
        current = text.at(records, "i64", text.mul(arrays, RECORD))
        results = text.at(current, "i64", params)
        last = text.sub(length, chunk)
        with text.for_range(0, rows, empty=True) as row, text.for_range(0, pieces, empty=True) as piece:
            start = text.smaller(text.mul(piece.counter, chunk), last)
            with text.for_range(0, arrays, empty=True) as array:
                record = text.at(records, "i64", text.mul(array.counter, RECORD))
                moved = text.add(text.mul(start, text.load("i64", record, 8)), text.mul(row.counter, text.load("i64", record, 16)))
                text.store("i64", text.add(text.load("i64", record), moved), text.at(current, "i64", array.counter))
            with text.if_(text.differ("%index", "null")), text.for_range(0, chunk, empty=True) as element:
                text.store("i64", text.add(start, element.counter), text.at("%index", "i64", element.counter))
            status = text.call("i64", "%program", ("ptr", current), ("ptr", results), ("ptr", "%arena"), ("ptr", "null"))
            with text.if_(text.compare("ne", status, 0)):
                text.ret("i64", status)
        text.ret("i64", 0)
    return str(text)


def compile_piece_loop(text: str) -> CompiledObject:
    """Object code of the loop, for x86-64."""
    return CompiledObject(emit_object(text, TARGETS["sse2"], verify=True, promote=True), SYMBOL)
