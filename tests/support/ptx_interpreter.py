"""An interpreter of PTX in NumPy: all threads of some blocks at once, an instruction at a time, with what no device would tell.

    machine = Machine(ptx)
    statistics = machine.launch("kernel", grid, threads, buffers, numbers)      # arrays, one a pointer parameter; written in place

Lanes that wait at a branch go on where the program counter is lowest, so any control flow works. Found are: accesses outside of a buffer,
unaligned ones, reads of what nothing wrote, barriers that not all threads reach, and races: two threads, at least one of which writes, at
the same place with no barrier between them (in shared memory, and in global memory within a block), or in different blocks of a launch.
Counted are instructions, 32-byte sectors that warps ask for (against the fewest they could), and conflicts of banks of shared memory.

Arithmetic is IEEE's, as that of the device is for every instruction with `.rn`; those that approximate are refused.
"""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import llvmlite.binding as llvm
import numpy as np

SPACING = 40
"""Bits of an offset in a buffer: buffer number n begins at address (n + 1) << SPACING."""

WARP, SECTOR, BANKS = 32, 32, 32
"""Lanes of a warp, bytes that memory moves at once, banks of shared memory."""

TYPES = {"f32": np.float32, "f64": np.float64, "b8": np.uint8, "u8": np.uint8, "s8": np.int8, "b16": np.uint16, "u16": np.uint16,
         "s16": np.int16, "b32": np.uint32, "u32": np.uint32, "s32": np.int32, "b64": np.uint64, "u64": np.uint64, "s64": np.int64}
REGISTERS = {"pred": np.bool_, "b8": np.uint8, "b16": np.uint16, "b32": np.uint32, "b64": np.uint64}
COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}


class PTXError(Exception):
    """What no device would tell, or an instruction that this interpreter does not have."""


@dataclass
class Function:
    """A kernel: parameters, registers by prefix, shared memory, instructions and the places of labels."""

    name: str
    parameters: list[str]
    registers: dict[str, tuple[type, int]] = field(default_factory=dict)
    shared: dict[str, tuple[int, int]] = field(default_factory=dict)       # name: offset, bytes
    shared_bytes: int = 0
    code: list[tuple[str, str, bool, list[str], str]] = field(default_factory=list)    # opcode, predicate, negated, operands, line
    labels: dict[str, int] = field(default_factory=dict)


@dataclass
class Statistics:
    """Counts of a launch, which speed follows from."""

    instructions: Counter = field(default_factory=Counter)      # a warp's instructions, by opcode
    bytes_asked: int = 0
    sectors: int = 0
    bank_conflicts: int = 0                                     # further passes through shared memory
    barriers: int = 0

    @property
    def sector_efficiency(self) -> float:
        """Bytes asked for, as a share of the bytes that memory moves for them."""
        return self.bytes_asked / max(1, SECTOR * self.sectors)


def parse(text: str) -> tuple[dict[str, Function], dict[str, np.ndarray]]:
    """The kernels of a module, and its tables of constants."""
    text = re.sub(r"//[^\n]*", "", re.sub(r"/\*.*?\*/", "", text, flags=re.S))
    tables: dict[str, np.ndarray] = {}
    table = r"\.(?:global|const)\s+\.align\s+\d+\s+\.(b\d+|f\d+|u\d+)\s+([\w$.]+)(?:\[(\d+)\])?\s*=\s*(?:\{([^}]*)\}|([^;]+));"
    for match in re.finditer(table, text):
        items = (match[4] or match[5]).split(",")
        bits = "b" + match[1][1:]
        tables[match[2]] = np.array([number(item.strip(), bits) for item in items], TYPES[bits]).view(np.uint8)
    functions = {}
    for match in re.finditer(r"\.entry\s*()([\w$.]+)\s*\(([^)]*)\)([^{};]*)\{", text, re.S):
        depth, end = 1, match.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        parameters = re.findall(r"([\w$.]+)\s*(?:,|$|\[)", re.sub(r"\s+", " ", match[3]).strip())
        f = Function(match[2], [p for p in parameters if "param" in p])
        body(f, text[match.end():end - 1])
        functions[f.name] = f
    return functions, tables


