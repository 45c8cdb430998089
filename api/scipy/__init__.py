"""Functions by SciPy's names, for traced arrays, tensors and plain arrays.

Ufuncs of `scipy.special` work on traced arrays and tensors as they are; other functions of SciPy make ordinary arrays, so they are here,
in modules with SciPy's names. While a function is traced, SciPy's own functions hand traced arguments over to these
(`tracer.scipy_functions`); elsewhere `import adjit.scipy.stats as stats`, and the rest of the line stays. Which names there are:
`docs/scipy.md`.
"""
