"""Matrix products of our own: every orientation and odd size on every target, against NumPy in float64, and nothing around is touched."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import re
import sys
from collections.abc import Iterable
from dataclasses import replace

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.native_steps import some

from adjit.codegen.gemm.lower import SYMBOL, ProductCode, ProductText, compile_product, lower_product, write_product
from adjit.codegen.gemm.plan import K_ALIGN, plan_product
from adjit.codegen.gemm.product import Product, dense_product
from adjit.codegen.llvm.link import LoadedKernel, load
from adjit.codegen.llvm.module import Definition
from adjit.codegen.llvm.target import TARGETS, Target, host_targets, machine

pytestmark = pytest.mark.skipif(not host_targets(), reason="products are written for x86-64")

DTYPES = {"f32": np.float32, "f64": np.float64}
COMPLEX = {"f32": np.complex64, "f64": np.complex128}
ORIENTATIONS = list(itertools.product((False, True), repeat=2))
on_every_target = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
GAP = 7.25      # what lies between and behind the elements of C


def require(target: Target) -> None:
    if target not in host_targets():
        pytest.skip(f"this processor is not {target.name}")


def entry(code: ProductCode) -> ctypes._CFuncPtr:
    """The product as a C function; LLVM's verifier has seen it."""
    llvm.parse_assembly(code.text).verify()
    kernel = load(compile_product(code))
    return function_at(kernel.address, kernel)


def function_at(address: int, kernel: LoadedKernel) -> ctypes._CFuncPtr:
    """A C function, with what keeps its code."""
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64, ctypes.c_int64)(address)
    function.kernel = kernel
    return function


_lowered: dict[tuple[Product, Target], tuple[ProductText, ctypes._CFuncPtr]] = {}


def load_together(products: Iterable[Product], target: Target) -> None:
    """Compile products as one module: LLVM takes milliseconds for a module, and products share most of their kernels."""
    written = {product: write_product(product, target) for product in products if (product, target) not in _lowered}
    if not written:
        return
    shared: dict[str, Definition] = {}
    own: list[Definition] = []
    for number, one in enumerate(written.values()):
        for name, function in one.shared.items():
            assert shared.setdefault(name, function) == function, f"two texts of {name}"
        own += [definition.renamed(SYMBOL, f"product{number}") for definition in one.with_scratch().values()]
    addresses = ", ".join(f"ptr @product{number}" for number in range(len(written)))
    declarations = sorted({line for one in written.values() for line in one.declarations})
    text = "\n".join([*declarations, *map(str, shared.values()), *map(str, own),
                      f"@{SYMBOL} = constant [{len(written)} x ptr] [{addresses}]", ""])
    llvm.parse_assembly(text).verify()
    kernel = load(compile_product(ProductCode(next(iter(written.values())).plan, target, text)))
    for (product, one), address in zip(written.items(), (ctypes.c_void_p * len(written)).from_address(kernel.address), strict=True):
        _lowered[product, target] = one, function_at(address, kernel)


def lowered(product: Product, target: Target) -> tuple[ProductText, ctypes._CFuncPtr]:
    """The product in LLVM text, and as a C function."""
    load_together([product], target)
    return _lowered[product, target]


def matrices(count: int, rows: int, columns: int, row: int, dtype: type, seed: int) -> np.ndarray:
    """Random matrices whose rows lie `row` elements apart, with NaN in the gaps."""
    whole = np.full((count, rows, max(row, columns)), np.nan, dtype)
    rng = np.random.default_rng(seed)
    whole[:, :, :columns] = rng.standard_normal((count, rows, columns))
    if np.iscomplexobj(whole):
        whole[:, :, :columns] += 1j * rng.standard_normal((count, rows, columns))
    return whole[:, :, :columns]


def tolerance(inner: int, dtype: str) -> float:
    """For sums of products of standard normal numbers: some times the spread of their rounding errors."""
    return (inner + 1) ** 0.5 * (1e-5 if dtype == "f32" else 3e-14)