def body(f: Function, text: str) -> None:
    text = re.sub(r"\bmma[^;]*;", lambda match: " ".join(match[0].split()), text.replace("\t", " "))       # of several lines
    for raw in re.split(r"(?<=[;:])|(?<=\n)", text):
        line = raw.strip().rstrip(";").strip()
        if not line or line in "{}":
            continue
        if line.endswith(":"):
            f.labels[line[:-1]] = len(f.code)
        elif line.startswith(".reg"):
            match = re.match(r"\.reg \.(\w+) +(%\w+)<(\d+)>", line)
            if match:
                f.registers[match[2]] = (REGISTERS[match[1]], int(match[3]))
        elif line.startswith(".shared"):
            match = re.match(r"\.shared \.align (\d+) \.b8 ([\w$.]+)\[(\d+)\]", line)
            start = -(-f.shared_bytes // int(match[1])) * int(match[1])
            f.shared[match[2]] = start, int(match[3])
            f.shared_bytes = start + int(match[3])
        elif not line.startswith("."):
            match = re.match(r"(?:@(!?)(%p\d+) +)?([\w.]+) *(.*)", line, re.S)
            operands = [part.strip() for part in re.findall(r"\{[^}]*\}|\([^)]*\)|\[[^\]]*\]|[^,\s{}()\[\]]+", match[4])]
            f.code.append((match[3], match[2] or "", match[1] == "!", operands, line))


def number(text: str, type: str) -> int:
    """The bits of a number in PTX: those of floats are hexadecimal."""
    return int(text[2:], 16) if text.startswith(("0f", "0d")) else int(text, 0) % (1 << int(type[1:]))


@cache
def _fma():
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    text = "".join(f"""
declare {t} @llvm.fma.{n}({t}, {t}, {t})
define void @fma_{n}(ptr %a, ptr %b, ptr %c, ptr %d, i64 %count) {{
  br label %l
l:
  %i = phi i64 [0, %0], [%j, %l]
  %pa = getelementptr {t}, ptr %a, i64 %i
  %pb = getelementptr {t}, ptr %b, i64 %i
  %pc = getelementptr {t}, ptr %c, i64 %i
  %pd = getelementptr {t}, ptr %d, i64 %i
  %x = load {t}, ptr %pa
  %y = load {t}, ptr %pb
  %z = load {t}, ptr %pc
  %r = call {t} @llvm.fma.{n}({t} %x, {t} %y, {t} %z)
  store {t} %r, ptr %pd
  %j = add i64 %i, 1
  %more = icmp ult i64 %j, %count
  br i1 %more, label %l, label %e
e:
  ret void
}}""" for t, n in (("float", "f32"), ("double", "f64")))
    machine = llvm.Target.from_default_triple().create_target_machine(features="+fma", opt=2)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    prototype = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4, ctypes.c_int64)
    made = {n: prototype(engine.get_function_address(f"fma_{n}")) for n in ("f32", "f64")}
    made["engine"] = engine
    return made


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray, type: str) -> np.ndarray:
    """`a * b + c`, rounded once."""
    a, b, c = (np.ascontiguousarray(np.broadcast_to(x, np.broadcast_shapes(a.shape, b.shape, c.shape))) for x in (a, b, c))
    out = np.empty_like(a)
    _fma()[type](a.ctypes.data, b.ctypes.data, c.ctypes.data, out.ctypes.data, a.size)
    return out


