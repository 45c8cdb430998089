"""The C header of an exported program."""

from __future__ import annotations

from adjit.codegen.c_library.description import C_TYPES, CArray, CProgram, shape_text
from adjit.codegen.c_library.status import STATUS


def header_text(program: CProgram) -> str:
    """The header, for C11 and C++17. It includes nothing but `<stddef.h>` and `<stdint.h>`."""
    p, up = program.prefix, program.prefix.upper()
    lines = [
        f"/* {program.title}", "", *_usage(program), "*/", "", f"#ifndef {up}_H", f"#define {up}_H", "", "#include <stddef.h>",
        "#include <stdint.h>", "", "#ifdef __cplusplus", 'extern "C" {', "#endif", "",
        "/* Sizes, which the functions below give too. */", f"#define {up}_INPUTS {len(program.inputs)}",
        f"#define {up}_OUTPUTS {len(program.outputs)}", f"#define {up}_ARENA_BYTES {program.arena_bytes}",
        f"#define {up}_ARENA_ALIGNMENT {program.alignment}", ""]
    for kind, arrays in (("INPUT", program.inputs), ("OUTPUT", program.outputs)):
        for index, array in enumerate(arrays):
            lines += _constants(f"{up}_{kind}_{array.identifier}", index, array)
        lines.append("")
    lines += ["/* What the functions return. */", "enum {",
              ",\n".join(f"    {up}_{name} = {number}" for number, (name, _) in enumerate(STATUS)), "};", ""]
    lines += [
        "/* An array, row by row, without gaps. */", f"typedef struct {p}_array {{",
        "    const char *name;       /* as in the Python function: \"params.w1\" */",
        "    const char *dtype;      /* \"f32\", \"f64\", \"i64\", \"bool\" (one byte, 0 or 1), ... */",
        "    int64_t bytes;", "    int64_t rank;", "    const int64_t *shape;",
        "    int64_t written;        /* of inputs: 1 where a run leaves its new content here */",
        "    int64_t input;          /* of outputs: the input whose memory it is, or -1 */",
        f"}} {p}_array;", "",
        "/* Choose the best code that this processor runs. Optional: the first run does it. */", f"int {p}_init(void);", "",
        *_levels(program), f"int {p}_use(int64_t level);", "",
        f"/* Run once. inputs[i] and outputs[i] point to arrays as {p}_input(i) and {p}_output(i) describe them; the pointer of an",
        "   output that is the memory of an input is not read. arena points to working memory. No two of them may overlap, but inputs that",
        "   are only read. Any number of runs may be under way at once, each with an arena and written arrays of its own. */",
        f"int {p}_run(void *const *inputs, void *const *outputs, void *arena);", "",
        "/* What a returned number means, in words. */", f"const char *{p}_error(int status);", "",
        '/* The processor that the code in use is for: "x86-64-v3". NULL before it was chosen. */', f"const char *{p}_level(void);", "",
        f"int64_t {p}_inputs(void);", f"int64_t {p}_outputs(void);", f"int64_t {p}_arena_bytes(void);",
        f"int64_t {p}_arena_alignment(void);", "",
        "/* The description of an array; NULL where there is none of this number. */", f"const {p}_array *{p}_input(int64_t index);",
        f"const {p}_array *{p}_output(int64_t index);", "", "#ifdef __cplusplus", "}", "#endif", "", f"#endif /* {up}_H */", ""]
    return "\n".join(lines)


def _usage(program: CProgram) -> list[str]:
    lines = ["   Inputs:"]
    lines += [f"     {_line(array)}{', written' if array.written else ''}" for array in program.inputs]
    lines += ["   Outputs:"]
    lines += [f"     {_line(array)}" + (f", in the memory of input {program.inputs[array.input].name}" if array.input >= 0 else "")
              for array in program.outputs]
    rows = any(array.has_rows for array in program.inputs)
    return [*lines, "",
            *(["   The input rows says how many rows the arrays [rows] have. Their descriptions have -1 for that length (-2 where a row",
               "   takes two, ...), and the bytes of one row.", ""] if rows else []),
            "   The library allocates nothing, keeps nothing between runs, starts no threads, and calls nothing but memcpy and memset.",
            "   A run works in the arena, and takes some kilobytes of the stack of its thread.",
            *(["   To a run subnormal numbers are zeros; its thread's control word is as before."] if program.flush_subnormals else [])]


def _levels(program: CProgram) -> list[str]:
    names = ", ".join(f"{k}: {name}" for k, name in enumerate(program.levels))
    return [f"/* Choose code by its number, so that results are the same bits on every processor that runs it ({names}). */"]


def _line(array: CArray) -> str:
    return f"{array.name}: {C_TYPES[array.dtype]} {shape_text(array.shape)}"


def _constants(name: str, index: int, array: CArray) -> list[str]:
    of = "_ROW" if array.has_rows else ""
    return [f"#define {name} {index}", f"#define {name}{of}_ELEMENTS {array.elements}", f"#define {name}{of}_BYTES {array.nbytes}"]