def check(product: Product, target: Target, cuts: tuple[int, ...] = (1, 3)) -> np.ndarray:
    """Run the product in that many ranges of its tasks; the result of each is near that of float64, and nothing else is written."""
    p, (dtypes, wide) = product, (DTYPES, "f8") if product.conjugates is None else (COMPLEX, "c16")
    dtype = dtypes[p.dtype]
    rows, columns = p.rows // p.unit, p.columns // p.unit
    a = matrices(p.batch, *((p.inner, rows) if p.transpose_a else (rows, p.inner)), p.lda, dtype, 1)
    b = matrices(p.batch, *((columns, p.inner) if p.transpose_b else (p.inner, columns)), p.ldb, dtype, 2)
    exact = np.matmul(*(np.conj(x) if conj else x for x, conj in zip((
        (a.swapaxes(1, 2) if p.transpose_a else a).astype(wide), (b.swapaxes(1, 2) if p.transpose_b else b).astype(wide)),
        p.conjugates or (False, False), strict=True)))
    exact = exact + GAP if p.adds else exact
    code, function = lowered(product, target)
    results = []
    for cut in cuts:
        memory = np.full(64 + p.batch * rows * p.ldc + 64, GAP, dtype)
        c = memory[64:-64].reshape(p.batch, rows, p.ldc)
        for i in range(cut):
            low, high = (code.plan.tasks * n // cut for n in (i, i + 1))
            function(a.ctypes.data, b.ctypes.data, c.ctypes.data, low, high)
        assert np.abs(c[:, :, :columns] - exact).max(initial=0) <= tolerance(p.inner, p.dtype), (p, code.plan)
        assert (memory[:64] == GAP).all(), (p, code.plan)
        assert (memory[-64:] == GAP).all(), (p, code.plan)
        assert (c[:, :, columns:] == GAP).all(), (p, code.plan)
        results.append(c[:, :, :columns].copy())
    assert all(result.tobytes() == results[0].tobytes() for result in results), (p, code.plan)
    return results[0]


def check_all(products: Iterable[Product], target: Target, cuts: tuple[int, ...] = (1, 3)) -> None:
    """As `check`, of products that are compiled as one module."""
    products = list(products)
    load_together(products, target)
    for product in products:
        check(product, target, cuts)


SHAPES = [(1, 1, 1), (1, 65, 9), (2, 3, 7), (3, 2, 1), (7, 1, 31), (8, 8, 8), (9, 16, 15), (15, 7, 2), (16, 33, 17), (17, 15, 63),
          (31, 9, 33), (33, 100, 3), (63, 17, 16), (64, 64, 64), (65, 31, 32), (100, 63, 65), (1, 100, 100), (100, 32, 1), (4, 0, 5),
          (32, 8, 100)]


@pytest.mark.share(2)
@on_every_target
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("transpose_a", "transpose_b"), ORIENTATIONS)
def test_sizes(target: Target, dtype: str, transpose_a: bool, transpose_b: bool, exhaustive: bool) -> None:
    require(target)
    shapes = some(SHAPES, target, exhaustive, ORIENTATIONS.index((transpose_a, transpose_b)) + (dtype == "f64"))
    check_all((dense_product(*shape, dtype, transpose_a, transpose_b) for shape in shapes), target)


