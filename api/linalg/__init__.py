"""Linear algebra by NumPy's names, for traced arrays, tensors and plain arrays: `np.linalg.solve(a, b)` itself works on traced arrays, too.

    >>> import numpy as np
    >>> import adjit as aj
    >>> a = np.array([[4.0, 1.0], [1.0, 3.0]])
    >>> aj.grad(lambda a: np.linalg.slogdet(a)[1])(a).round(4)
    array([[ 0.2727, -0.0909],
           [-0.0909,  0.3636]])

`cholesky`, `cond`, `det`, `inv`, `lstsq`, `matrix_norm`, `matrix_power`, `multi_dot`, `norm`, `pinv`, `slogdet`, `solve`, `tensorinv`,
`tensorsolve`, `vector_norm`; and as `scipy.linalg` has it, `solve_triangular`.

Compiled programs do not look at values: where NumPy raises `LinAlgError`, at a singular matrix or one that is not positive definite, the
result is NaN or infinite. Complex numbers, and functions of eigenvalues or singular values, have no rule.
"""

from adjit.linalg.functions import cholesky, det, inv, matrix_power, norm, slogdet, solve, solve_triangular
from adjit.linalg.products import cond, lstsq, matrix_norm, multi_dot, pinv, tensorinv, tensorsolve, vector_norm

__all__ = [
    "cholesky", "cond", "det", "inv", "lstsq", "matrix_norm", "matrix_power", "multi_dot", "norm", "pinv", "slogdet", "solve",
    "solve_triangular", "tensorinv", "tensorsolve", "vector_norm",
]
