"""Functions of `scipy.linalg` for traced arrays and tensors; plain arrays outside of a trace go to SciPy's own.

    >>> import numpy as np
    >>> import adjit as aj
    >>> from adjit.scipy import linalg
    >>> a = np.array([[0.0, 1.0], [-1.0, 0.0]])
    >>> float(round(aj.grad(lambda t: linalg.expm(t * a)[0, 1])(0.0), 9))
    1.0

Arguments that only say how SciPy may use memory or check its input (`overwrite_a`, `check_finite`, ...) are accepted and do nothing. Where
SciPy raises `LinAlgError`, the result is NaN or infinite.
"""

from __future__ import annotations

from typing import Any

from adjit.scipy.linalg.eigenvalues import (
    eig,
    eig_banded,
    eigh,
    eigh_tridiagonal,
    eigvals,
    eigvals_banded,
    eigvalsh,
    eigvalsh_tridiagonal,
    orthogonal_procrustes,
    polar,
    qr,
    qr_multiply,
    rq,
    subspace_angles,
    svd,
    svdvals,
)
from adjit.scipy.linalg.matrix_functions import (
    coshm,
    cosm,
    expm,
    expm_frechet,
    fractional_matrix_power,
    logm,
    signm,
    sinhm,
    sinm,
    sqrtm,
    tanhm,
    tanm,
)
from adjit.scipy.linalg.riccati import solve_continuous_are, solve_discrete_are
from adjit.scipy.linalg.structures import (
    block_diag,
    circulant,
    companion,
    convolution_matrix,
    diagsvd,
    fiedler,
    fiedler_companion,
    hankel,
    khatri_rao,
    leslie,
    matmul_toeplitz,
    solve_circulant,
    solve_toeplitz,
    toeplitz,
)
from adjit.scipy.linalg.systems import (
    cho_factor,
    cho_solve,
    cho_solve_banded,
    cholesky,
    cholesky_banded,
    det,
    inv,
    lstsq,
    lu,
    lu_factor,
    lu_solve,
    norm,
    pinv,
    pinvh,
    solve,
    solve_banded,
    solve_continuous_lyapunov,
    solve_discrete_lyapunov,
    solve_lyapunov,
    solve_sylvester,
    solve_triangular,
    solveh_banded,
)
from adjit.scipy.mirror import without_rule

__all__ = [
    "block_diag", "cho_factor", "cho_solve", "cho_solve_banded", "cholesky", "cholesky_banded", "circulant", "companion",
    "convolution_matrix", "coshm", "cosm", "det", "diagsvd", "eig", "eig_banded", "eigh", "eigh_tridiagonal", "eigvals",
    "eigvals_banded", "eigvalsh", "eigvalsh_tridiagonal", "expm", "expm_frechet", "fiedler", "fiedler_companion",
    "fractional_matrix_power", "hankel", "inv", "khatri_rao", "leslie", "logm", "lstsq", "lu", "lu_factor", "lu_solve",
    "matmul_toeplitz", "norm", "orthogonal_procrustes", "pinv", "pinvh", "polar", "qr", "qr_multiply", "rq", "signm", "sinhm", "sinm",
    "solve", "solve_banded", "solve_circulant", "solve_continuous_are", "solve_continuous_lyapunov", "solve_discrete_are",
    "solve_discrete_lyapunov", "solve_lyapunov", "solve_sylvester", "solve_toeplitz", "solve_triangular", "solveh_banded", "sqrtm",
    "subspace_angles", "svd", "svdvals", "tanhm", "tanm", "toeplitz",
]

_others = without_rule("linalg", __all__)


def __getattr__(name: str) -> Any:
    """Return what else SciPy's module has under this name, for plain arrays."""
    return _others(name)