@pytest.mark.parametrize(("transpose_a", "transpose_b"), ORIENTATIONS)
def test_added_to_what_is_there(transpose_a: bool, transpose_b: bool) -> None:
    """One row, one column, a column of tiles, a small product, several blocks of k whose sums continue in C or not, packed operands."""
    shapes = [(1, 9, 40), (40, 9, 1), (64, 16, 24), (9, 5, 7), (70, 260, 33), (20, 800, 16)]
    check_all((replace(dense_product(*shape, "f64", transpose_a, transpose_b), adds=True) for shape in shapes), host_targets()[-1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("transpose_a", "transpose_b"), ORIENTATIONS)
def test_large_sizes(dtype: str, transpose_a: bool, transpose_b: bool) -> None:
    """B is copied, k is cut, in parts that are chained (up to 1024) and in parts that are added."""
    shapes = (128, 784, 96), (65, 1100, 50), (2, 1200, 70), (200, 300, 520)
    check_all((dense_product(*shape, dtype, transpose_a, transpose_b) for shape in shapes), host_targets()[0])


@on_every_target
@pytest.mark.parametrize(("transpose_a", "transpose_b"), ORIENTATIONS)
def test_batches(target: Target, transpose_a: bool, transpose_b: bool) -> None:
    require(target)
    shapes = (2, (3, 4, 5)), (3, (40, 10, 20)), (9, (5, 6, 7)), (5, (16, 300, 40)), (3, (20, 30, 1))
    check_all((dense_product(*shape, "f32", transpose_a, transpose_b, batch) for batch, shape in shapes), target, cuts=(1, 2, 5))


@on_every_target
@pytest.mark.parametrize(("transpose_a", "transpose_b"), ORIENTATIONS)
def test_rows_with_gaps(target: Target, transpose_a: bool, transpose_b: bool) -> None:
    """Parts of wider matrices; one column of C among others is written by itself."""
    require(target)
    check_all((Product(rows, inner, columns, "f64", transpose_a, transpose_b,
                       (rows if transpose_a else inner) + 3, (inner if transpose_b else columns) + 5, columns + 2)
               for rows, inner, columns in ((5, 6, 7), (20, 33, 1), (1, 70, 9), (40, 30, 50))), target)


@on_every_target
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transpose_b", [False, True])
def test_columns_of_a_whose_rows_are_far_apart(target: Target, dtype: str, transpose_b: bool, exhaustive: bool) -> None:
    """They are copied in blocks, in the parts that k is cut into; the bits are those of the same product from nearby rows."""
    require(target)
    cases = (1, 120, 150, 130), (1, 61, 901, 150), (9, 10, 5, 144), (2, 30, 17, 144)
    products = []
    for batch, rows, inner, columns in some(cases, target, exhaustive, transpose_b + (dtype == "f64")):
        near = dense_product(rows, inner, columns, dtype, True, transpose_b, batch)
        products.append((near, replace(near, lda=700, batch_stride_a=inner * 700)))
    load_together(itertools.chain.from_iterable(products), target)
    for near, far in products:
        plan = lowered(far, target)[0].plan
        assert (plan.a, lowered(near, target)[0].plan.a) == ("copied", "in place")
        assert plan.axis == ("batch" if near.batch > 8 else "rows")
        assert check(far, target, cuts=(1, 2, 5)).tobytes() == check(near, target).tobytes()


@on_every_target
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(("dtype", "rows", "inner"), [("f32", 1201, 461), ("f32", 1201, 601), ("f64", 407, 1501)])
def test_rows_of_a_large_a_are_copied(target: Target, dtype: str, rows: int, inner: int, transpose_b: bool) -> None:
    """Where registers are few; the bits are those of its first rows alone, which are read in place, though their rows are far apart."""
    require(target)
    large = replace(dense_product(rows, inner, 61, dtype, transpose_b=transpose_b), lda=inner + 3)
    few = replace(large, rows=100)
    load_together((large, few), target)
    plan = lowered(large, target)[0].plan
    assert (plan.a, len({*plan.tiles})) == ("in place" if target.registers >= 32 else "copied", 2)
    code, function = lowered(large, target)
    assert plan_product(few, target).a == "in place"
    a, b = (np.random.default_rng(i).standard_normal(shape).astype(DTYPES[dtype])
            for i, shape in enumerate(((rows, inner + 3), (61, inner) if transpose_b else (inner, 61))))
    c, first = np.zeros((rows, 61), a.dtype), np.zeros((100, 61), a.dtype)
    function(a.ctypes.data, b.ctypes.data, c.ctypes.data, 0, code.plan.tasks)
    code, function = lowered(few, target)
    function(a.ctypes.data, b.ctypes.data, first.ctypes.data, 0, code.plan.tasks)
    assert c[:100].tobytes() == first.tobytes()
    check(large, target, cuts=(1, 2, 5))


@pytest.mark.share(2)
@on_every_target
@pytest.mark.parametrize(("transpose_a", "transpose_b"), ORIENTATIONS)
def test_groups_of_tiles_and_of_panels(target: Target, transpose_a: bool, transpose_b: bool, exhaustive: bool) -> None:
    """So much of A that packed panels pass a group of tiles after the other, in whole or by tasks that begin in the middle of a group. On
    the best target of this machine two of the orientations are run, on others one."""
    require(target)
    product = dense_product(700, 570, 6000, "f64", transpose_a, transpose_b)
    plan = lowered(product, target)[0].plan
    assert 1 < plan.mc_tiles < len(plan.tiles)
    assert 1 < plan.nc_panels < len(plan.panels) // plan.column_splits
    assert plan.column_splits == (4 if plan.a == "copied" else 1)
    if exhaustive or (transpose_a and not transpose_b) or (transpose_b and not transpose_a and target is host_targets()[0]):
        check(product, target, cuts=(1, 3))


@on_every_target
@pytest.mark.parametrize("dtype", DTYPES)
def test_tasks_divide_rows_and_columns(target: Target, dtype: str) -> None:
    """Stripes of the panels, of which the last may be narrow, or not full; a product of a batch is not cut so."""
    require(target)
    products = [dense_product(523, 70, columns, dtype, True, transpose_b) for columns in (997, 1000, 1024) for transpose_b in (False, True)]
    load_together(products, target)
    for product in products:
        plan = lowered(product, target)[0].plan
        assert (plan.a, plan.column_splits) == ("copied", 4 if len(plan.panels) >= 40 else 2)
        assert plan.tasks == plan.column_splits * plan.tasks_each > plan.column_splits
        assert plan.b == "in place" or plan.nc_panels <= -(-len(plan.panels) // plan.column_splits)
        assert plan_product(dense_product(523, 70, product.columns, dtype, True, product.transpose_b, batch=2), target).column_splits == 1
        check(product, target, cuts=(1, 2, 3, plan.tasks - 1))


@on_every_target
def test_complex_numbers(target: Target, exhaustive: bool) -> None:
    """Every orientation, conjugates, batches, rows with gaps, blocks of k, packed A and B, parts of tiles."""
    require(target)
    kinds = list(itertools.product(ORIENTATIONS, ORIENTATIONS))
    shapes = ((1, 1, 1), (1, 7, 9), (3, 5, 2), (4, 16, 16), (9, 3, 40), (33, 20, 17), (17, 400, 30), (40, 200, 70), (70, 1, 1), (5, 0, 3),
              (2, 9, 70))
    cases = [(shape, dtype, kind) for number, shape in enumerate(shapes) for dtype in DTYPES
             for kind in (kinds if exhaustive else [kinds[(5 * number + 9 * (dtype == "f64")) % 16]])]
    products = [dense_product(*shape, dtype, *orientation, 1 + index % 3 if shape[1] < 100 else 1, conjugates)
                for index, (shape, dtype, (orientation, conjugates)) in enumerate(cases)]
    products += [replace(product, lda=product.lda + 3, ldb=product.ldb + 1, ldc=product.ldc + 5, batch=1) for product in products[::9]]
    large = replace(dense_product(70, 150, 131, "f32", True, conjugates=(True, False)), lda=700)
    assert plan_product(large, target).a == "copied"
    check_all([*products, large], target)


@on_every_target
def test_parts_of_complex_sums_are_those_of_four_products(target: Target) -> None:
    """Up to one block of k, to the bit: the diagonal of a product with its own adjoint has imaginary parts of exactly 0."""
    require(target)
    whole, real = (dense_product(21, 300, 13, "f64", conjugates=conjugates) for conjugates in ((False, False), None))
    load_together([whole, real], target)
    a, b = matrices(1, 21, 300, 300, np.complex128, 1)[0], matrices(1, 300, 13, 13, np.complex128, 2)[0]
    plan = lowered(whole, target)[0].plan
    c = np.zeros((21, 13), complex)
    lowered(whole, target)[1](a.ctypes.data, b.ctypes.data, c.ctypes.data, 0, plan.tasks)

    def part(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        made = np.zeros((21, 13))
        code, function = lowered(real, target)
        left, right = np.ascontiguousarray(left), np.ascontiguousarray(right)
        function(left.ctypes.data, right.ctypes.data, made.ctypes.data, 0, code.plan.tasks)
        return made

    assert (c.real == part(a.real, b.real) - part(a.imag, b.imag)).all()
    assert (c.imag == part(a.real, b.imag) + part(a.imag, b.real)).all()


@given(data=st.data())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_any_shape(data: st.DataObject) -> None:
    size = st.integers(0, 70)
    shape = data.draw(size), data.draw(st.integers(0, 300)), data.draw(size)
    flag, dtype, batch = st.booleans(), data.draw(st.sampled_from(sorted(DTYPES))), data.draw(st.integers(1, 10))
    target = data.draw(st.sampled_from(host_targets()))
    check(dense_product(*shape, dtype, data.draw(flag), data.draw(flag), batch), target)


@given(data=st.data())
@settings(max_examples=300, deadline=None, derandomize=True)
def test_plans_cover_the_product(data: st.DataObject) -> None:
    size, flag = st.integers(0, 3000), st.booleans()
    dtype = data.draw(st.sampled_from(sorted(DTYPES)))
    conjugates = data.draw(st.sampled_from((None, None, (False, True))))
    product = dense_product(data.draw(size), data.draw(size), data.draw(size), dtype, data.draw(flag), data.draw(flag),
                            conjugates=conjugates)
    target = data.draw(st.sampled_from(list(TARGETS.values())))
    plan = plan_product(product, target)
    p = plan.product
    assert (p.rows, p.columns) == ((product.columns, product.rows) if plan.swapped else (product.rows, product.columns))
    assert (sum(plan.tiles), sum(map(sum, plan.panels)), sum(plan.k_blocks)) == (p.rows, p.columns, p.inner)
    assert all(part % K_ALIGN == 0 for part in plan.k_blocks[:-1])
    assert len(set(plan.tiles)) <= 2
    assert all(rows % p.unit == 0 for rows in plan.tiles)
    if not plan.dots:
        assert all(rows * len(counts) + len(counts) + 1 <= target.registers for rows in plan.tiles[:1] for counts in plan.panels)


@pytest.mark.parametrize("shape", [(64, 300, 96), (70, 1000, 100), (33, 17, 130)])
@pytest.mark.parametrize(("transpose_a", "transpose_b"), ORIENTATIONS)
def test_bits_are_the_same_on_targets_with_fma(shape: tuple[int, int, int], transpose_a: bool, transpose_b: bool) -> None:
    targets = [target for target in host_targets() if target.fma]
    if len(targets) < 2:
        pytest.skip("this processor has one such target")
    for conjugates in (None, (False, False)):
        product = dense_product(*shape, "f32", transpose_a, transpose_b, conjugates=conjugates)
        first, second = (check(product, target, cuts=(1,)) for target in targets)
        assert first.tobytes() == second.tobytes()


@on_every_target
def test_nan_and_infinity(target: Target) -> None:
    require(target)
    a, b = (np.random.default_rng(i).standard_normal((20, 20)).astype("f4") for i in range(2))
    a[3, 5], b[7, 2], a[4, 4], b[4, 9] = np.nan, np.inf, np.inf, 0
    for transpose_a, transpose_b in ORIENTATIONS:
        code, function = lowered(dense_product(20, 20, 20, "f32", transpose_a, transpose_b), target)
        left, right = np.ascontiguousarray(a.T) if transpose_a else a, np.ascontiguousarray(b.T) if transpose_b else b
        c = np.zeros((20, 20), "f4")
        function(left.ctypes.data, right.ctypes.data, c.ctypes.data, 0, code.plan.tasks)
        with np.errstate(invalid="ignore"):
            expected = a @ b
        np.testing.assert_allclose(c, expected, rtol=1e-3, atol=1e-4)
        assert np.isnan(c[4, 9])
        assert np.isnan(c[3]).all()


def guarded(size: int, dtype: type) -> tuple[mmap.mmap, np.ndarray]:
    """Memory for so many elements that ends where the next byte may be neither read nor written."""
    nbytes = size * np.dtype(dtype).itemsize
    pages = -(-nbytes // mmap.PAGESIZE) + 1
    memory = mmap.mmap(-1, pages * mmap.PAGESIZE)
    end = (pages - 1) * mmap.PAGESIZE
    array = np.frombuffer(memory, dtype, size, end - nbytes)
    address = array.ctypes.data + nbytes
    assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(address), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    return memory, array


@pytest.mark.skipif(sys.platform != "linux", reason="protects pages as Linux does")
@on_every_target
def test_nothing_behind_the_operands_is_read(target: Target) -> None:
    require(target)
    shapes = (5, 7, 3), (9, 20, 18), (1, 19, 33), (33, 19, 1), (70, 130, 50)
    load_together((dense_product(*shape, "f32", *orientation) for orientation in ORIENTATIONS for shape in shapes), target)
    for transpose_a, transpose_b in ORIENTATIONS:
        for shape in shapes:
            product = dense_product(*shape, "f32", transpose_a, transpose_b)
            rows, inner, columns = shape
            kept, (a, b, c) = zip(*(guarded(n, np.float32) for n in (rows * inner, inner * columns, rows * columns)), strict=True)
            a[:], b[:] = (np.random.default_rng(i).standard_normal(x.size) for i, x in enumerate((a, b)))
            code, function = lowered(product, target)
            function(a.ctypes.data, b.ctypes.data, c.ctypes.data, 0, code.plan.tasks)
            left, right = a.reshape(inner, rows).T if transpose_a else a.reshape(rows, inner), b
            right = b.reshape(columns, inner).T if transpose_b else b.reshape(inner, columns)
            np.testing.assert_allclose(c.reshape(rows, columns), left.astype("f8") @ right, rtol=0, atol=tolerance(inner, "f32"))
            assert len(kept) == 3


@pytest.mark.parametrize("dtype", DTYPES)
@on_every_target
def test_code_is_written_for_targets_that_are_not_here(target: Target, dtype: str) -> None:
    for transpose_a, transpose_b in ORIENTATIONS:
        code = lower_product(dense_product(33, 70, 50, dtype, transpose_a, transpose_b, 3), target)
        llvm.parse_assembly(code.text).verify()
        assert len(compile_product(code).object_code) > 500


def test_products_share_kernels() -> None:
    """Sizes and strides are in tables: products that are cut into equal tiles are the same functions."""
    shapes = [(128, 256, 768), (256, 320, 768), (640, 96, 1536), (1024, 512, 480), (64, 17, 1024), (8, 700, 96)]
    products = [dense_product(*shape, "f32", transpose_a) for shape in shapes for transpose_a in (False, True)]
    products += [replace(product, batch=12) for product in products] + [replace(product, ldc=5000) for product in products]
    written = [write_product(product, TARGETS["avx512"]) for product in products]
    shared = {name: text for one in written for name, text in one.shared.items()}
    for name, text in shared.items():
        assert all(one.shared.get(name, text) == text for one in written), name
    assert sorted(shared) == ["adjit_copy_16_16_16_f32x16", "adjit_multiply", "adjit_strips_8_f32x16", "adjit_tile_8x16_16_16_f32x16",
                              "adjit_tile_8x16_16_f32x16"]
    assert all(one.own["adjit_product"].text.count("\n") < 12 for one in written)


@pytest.mark.parametrize("shape", [(128, 64, 144), (128, 64, 64), (100, 64, 144), (64, 512, 64)], ids=["8x3", "6x4", "9x3", "parts"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_of_the_largest_tiles_stay_in_registers(dtype: str, shape: tuple[int, int, int]) -> None:
    require(TARGETS["avx512"])
    text = lower_product(dense_product(*shape, dtype), TARGETS["avx512"]).text
    assembly = machine(TARGETS["avx512"]).emit_assembly(llvm.parse_assembly(f'target triple = "{llvm.get_process_triple()}"\n{text}'))
    assert re.search(r"vfmadd231p.*zmm2\d", assembly)
    assert not re.search(r"zmm\d+, -?\d*\(%rsp\)", assembly)


@pytest.mark.parametrize(("rows", "inner", "batch", "specialised"), [
    (10, 3, 1, True), (8, 8, 1, False), (8, 8, 64, True), (16, 16, 64, False)])
@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_small_matrices_times_vectors_are_written_out(target: Target, rows: int, inner: int, batch: int, specialised: bool) -> None:
    plan = plan_product(dense_product(rows, inner, 1, "f32", batch=batch), target)
    assert plan.specialised == specialised == (not plan.dots)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums_stay_in_registers_where_there_are_16(dtype: str) -> None:
    """Tiles of 4 rows by 3 vectors, which take all 16, took twice the time."""
    avx2 = TARGETS["avx2"]
    lanes, shapes = avx2.lanes(4 if dtype == "f32" else 8), set()
    for rows, vectors in (1, 6), (2, 5), (2, 8), (3, 3), (4, 3), (4, 6), (12, 3), (12, 9), (60, 12), (60, 45), (64, 63), (65, 13):
        code = lower_product(dense_product(rows, 300, vectors * lanes, dtype), avx2)
        assembly = machine(avx2).emit_assembly(llvm.parse_assembly(f'target triple = "{llvm.get_process_triple()}"\n{code.text}'))
        blocks = re.findall(r"^(\.LBB\d+_\d+):(.*?)(?=^\.LBB|\Z)", assembly, re.MULTILINE | re.DOTALL)
        loops = [text for label, text in blocks if re.search(rf"\tj\w+\s+{re.escape(label)}\b", text)]
        assert loops
        assert not any(re.search(r"ymm\d+, -?\d*\(%rsp\)", text) for text in loops), (rows, vectors)
        shapes |= {(tile, len(counts)) for tile in code.plan.tiles for counts in code.plan.panels}
    assert {(1, 6), (2, 5), (2, 4), (3, 3), (6, 2)} <= shapes


def test_small_products_need_no_table() -> None:
    for shape in (4, 4, 4), (8, 8, 8), (16, 16, 16), (17, 9, 16), (3, 0, 40):
        written = write_product(dense_product(*shape, "f32"), TARGETS["avx512"])
        assert written.plan.specialised
        assert list(written.own) == ["adjit_product"]
        assert not written.shared
    assert not plan_product(dense_product(64, 64, 64, "f32"), TARGETS["avx512"]).specialised


@pytest.mark.parametrize(("shape", "transpose_b", "kernel"), [
    ((1, 20, 1000), True, "adjit_dots_1x8_rest4_along_f64x8"), ((1, 1000, 20), False, "adjit_tile_1x8_8_4_chains4_stretched_f64x8"),
    ((2048, 20, 20), False, "adjit_tile_8x8_8_4_f64x8")])
def test_a_column_of_equal_tiles_needs_no_driver(shape: tuple[int, int, int], transpose_b: bool, kernel: str) -> None:
    written = write_product(dense_product(*shape, "f64", transpose_b=transpose_b), TARGETS["avx512"])
    assert list(written.shared) == [kernel]
    assert f"call void @{kernel}(" in written.own["adjit_product"].text


@pytest.mark.parametrize(("rows", "columns", "panels"), [(1, 48, 1), (1, 56, 2), (2, 40, 1), (2, 48, 2), (3, 40, 2)])
def test_few_rows_are_one_panel_where_the_registers_hold_it(rows: int, columns: int, panels: int) -> None:
    for dtype, width in (("f32", columns), ("f64", columns // 2)):
        assert len(plan_product(dense_product(rows, 1000, width, dtype), TARGETS["avx2"]).panels) == panels
        for target in host_targets():
            check(dense_product(rows, 100, width - 1, dtype), target)


def test_dot_products_go_along_a_row_and_down_rows() -> None:
    """B is read once, whichever of C's sides has more tiles."""
    row, rows = (plan_product(dense_product(n, 784, 512, "f32", transpose_b=True), TARGETS["avx512"]) for n in (4, 16))
    assert (row.dots, rows.dots) == ("along", "down")
    for target in host_targets():
        for dtype in DTYPES:
            shapes = (4, 131, 30), (12, 131, 30), (1, 5, 50), (2, 64, 9), (3, 40, 1)
            check_all((dense_product(*shape, dtype, transpose_b=True, batch=2) for shape in shapes), target)


@pytest.mark.parametrize("columns", [256, 512, 240, 1024])
def test_halves_of_the_panels_have_as_many_columns(columns: int) -> None:
    plan = plan_product(dense_product(128, 300, columns, "f32"), TARGETS["avx512"])
    assert plan.axis == "columns"
    widths = [sum(counts) for counts in plan.panels]
    half = -(-len(widths) // 2)
    assert sum(widths) == columns
    assert abs(2 * sum(widths[:half]) - columns) <= max(widths) * (len(widths) % 2)
