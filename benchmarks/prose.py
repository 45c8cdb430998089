"""What the report says in words. Names in braces are filled in."""

from __future__ import annotations

INTRODUCTION = """adjit side by side with what else one might use. This page is written by `make bench` from `benchmarks/results/{file}`;
nothing in it is edited by hand."""

DISTURBED = """**Other processes took up to {most} of the machine during rounds ({median} in the median).** Ratios of one round compare
libraries under the same load; times alone are those of a busy machine."""

TIMES = "Median of the rounds, and below it the fastest single step. The best of a line is bold."

RATIOS = """**adjit's time over the other's**, below 1 where adjit is faster: the median of the ratios of the rounds, and their least and
largest."""

LIMITS = """Measured in the same run, on all {threads} cores: {peaks} of fused multiply-adds; {levels}. A step can be no faster than its
operations at the first or its least bytes at the second, whichever takes longer; the bandwidth is the one measured for as many bytes as
the step has to move. Operations are counted from the formulas: two for each multiply-add of a product, one for each result of an
elementwise function, however many it takes, so that the limit is lower than anybody can get. Least bytes are those of arguments and
results alone. For steps of a few microseconds the limit says little: calling anything takes longer."""

FIRST_CALLS = """The first step in a new process, all caches empty: tracing, compiling, running{repeated}. Below it: the same with the
caches that the first process has filled. Import is the time of the import statements in a new process, NumPy included, median
of all processes. Installed is everything that the library brings into an empty environment."""

REPEATED = "; the median of {first_calls} processes where it takes less than {quick_first_call:g} s"

MEMORY = """The most resident memory over the baseline (the library imported, the problem's arrays made): first, during steps{where};
second, up to the end of the first call with empty caches, compiling included; third, in italics, the working memory of a step as the
library itself plans it, beside arguments and results (adjit `.memory().arena_bytes`, JAX `memory_analysis().temp_size_in_bytes`; the
others do not tell)."""

CALLS = "A call of a compiled function (of plain code where there is none) that adds so many arrays of eight float32."

PROGRAMS = """Value and gradient of {names} programs as people write them, of the tests' corpus (`tests/support/numpy_programs`), at
their small and their large sizes: {cases} cases, float64, with respect to every float argument. adjit and HIPS autograd run the programs
unchanged (autograd: but for its import of NumPy); JAX runs versions written with its loops (`benchmarks/programs_in_jax.py`), its arrays
on the device already; NumPy computes the value alone. What is differentiated is the sum of the squares of the results. Values and
gradients for eight data sets agree with adjit's to 1e-9 of the largest element; calls go round the eight. Measured {date} at commit
`{commit}` on {cores} cores of {processor}, {rounds} rounds in turn, by `make bench-programs`; other processes took {load} of the machine
in the median round and {most} in the worst. JAX has no reverse mode through `while_loop`: its `conjugate_gradients` is a `scan` of the
program's own bound of 10 n rounds, which is most of its time. Median of the rounds, below it the least of all calls. In the geometric
mean:"""

PROGRAMS_FIRST = """The first call in a new process without caches: wall time, and below it CPU time of all threads (adjit: tracing,
finding loops, the adjoint, compiling)."""

CURVES = """Time of a step, the most resident memory over the baseline during steps, and the first call with empty caches. The points of a
curve share one process. A curve ends where a first call takes more than {limit:g} s."""

LEFT_OUT = "Left out: {libraries}. `make bench PEERS=...` measures them."

PRODUCTS = "PyTorch's products come from {source}; JAX's from what XLA brings (Eigen, oneDNN)."

VARIABLES = """`OPENBLAS_CORETYPE` and variables that limit threads are removed before anything is measured: every library takes the
kernels and the threads that it takes by itself. {system}."""

DTYPES = "float32, but for `logreg`, `gmm` and `gp`, which are float64 in every library."

SUBNORMALS = """Subnormal numbers, which training makes in squares of small gradients and where gradients vanish, take processors up to a
hundred times longer. JAX always takes them for zeros; here PyTorch (`torch.set_flush_denormal(True)`) and adjit's training steps
(`flush_subnormals=True`) do so too. The others, and adjit's steps in eager mode, compute them."""

LOAD = """Load: other processes, or other machines on the same host, took {median} of all cores in the median round and {most} in the
worst."""

METHOD = """## How it is measured

- **The same work.** Every library gets the same arrays, made by NumPy from a seed. Before anything is timed, the losses of five steps, the
  gradients at the first and, where SGD is used, the first update have to agree with adjit's: to 1e-4 of the largest element in float32,
  1e-8 in float64. What does not agree is not timed.
- **In turn.** Each library has a process of its own. Rounds alternate, A B C A B C; each begins at the first training step, with some steps
  that are not timed. A ratio is that of two medians of one round.
- **Whole steps**: the call from Python, the loss, the gradients and the update, until the results are there.
- Calls with small arrays are timed by [pyperf](https://pyperf.readthedocs.io), load by [psutil](https://psutil.readthedocs.io), BLAS and
  threads are found by [threadpoolctl](https://github.com/joblib/threadpoolctl).
- Rerun it: `make bench` (`QUICK=1`, `WORKLOADS=mlp,lnsm`, `PEERS=jax,torch`); compare two runs: `make bench-compare BEFORE=a.json
  AFTER=b.json`. [benchmarks/README.md](../benchmarks/README.md) says more."""

GPU = """On the {card} ({about}), {date} at commit `{commit}`, by `make bench-cuda`. Times are of many calls between two waits for the card,
the least of five rounds in which the libraries take turns; "memory" is what the work has to read and write, by that time; "processor" is
the time in which it launches a call. float32 is float32 in all of them: no TF32."""

GPU_UNTIMED = "Nothing has been measured on a card yet: `make bench-cuda` measures on one, and its times come here."

GPU_COUNTS = """Programs were compiled for a card, and not run (`make bench-cuda-counts`). There are the kernels and graph launches of a
call; the longest chain of kernels that wait for one another, each of which takes a card some microseconds more; the arrays that all kernels
read and write, each once a kernel, and the least there could be, arguments and results; the operations of products of matrices; and the
instructions for each element, by an interpreter of PTX. "Computed" is the least time that follows from these for an {card} by what NVIDIA
says of it: {bandwidth}, {operations} in float32, {instructions} instructions a second. Nobody measured it: it knows nothing of latency, of
caches, or of kernels side by side. "Target" is what a call is meant to take when it is measured."""

GPU_PRODUCTS = """Of the instructions of a step along the inner index of a product, multiply-adds are {tiles}. Tiles of a product take turns
where there are more of them than multiprocessors."""
