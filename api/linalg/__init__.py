"""Linear algebra by NumPy's names, for traced arrays, tensors and plain arrays: `np.linalg.solve(a, b)` itself works on traced arrays, too.

    >>> import numpy as np
    >>> import adjit as aj
    >>> a = np.array([[4.0, 1.0], [1.0, 3.0]])
    >>> aj.grad(lambda a: np.linalg.slogdet(a)[1])(a).round(4)
    array([[ 0.2727, -0.0909],
           [-0.0909,  0.3636]])

`cholesky`, `cond`, `det`, `eig`, `eigh`, `eigvals`, `eigvalsh`, `inv`, `lstsq`, `matrix_norm`, `matrix_power`, `matrix_rank`,
`multi_dot`, `norm`, `pinv`, `qr`, `slogdet`, `solve`, `svd`, `svdvals`, `tensorinv`, `tensorsolve`, `vector_norm`; and as `scipy.linalg`
has it, `solve_triangular`. `matrix_function` is a function of the eigenvalues of Hermitian matrices.

LAPACK does the work, as SciPy brings it; without SciPy, and in libraries for C, blocks of our own do that of `cholesky`, `det`, `inv`,
`slogdet`, `solve`, `solve_triangular`, and of `lstsq` and `pinv` of full rank. Functions of singular values, eigenvalues and QR factors
need SciPy.

Compiled programs do not look at values: where NumPy raises `LinAlgError`, at a singular matrix or one that is not positive definite, the
result is NaN or infinite. Matrices may be complex.
"""

from adjit.linalg.decompositions import cond, eig, eigh, eigvals, eigvalsh, matrix_rank, qr, svd, svdvals
from adjit.linalg.functions import cholesky, det, inv, matrix_power, norm, slogdet, solve, solve_triangular
from adjit.linalg.least_squares import lstsq, pinv
from adjit.linalg.matrix_functions import matrix_function
from adjit.linalg.products import matrix_norm, multi_dot, tensorinv, tensorsolve, vector_norm

__all__ = [
    "cholesky", "cond", "det", "eig", "eigh", "eigvals", "eigvalsh", "inv", "lstsq", "matrix_function", "matrix_norm", "matrix_power",
    "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "solve_triangular", "svd", "svdvals", "tensorinv", "tensorsolve",
    "vector_norm",
]
