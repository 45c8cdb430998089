"""Linear algebra by NumPy's names, for traced arrays, tensors and plain arrays: `np.linalg.solve(a, b)` itself works on traced arrays, too.

    >>> import numpy as np
    >>> import adjit as aj
    >>> a = np.array([[4.0, 1.0], [1.0, 3.0]])
    >>> aj.grad(lambda a: np.linalg.slogdet(a)[1])(a).round(4)
    array([[ 0.2727, -0.0909],
           [-0.0909,  0.3636]])

`cholesky`, `cond`, `det`, `eig`, `eigh`, `eigvals`, `eigvalsh`, `inv`, `lstsq`, `matrix_norm`, `matrix_power`, `matrix_rank`,
`multi_dot`, `norm`, `pinv`, `qr`, `slogdet`, `solve`, `svd`, `svdvals`, `tensorinv`, `tensorsolve`, `vector_norm`; and as `scipy.linalg`
has it, `solve_triangular`. From `torch.linalg`: `cholesky_ex`, `cross`, `diagonal`, `householder_product`, `inv_ex`, `lu`, `lu_factor`,
`lu_factor_ex`, `lu_solve`, `matmul`, `matrix_exp`, `solve_ex`, `vander`, `vecdot`; and its names of
arguments: `dim`, `keepdim`, `left`, `upper`.
`matrix_function` is a function of the eigenvalues of Hermitian matrices.

LAPACK does the work, as SciPy brings it; without SciPy, and in libraries for C, blocks of our own do that of `cholesky`, `det`, `inv`,
`slogdet`, `solve`, `solve_triangular`, and of `lstsq` and `pinv` of full rank. Functions of singular values, eigenvalues and QR factors
need SciPy.

Compiled programs do not look at values: where NumPy raises `LinAlgError`, at a singular matrix or one that is not positive definite, the
result is NaN or infinite. Tensors outside of them raise `LinAlgError`. Matrices may be complex.
"""

from adjit.linalg.decompositions import cond, eig, eigh, eigvals, eigvalsh, matrix_rank, qr, svd, svdvals
from adjit.linalg.failures import LinAlgError
from adjit.linalg.functions import cholesky, det, inv, matrix_power, norm, slogdet, solve, solve_triangular
from adjit.linalg.least_squares import lstsq, pinv
from adjit.linalg.matrix_functions import matrix_function
from adjit.linalg.products import cross, diagonal, matrix_norm, multi_dot, tensorinv, tensorsolve, vector_norm
from adjit.linalg.pytorch import (
    cholesky_ex,
    householder_product,
    inv_ex,
    lu,
    lu_factor,
    lu_factor_ex,
    lu_solve,
    matmul,
    matrix_exp,
    solve_ex,
    vander,
    vecdot,
)

__all__ = [
    "LinAlgError",
    "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh", "householder_product", "inv",
    "inv_ex", "lstsq", "lu", "lu_factor", "lu_factor_ex", "lu_solve", "matmul", "matrix_exp", "matrix_function", "matrix_norm",
    "matrix_power", "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "solve_ex", "solve_triangular", "svd", "svdvals",
    "tensorinv", "tensorsolve", "vander", "vecdot", "vector_norm",
]
