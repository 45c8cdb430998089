# Two commands matter: `make demo` and `make test`. Both make their own environment in .venv first.
# PYTHON chooses the interpreter that .venv is made with: make test PYTHON=python3.13

PYTHON ?= python3
BIN := .venv/bin
PACKAGES := ir tracer passes codegen eager runtime

.PHONY: demo docs demo-mpi test test-cuda test-torch array-api lint types pytest accuracy bench bench-programs bench-functions bench-eager bench-cuda bench-cuda-counts bench-compare bench-targets bench-report clean
.DEFAULT_GOAL := test

demo: .venv/installed
	$(BIN)/python examples/digits.py

# The same training on several processes, with the MPI of this environment or of the system: make demo-mpi RANKS=4
RANKS ?= 2
MPIRUN = PATH="$(CURDIR)/$(BIN):$$PATH" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe \
	mpirun -n $(RANKS) $(BIN)/python

demo-mpi: .venv/installed
	$(MPIRUN) examples/digits_mpi.py
	$(MPIRUN) examples/character_model_mpi.py

# mypy takes half a minute of one core, beside which the tests begin.
test: lint
	@$(MAKE) --no-print-directory -j 2 types pytest

# A card against the emulated device, bit for bit. Everything is skipped where there is none.
test-cuda: .venv/installed
	$(BIN)/python -m pytest -q -rs tests/runtime/cuda tests/codegen/cuda --exhaustive

# The array standard's own tests, of tensors and of compiled functions, in some five minutes. They are in no package registry, so `make test` skips
# them: make array-api clones them, or SUITE=/path/to/a/clone with its submodule.
SUITE ?= build/array-api-tests
array-api: .venv/installed
	test -d $(SUITE) || (git clone -q https://github.com/data-apis/array-api-tests $(SUITE) && git -C $(SUITE) checkout -q 55fcc60 && \
		git -C $(SUITE) submodule update -q --init)
	$(BIN)/python -m pip install -q -c constraints.txt ndindex pytest-json-report
	ARRAY_API_TESTS=$(abspath $(SUITE)) $(BIN)/python -m pytest -q -n 2 tests/eager/test_array_api.py

lint: .venv/installed
	$(BIN)/ruff check .

# mypy does not follow setuptools' folder mapping, so it is shown the package as it looks once installed; and programs of users, which say by
# `assert_type` what a call gives, and by `type: ignore` what is an error.
types: .venv/installed
	rm -rf build/types && mkdir -p build/types/adjit
	ln -s $(wildcard $(CURDIR)/api/*) $(PACKAGES:%=$(CURDIR)/%) build/types/adjit/
	ln -s $(CURDIR)/tests/user_types build/types/
	MYPYPATH=build/types $(BIN)/mypy -p adjit -p user_types

# Bytecode is written, whatever the environment says: tests start some hundred processes, which import adjit in half the time. NumPy's products
# are what ours are compared with: threads of theirs would spin beside those of the other worker.
pytest: .venv/installed
	PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal

# The largest error of each elementary function over all float32 numbers: not above 2 ulp. A run that was stopped goes on where it was.
accuracy: .venv/installed
	$(BIN)/python benchmarks/vector_math_errors.py --results build/vector_math_errors.json

# adjit beside other libraries, each in an environment of its own below .bench: benchmarks/README.md. A run that was stopped goes on where it was.
# QUICK=1: under three minutes. WORKLOADS=mlp,lnsm PEERS=jax,torch PARTS=steps RESULTS=file.json: less. FRESH=1: everything anew.
BENCH := .bench/harness/bin/python
BENCH_OPTIONS = $(if $(QUICK),--quick) $(if $(FRESH),--fresh) $(if $(WORKLOADS),--workloads "$(WORKLOADS)") $(if $(PEERS),--peers "$(PEERS)") \
	$(if $(PARTS),--parts "$(PARTS)") $(if $(RESULTS),--results $(RESULTS))

bench: bench-harness
	$(BENCH) benchmarks/run.py $(BENCH_OPTIONS)

# Value and gradient of whole NumPy programs, beside JAX, HIPS autograd and NumPy's value: under four minutes. Writes results/programs.json
# and the page. FRESH=1, PEERS and RESULTS as above; PROGRAMS=garch,thomas ROUNDS=3: less.
bench-programs: bench-harness
	$(BENCH) benchmarks/programs_run.py $(if $(FRESH),--fresh) $(if $(PROGRAMS),--programs "$(PROGRAMS)") $(if $(PEERS),--peers "$(PEERS)") \
		$(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(RESULTS),--results $(RESULTS))

# Every function of NumPy, compiled, beside NumPy's own, at 10 and at a million elements: the ten with the highest ratio.
bench-functions: .venv/installed
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/numpy_functions.py

# What is compared with PyTorch itself, 1,000 random programs and the thirty programs among it: some five minutes.
test-torch: .venv/installed
	$(BIN)/python -m pip install -q -e ".[test-torch]" -c constraints.txt
	RANDOM_EXAMPLES=1000 $(BIN)/python -m pytest -q --exhaustive tests/programs/test_pytorch_programs.py tests/programs/test_autograd_programs.py \
		tests/api/pytorch tests/api/nn/test_nn_torch.py tests/api/nn/test_nn_functional_torch.py tests/project/test_torch_page.py \
		tests/tracer/test_foreign_arrays.py

bench-eager: .venv/installed
	$(BIN)/python -m pip install -q -e ".[test-torch]" -c constraints.txt
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/eager_ops.py

# adjit on an NVIDIA GPU, beside PyTorch and JAX where .venv has them: results/gpu.json, and its section of the page. Skipped where no card is.
bench-cuda: .venv/installed
	$(BIN)/python benchmarks/gpu.py
	test ! -e benchmarks/results/gpu.json || $(MAKE) bench-report

# What programs for a card ask of it, counted without one: results/gpu_counts.json, and its part of the page.
bench-cuda-counts: .venv/installed
	$(BIN)/python benchmarks/gpu_counts.py
	$(MAKE) bench-report

# What got slower between two files of results: make bench-compare BEFORE=old.json AFTER=new.json
BEFORE ?= benchmarks/results/comparison.before.json
AFTER ?= benchmarks/results/comparison.json
bench-compare: bench-harness
	$(BENCH) benchmarks/compare.py $(BEFORE) $(AFTER)

# The numbers that are promised, from a run of only what they need.
bench-targets: bench-harness
	$(BENCH) benchmarks/run.py --peers jax,torch,torch_compile,pytensor --parts steps \
		--results benchmarks/results/targets.json
	$(BENCH) benchmarks/targets.py benchmarks/results/targets.json

# docs/benchmarks.md once more from the results that there are.
bench-report: bench-harness
	$(BENCH) benchmarks/report.py

.PHONY: bench-harness
bench-harness:
	$(PYTHON) benchmarks/environments.py harness

.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "adjit needs Python 3.11 or later, $(PYTHON) is " + sys.version.split()[0])'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt setuptools
	$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt --no-build-isolation -e '.[dev]'
	touch $@

# The site, into out/site: its examples are run and its warnings are errors. Sphinx and its theme have an environment of their own.
docs: .docs/installed
	.docs/bin/python docs/make_site.py

.docs/installed: pyproject.toml constraints.txt
	test -x .docs/bin/python || $(PYTHON) -m venv .docs
	.docs/bin/python -m pip install --quiet -c constraints.txt setuptools
	.docs/bin/python -m pip install --quiet -c constraints.txt --no-build-isolation -e '.[docs]'
	touch $@

clean:
	rm -rf .venv .docs .bench build dist out *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