class Machine:
    """The kernels of a module of PTX."""

    def __init__(self, ptx: str):
        self.functions, self.tables = parse(ptx)

    def launch(self, name: str, grid: int, threads: int, buffers: Sequence[np.ndarray], numbers: Sequence[int] = (), *,
               written: Sequence[bool] | None = None, blocks_at_once: int = 16, initialised: Sequence[bool] | None = None) -> Statistics:
        """Run a launch on `buffers`; `written`: which of them the kernel may write; `initialised`: which hold something before."""
        count = len(buffers)
        memory = [b.reshape(-1).view(np.uint8) for b in buffers] + list(self.tables.values())
        self.memory = memory
        self.may_write = [*(written or [True] * count), *[False] * len(self.tables)]
        held = [*(initialised or [True] * count), *[True] * len(self.tables)]
        self.known = [np.full(len(m), bool(i), np.bool_) for m, i in zip(memory, held, strict=True)]
        self.writer = [np.full(-(-len(m) // 4), -1, np.int64) for m in memory]      # block * 2^20 + thread of who wrote a word last
        self.write_epoch = [np.zeros(-(-len(m) // 4), np.int64) for m in memory]
        self.reader = [np.full(-(-len(m) // 4), -1, np.int64) for m in memory]
        self.read_epoch = [np.zeros(-(-len(m) // 4), np.int64) for m in memory]
        self.table_place = {n: (count + i + 1) << SPACING for i, n in enumerate(self.tables)}
        self.statistics = Statistics()
        f = self.functions[name]
        for first in range(0, grid, blocks_at_once):
            blocks = np.arange(first, min(grid, first + blocks_at_once))
            given = [*((i + 1) << SPACING for i in range(count)), *numbers]
            _Run(self, f, blocks, threads, dict(zip(f.parameters, map(np.uint64, given), strict=True))).run()
        return self.statistics


class _Run:
    """Some blocks of a launch. Lane = block * threads + thread."""

    def __init__(self, machine: Machine, f: Function, blocks: np.ndarray, threads: int, parameters: Mapping[str, np.uint64]):
        self.m, self.f, self.blocks, self.threads = machine, f, blocks, threads
        self.lanes = len(blocks) * threads
        self.tid = np.tile(np.arange(threads, dtype=np.uint32), len(blocks))
        self.ctaid = np.repeat(blocks.astype(np.uint32), threads)
        self.who = (np.repeat(blocks, threads).astype(np.int64) << 20) + self.tid
        self.row = np.repeat(np.arange(len(blocks)), threads)
        self.registers: dict[str, np.ndarray] = {}
        self.pc = np.zeros(self.lanes, np.int64)
        self.parameters = parameters
        self.epoch = np.zeros(self.lanes, np.int64)
        size = max(f.shared_bytes, 1)
        self.shared = np.zeros((len(blocks), size), np.uint8)
        self.shared_known = np.zeros((len(blocks), size), np.bool_)
        words = -(-size // 4)
        self.shared_writer, self.shared_reader = np.full((2, len(blocks), words), -1, np.int64)
        self.shared_write_epoch, self.shared_read_epoch = np.zeros((2, len(blocks), words), np.int64)

    def run(self) -> None:
        """Run until all lanes have returned. Lanes go on where the program counter is lowest."""
        end = len(self.f.code)
        done, waiting, held = np.zeros((3, self.lanes), np.bool_)   # held: at a shuffle that lanes of the warp are still to reach
        while True:
            ready = ~done & ~waiting & ~held
            if not ready.any():
                if done.all():
                    return
                if held.any():
                    raise PTXError(f"{self.f.name}: a shuffle or product that some lanes of the warp do not reach\n"
                                   f"    at: {self.f.code[self.pc[held][0]][4]}")
                self.release(done, waiting)
                continue
            pc = int(self.pc[ready].min())
            if pc >= end:
                raise PTXError(f"{self.f.name}: the end without ret")
            mask = ready & (self.pc == pc)
            opcode, predicate, negated, operands, line = self.f.code[pc]
            if opcode.startswith(("shfl", "mma")):
                mask = ~done & ~waiting & (self.pc == pc)
                whole = np.repeat(mask.reshape(-1, WARP).all(1), WARP)
                held = (held | mask) & ~whole
                mask &= whole
                if not mask.any():
                    continue
            runs = mask
            if predicate:
                p = self.read(predicate, "pred")
                runs = mask & (~p if negated else p)
            self.m.statistics.instructions[opcode] += len(np.unique(runs.nonzero()[0] // WARP)) if runs.any() else 0
            self.pc[mask] = pc + 1
            kind = opcode.partition(".")[0]
            if kind == "bra":
                self.pc[runs] = self.f.labels[operands[0]]
            elif kind == "ret":
                done |= runs
            elif kind in ("bar", "barrier"):
                waiting |= runs
            elif runs.any():
                try:
                    self.step(opcode, operands, runs, line)
                except PTXError as error:
                    raise PTXError(f"{self.f.name}: {error}\n    at: {line}") from None

    def release(self, done: np.ndarray, waiting: np.ndarray) -> None:
        by_block = waiting.reshape(len(self.blocks), self.threads)
        if not by_block.all(1)[by_block.any(1)].all():
            raise PTXError(f"{self.f.name}: a barrier that some threads of the block do not reach")
        places = self.pc[waiting].reshape(-1, self.threads)
        if (places != places[:, :1]).any():
            raise PTXError(f"{self.f.name}: threads of a block wait at different barriers")
        self.epoch[waiting] += 1
        self.m.statistics.barriers += int(by_block.any(1).sum())
        waiting[:] = False

    # -- operands

    def read(self, text: str, type: str) -> np.ndarray:
        if text.startswith("%"):
            if text in ("%tid.x", "%ctaid.x"):
                return self.tid if text == "%tid.x" else self.ctaid
            value = self.registers.get(text)
            if value is None:
                prefix = re.match(r"%[a-z]+", text)[0]
                value = self.registers[text] = np.zeros(self.lanes, self.f.registers[prefix][0])
            return value if type == "pred" else self.seen(value, type)
        if text in self.m.table_place:
            return np.full(self.lanes, self.m.table_place[text], np.uint64)
        if text in self.f.shared:
            return np.full(self.lanes, self.f.shared[text][0], np.uint64)
        if type == "pred":
            return np.full(self.lanes, text not in ("0", "false"), np.bool_)
        return self.seen(np.full(self.lanes, number(text, "b" + type[1:]), TYPES["b" + type[1:]]), type)

    @staticmethod
    def seen(value: np.ndarray, type: str) -> np.ndarray:
        wanted = np.dtype(TYPES[type])
        if value.dtype.itemsize == wanted.itemsize:
            return value.view(wanted)
        return value.astype(f"u{wanted.itemsize}").view(wanted)

    def write(self, name: str, value: np.ndarray, mask: np.ndarray) -> None:
        if name == "_":
            return
        prefix = re.match(r"%[a-z]+", name)[0]
        dtype = np.dtype(self.f.registers[prefix][0])
        if dtype != np.bool_:
            value = np.broadcast_to(value, (self.lanes,))
            if value.dtype.itemsize == dtype.itemsize:
                value = np.ascontiguousarray(value).view(dtype)
            else:
                value = value.astype(f"i{dtype.itemsize}" if value.dtype.kind == "i" else dtype).view(dtype)
        if mask.all():
            self.registers[name] = np.array(value, copy=True)
            return
        old = self.registers.get(name)
        if old is None:
            old = np.zeros(self.lanes, dtype)
        self.registers[name] = np.where(mask, value, old)

    # -- instructions

    def step(self, opcode: str, operands: list[str], mask: np.ndarray, line: str) -> None:
        parts = opcode.split(".")
        kind, type = parts[0], parts[-1]
        read, write = self.read, self.write
        if any(part in ("approx", "ftz") for part in parts):
            raise PTXError("an instruction that approximates")
        with np.errstate(all="ignore"):
            if kind in ("ld", "st"):
                self.memory(parts, operands, mask)
            elif kind == "shfl":
                self.shuffle(operands, mask)
            elif kind == "mma":
                self.product_of_warp(parts, operands, mask)
            elif kind == "mov":
                self.move(operands, type, mask)
            elif kind == "setp":
                write(operands[0], self.compare(parts[1], read(operands[1], type), read(operands[2], type)), mask)
            elif kind == "selp":
                write(operands[0], np.where(read(operands[3], "pred"), read(operands[1], type), read(operands[2], type)), mask)
            elif kind == "cvt":
                write(operands[0], self.narrow(parts, *(read(o, type) for o in operands[1:])) if parts[-2] in ("tf32", "bf16x2")
                      else self.convert(parts, read(operands[1], type)), mask)
            elif kind == "fma":
                write(operands[0], fma(*(read(o, type) for o in operands[1:]), type), mask)
            elif kind == "mad":
                a, b, c = (read(o, type) for o in operands[1:])
                if "wide" in parts:
                    wide = TYPES[f"{type[0]}64"]
                    c = read(operands[3], f"{type[0]}64")
                    write(operands[0], a.astype(wide) * b.astype(wide) + c, mask)
                else:
                    write(operands[0], a * b + c, mask)
            elif kind == "mul" and "wide" in parts:
                wide = TYPES[f"{type[0]}64"]
                write(operands[0], read(operands[1], type).astype(wide) * read(operands[2], type).astype(wide), mask)
            elif kind == "mul" and "hi" in parts:
                write(operands[0], _high_product(read(operands[1], type), read(operands[2], type)), mask)
            elif kind == "bfe":
                value, start, length = (read(o, t) for o, t in zip(operands[1:], (type, "u32", "u32"), strict=True))
                ones = ((np.ones(1, value.dtype) << length.astype(value.dtype)) - 1).astype(value.dtype)
                write(operands[0], (value >> start.astype(value.dtype)) & ones, mask)
            elif kind in ("shl", "shr"):
                value, by = read(operands[1], type), read(operands[2], "u32")
                bits = 8 * value.dtype.itemsize
                small = np.minimum(by, bits - 1).astype(value.dtype)
                shifted = value << small if kind == "shl" else value >> small
                beyond = 0 if value.dtype.kind != "i" or kind == "shl" else value >> (bits - 1)
                write(operands[0], np.where(by >= bits, beyond, shifted).astype(value.dtype), mask)
            else:
                function = {
                    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": _divide, "rem": np.fmod,
                    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "not": lambda a: ~a,
                    "neg": lambda a: -a, "abs": np.abs, "sqrt": np.sqrt, "rcp": lambda a: a.dtype.type(1) / a,
                    "copysign": lambda a, b: np.copysign(b, a), "min": np.minimum if "NaN" in parts or type[0] != "f" else np.fmin,
                    "max": np.maximum if "NaN" in parts or type[0] != "f" else np.fmax}.get(kind)
                if function is None:
                    raise PTXError(f"{opcode} is not there yet")
                write(operands[0], function(*(read(o, type) for o in operands[1:])), mask)

    @staticmethod
    def compare(relation: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        if a.dtype.kind != "f":
            return COMPARE[{"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(relation, relation)](a, b)
        unordered = np.isnan(a) | np.isnan(b)
        if relation in ("num", "nan"):
            return unordered if relation == "nan" else ~unordered
        if relation in COMPARE:
            return COMPARE[relation](a, b) & ~unordered
        return COMPARE[relation[:-1]](a, b) | unordered

    @staticmethod
    def convert(parts: list[str], x: np.ndarray) -> np.ndarray:
        target = np.dtype(TYPES[parts[-2]])
        rounding = next((p for p in parts[1:-2] if p in ("rni", "rmi", "rpi", "rzi")), "")
        if rounding:
            x = {"rni": np.rint, "rmi": np.floor, "rpi": np.ceil, "rzi": np.trunc}[rounding](x)
        if x.dtype.kind == "f" and target.kind in "iu":
            info = np.iinfo(target)
            low, high = np.float64(info.min), np.float64(info.max)
            inside = np.where(np.isnan(x), 0, np.clip(x.astype(np.float64), low, high))
            top = x.astype(np.float64) >= high
            return np.where(top, info.max, np.where(top, 0, inside).astype(target))
        return x.astype(target)

    @staticmethod
    def narrow(parts: list[str], *numbers: np.ndarray) -> np.ndarray:
        """float32 in fewer digits: 11, ties to the larger by size; or two in 8 digits, ties to even, the second in the lower half."""
        words = []
        for x in numbers:
            bits = x.view(np.uint32).astype(np.uint64)
            if parts[-2] == "tf32":
                rounded = np.where(np.isinf(x), bits, (bits + 0x1000) & ~np.uint64(0x1fff))
                words.append(np.where(np.isnan(x), 0x7fffe000, rounded))
            else:
                rounded = (bits + 0x7fff + (bits >> np.uint64(16) & np.uint64(1))) >> np.uint64(16)
                words.append(np.where(np.isnan(x), 0x7fff, rounded))
        return (words[0] if len(words) == 1 else words[0] << np.uint64(16) | words[1]).astype(np.uint32)

    def product_of_warp(self, parts: list[str], operands: list[str], mask: np.ndarray) -> None:
        """D = A B + C of 16 rows and 8 columns, 8 words along the inner index; the terms are added in their order. (Fragments of a lane:
        PTX manual, "Matrix Fragments for mma.m16n8k8" and "mma.m16n8k16".)"""
        names = [[name.strip() for name in operand[1:-1].split(",")] for operand in operands]
        kind, warps = parts[parts.index("f32") + 1], self.lanes // WARP
        a, b = (np.stack([self.read(name, "b32") for name in group]).reshape(len(group), warps, WARP) for group in names[1:3])
        c = np.stack([self.read(name, "f32") for name in names[3]])
        lane = np.arange(WARP)
        line, number = lane // 4, lane % 4
        total = c.reshape(4, warps, WARP)
        if kind == "tf32" and ((a & 0x1fff).any() or (b & 0x1fff).any()):
            raise PTXError("a factor of more than 11 digits")
        for word in range(8):
            half, of = divmod(word, 4)
            left = [a[2 * half + down][:, 4 * line + of] for down in range(2)]
            right = [b[half][:, 4 * (2 * number + across) + of] for across in range(2)]
            for part in range(1 if kind == "tf32" else 2):
                x, y = ([self.numbers_of(kind, word, part) for word in side] for side in (left, right))
                total = np.stack([fma(x[k // 2], y[k % 2], total[k], "f32") for k in range(4)])
        for name, value in zip(names[0], total.reshape(4, self.lanes), strict=True):
            self.write(name, value, mask)

    @staticmethod
    def numbers_of(kind: str, words: np.ndarray, part: int) -> np.ndarray:
        bits = words if kind == "tf32" else words & np.uint32(0xffff0000) if part else words << np.uint32(16)
        return np.ascontiguousarray(bits).view(np.float32)

    def move(self, operands: list[str], type: str, mask: np.ndarray) -> None:
        target, source = operands
        if source.startswith("{"):
            pieces = [p.strip() for p in source[1:-1].split(",")]
            bits = int(type[1:]) // len(pieces)
            whole = TYPES[f"u{type[1:]}"]
            total = sum(self.read(p, f"u{bits}").astype(whole) << np.array(i * bits, whole) for i, p in enumerate(pieces))
            self.write(target, total, mask)
        elif target.startswith("{"):
            pieces = [p.strip() for p in target[1:-1].split(",")]
            bits = int(type[1:]) // len(pieces)
            value = self.read(source, f"u{type[1:]}")
            for i, piece in enumerate(pieces):
                self.write(piece, (value >> np.array(i * bits, value.dtype)).astype(TYPES[f"u{bits}"]), mask)
        else:
            self.write(target, self.read(source, type), mask)

    def shuffle(self, operands: list[str], mask: np.ndarray) -> None:
        value, distance = self.read(operands[1], "b32"), self.read(operands[2], "b32")
        self.write(operands[0].partition("|")[0], value[np.arange(self.lanes) ^ distance], mask)

    # -- memory

    def memory(self, parts: list[str], operands: list[str], mask: np.ndarray) -> None:
        storing, space, type = parts[0] == "st", parts[1], parts[-1]
        place, register = (operands[0], operands[1]) if storing else (operands[1], operands[0])
        names = [n.strip() for n in register[1:-1].split(",")] if register.startswith("{") else [register]
        base, _, offset = re.match(r"\[([^+\]]+)(\+?)(-?\d+)?\]", place).groups()
        offset = int(offset or 0)
        if space == "param":
            self.write(names[0], np.full(self.lanes, self.parameters[base], np.uint64), mask)
            return
        dtype = np.dtype(TYPES["b" + type[1:]])
        size = dtype.itemsize * len(names)
        address = self.read(base, "u64").astype(np.int64) + offset
        lanes = mask.nonzero()[0]
        address = address[lanes]
        if (address % size).any():
            raise PTXError(f"an access of {size} bytes that is not aligned: lane {lanes[(address % size).argmax()]}")
        if space == "shared":
            self.count_banks(address, lanes, size)
        else:
            self.count_sectors(address, lanes, size)
        values = [self.read(n, type).view(dtype)[lanes] for n in names] if storing else []
        for index, name in enumerate(names):
            where = address + index * dtype.itemsize
            if space == "shared":
                got = self.shared_access(where, lanes, dtype, values[index] if storing else None)
            else:
                got = self.global_access(where, lanes, dtype, values[index] if storing else None)
            if not storing:
                full = np.zeros(self.lanes, dtype)
                full[lanes] = got
                self.write(name, full, mask)

    def shared_access(self, where, lanes, dtype, values):
        rows, block_bytes = self.row[lanes], self.shared.shape[1]
        if len(where) and (where.min() < 0 or where.max() + dtype.itemsize > block_bytes):
            raise PTXError(f"shared memory has {block_bytes} bytes: an access at {where.max()}")
        self.check_races(where // 4, self.shared_writer, self.shared_write_epoch, self.shared_reader, self.shared_read_epoch, rows, lanes,
                         values is not None, "shared memory")
        spread = where[:, None] + np.arange(dtype.itemsize)
        if values is None:
            if not self.shared_known[rows[:, None], spread].all():
                raise PTXError("a read of shared memory that nothing wrote")
            return np.ascontiguousarray(self.shared[rows[:, None], spread]).view(dtype)[:, 0]
        self.shared[rows[:, None], spread] = np.ascontiguousarray(values[:, None]).view(np.uint8)
        self.shared_known[rows[:, None], spread] = True
        return None

    def global_access(self, where, lanes, dtype, values):
        buffers, starts = (where >> SPACING) - 1, where & ((1 << SPACING) - 1)
        got = np.zeros(len(where), dtype)
        for number in np.unique(buffers):
            if not 0 <= number < len(self.m.memory):
                raise PTXError(f"an address that belongs to no buffer: {where[buffers == number][0]:#x}")
            some = (buffers == number).nonzero()[0]
            place, memory = starts[some], self.m.memory[number]
            if place.max() + dtype.itemsize > len(memory):
                lane = lanes[some][place.argmax()]
                raise PTXError(f"buffer {number} has {len(memory)} bytes: an access at {place.max()}, by lane {lane}")
            if values is not None and not self.m.may_write[number]:
                raise PTXError(f"a write to buffer {number}, which is only read")
            words = place // 4
            self.check_races(words, self.m.writer[number], self.m.write_epoch[number], self.m.reader[number], self.m.read_epoch[number],
                             None, lanes[some], values is not None, f"buffer {number}")
            spread = place[:, None] + np.arange(dtype.itemsize)
            if values is None:
                if not self.m.known[number][spread].all():
                    raise PTXError(f"a read of buffer {number} where nothing was written")
                got[some] = np.ascontiguousarray(memory[spread]).view(dtype)[:, 0]
            else:
                memory[spread] = np.ascontiguousarray(values[some][:, None]).view(np.uint8)
                self.m.known[number][spread] = True
        return got

    def check_races(self, words, writer, write_epoch, reader, read_epoch, rows, lanes, writes, what) -> None:
        index = words if rows is None else (rows, words)
        who, epoch = self.who[lanes], self.epoch[lanes]
        if writes:
            keys = np.stack([words, rows if rows is not None else np.zeros_like(words)])
            if np.unique(keys, axis=1).shape[1] != len(words):
                raise PTXError(f"two lanes write one place of {what}")
        for other, when in ((writer[index], write_epoch[index]), *([(reader[index], read_epoch[index])] if writes else [])):
            another = (other >= 0) & (other != who)
            unordered = another & ((other >> 20 != who >> 20) | (when == epoch))
            if unordered.any():
                lane = unordered.argmax()
                raise PTXError(f"a race in {what}: block {who[lane] >> 20}, thread {who[lane] & 0xfffff} "
                               f"{'writes' if writes else 'reads'} what block {other[lane] >> 20}, thread {other[lane] & 0xfffff} used "
                               "with no barrier between them")
        if writes:
            writer[index], write_epoch[index] = who, epoch
        else:
            reader[index], read_epoch[index] = who, epoch

    def count_sectors(self, address, lanes, size) -> None:
        warps = lanes // WARP
        first, last = address // SECTOR, (address + size - 1) // SECTOR
        keys = np.concatenate([np.stack([warps, first]), np.stack([warps, last])], axis=1)
        self.m.statistics.sectors += np.unique(keys, axis=1).shape[1]
        unique = np.unique(np.stack([warps, address]), axis=1).shape[1]
        self.m.statistics.bytes_asked += unique * size

    def count_banks(self, address, lanes, size) -> None:
        words = np.unique(np.stack([lanes // WARP, address // 4]), axis=1)
        warps, = np.unique(words[0:1], axis=1)
        most = 0
        for warp in warps:
            bank = words[1][words[0] == warp] % BANKS
            most += max(0, int(np.bincount(bank).max()) - max(1, size // 4))
        self.m.statistics.bank_conflicts += most


def _high_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The upper half of the bits of products."""
    bits = 8 * a.dtype.itemsize
    return ((a.astype(object) * b.astype(object)) >> bits).astype(a.dtype)


def _divide(a, b):
    return a / b if a.dtype.kind == "f" else np.where(b == 0, 0, a // np.where(b == 0, 1, b)).astype(a.dtype)
