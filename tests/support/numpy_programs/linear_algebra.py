"""Linear algebra by hand: factorisations, substitutions, sparse products, iterations."""

import numpy as np
from support.numpy_programs.program import Programs

programs = Programs()


def dominant(draw, n):
    return draw.normal(size=(n, n)) + n * np.eye(n)


def definite(draw, n):
    a = draw.normal(size=(n, n))
    return a @ a.T + n * np.eye(n)


@programs(lambda draw, n: (dominant(draw, n),), 4, 30)
def lu_doolittle(A):
    n = A.shape[0]
    L = np.eye(n)
    U = np.zeros((n, n))
    for i in range(n):
        for j in range(i, n):
            U[i, j] = A[i, j] - np.sum(L[i, :i] * U[:i, j])
        for j in range(i + 1, n):
            L[j, i] = (A[j, i] - np.sum(L[j, :i] * U[:i, i])) / U[i, i]
    return L, U


@programs(lambda draw, n: (draw.normal(size=(n, n)), draw.normal(size=n)), 4, 30)
def solve_with_partial_pivoting(A, b):
    A = A.copy()
    b = b.copy()
    n = len(b)
    for k in range(n - 1):
        p = k + np.argmax(np.abs(A[k:, k]))
        if p != k:
            A[[k, p]] = A[[p, k]]
            b[[k, p]] = b[[p, k]]
        for i in range(k + 1, n):
            m = A[i, k] / A[k, k]
            A[i, k:] -= m * A[k, k:]
            b[i] -= m * b[k]
    x = np.zeros(n)
    for i in range(n - 1, -1, -1):
        x[i] = (b[i] - np.sum(A[i, i + 1:] * x[i + 1:])) / A[i, i]
    return x


@programs(lambda draw, n: (draw.normal(size=(n, n)),), 4, 30)
def determinant_by_elimination(a):
    a = np.array(a, dtype=float)
    n = len(a)
    sign = 1.0
    for k in range(n):
        best = k
        for i in range(k + 1, n):
            if abs(a[i, k]) > abs(a[best, k]):
                best = i
        if a[best, k] == 0:
            return 0.0
        if best != k:
            tmp = a[k].copy()
            a[k] = a[best]
            a[best] = tmp
            sign = -sign
        a[k + 1:, k:] -= np.outer(a[k + 1:, k] / a[k, k], a[k, k:])
    return sign * np.prod(np.diag(a))


@programs(lambda draw, n: (definite(draw, n),), 4, 30)
def cholesky_by_elements(A):
    n = len(A)
    L = np.zeros_like(A)
    for i in range(n):
        for j in range(i + 1):
            s = 0.0
            for k in range(j):
                s += L[i, k] * L[j, k]
            if i == j:
                L[i, j] = np.sqrt(A[i, i] - s)
            else:
                L[i, j] = (A[i, j] - s) / L[j, j]
    return L


@programs(lambda draw, n: (definite(draw, n),), 4, 40)
def cholesky_by_columns_in_place(A):
    L = A.copy()
    for k in range(L.shape[0]):
        if L[k, k] <= 0:
            raise ValueError("matrix is not positive definite")
        L[k, k] = np.sqrt(L[k, k])
        L[k + 1:, k] /= L[k, k]
        for j in range(k + 1, L.shape[0]):
            L[j:, j] -= L[j:, k] * L[j, k]
    return np.tril(L)


@programs(lambda draw, n: (definite(draw, n),), 4, 30)
def ldl(A):
    n = A.shape[0]
    L = np.identity(n)
    d = np.empty(n)
    for j in range(n):
        d[j] = A[j, j] - sum(L[j, k] ** 2 * d[k] for k in range(j))
        for i in range(j + 1, n):
            L[i, j] = (A[i, j] - sum(L[i, k] * L[j, k] * d[k] for k in range(j))) / d[j]
    return L, d


@programs(lambda draw, n: (draw.normal(size=(n + 2, n)),), 3, 20, rounding=1e-13)
def qr_gram_schmidt(A):
    m, n = A.shape
    Q = np.zeros((m, n))
    R = np.zeros((n, n))
    for j in range(n):
        v = A[:, j].copy()
        for i in range(j):
            R[i, j] = Q[:, i] @ A[:, j]
            v -= R[i, j] * Q[:, i]
        R[j, j] = np.linalg.norm(v)
        Q[:, j] = v / R[j, j]
    return Q, R


@programs(lambda draw, n: (draw.normal(size=(n + 2, n)),), 3, 20, rounding=1e-13)
def qr_modified_gram_schmidt(V):
    V = V.copy()
    n = V.shape[1]
    R = np.zeros((n, n))
    for i in range(n):
        R[i, i] = np.sqrt(np.dot(V[:, i], V[:, i]))
        V[:, i] /= R[i, i]
        for j in range(i + 1, n):
            R[i, j] = np.dot(V[:, i], V[:, j])
            V[:, j] -= R[i, j] * V[:, i]
    return V, R


@programs(lambda draw, n: (draw.normal(size=(n + 1, n)),), 3, 20, rounding=1e-13)
def qr_householder(A):
    m, n = A.shape
    R = A.copy()
    Q = np.eye(m)
    for k in range(n):
        x = R[k:, k]
        e = np.zeros_like(x)
        e[0] = np.copysign(np.linalg.norm(x), -A[k, k])
        u = x - e
        v = u / np.linalg.norm(u)
        Qk = np.eye(m)
        Qk[k:, k:] -= 2.0 * np.outer(v, v)
        R = Qk @ R
        Q = Q @ Qk.T
    return Q, np.triu(R)


@programs(lambda draw, n: (draw.normal(size=(n, n)),), 3, 15, rounding=1e-13)
def qr_givens(A):
    R = np.copy(A)
    n = R.shape[0]
    Q = np.identity(n)
    for j in range(n):
        for i in range(n - 1, j, -1):
            a, b = R[i - 1, j], R[i, j]
            if b == 0:
                continue
            r = np.hypot(a, b)
            c, s = a / r, -b / r
            G = np.array([[c, -s], [s, c]])
            R[i - 1:i + 1] = G @ R[i - 1:i + 1]
            Q[:, i - 1:i + 1] = Q[:, i - 1:i + 1] @ G.T
    return Q, R


@programs(lambda draw, n: (np.tril(dominant(draw, n)), draw.normal(size=n)), 5, 60, rounding=1e-13)
def forward_substitution(L, b):
    x = np.zeros(len(b))
    for i in range(len(b)):
        x[i] = (b[i] - L[i, :i].dot(x[:i])) / L[i, i]
    return x


@programs(lambda draw, n: (np.triu(dominant(draw, n)), draw.normal(size=n)), 4, 40)
def back_substitution_by_loops(U, y):
    n = y.size
    x = np.empty(n)
    for i in reversed(range(n)):
        acc = y[i]
        for j in range(i + 1, n):
            acc -= U[i, j] * x[j]
        x[i] = acc / U[i, i]
    return x


@programs(lambda draw, n: (draw.normal(size=n - 1), 4 + draw.random(n), draw.normal(size=n - 1), draw.normal(size=n)), 5, 100)
def thomas(a, b, c, d):
    """Tridiagonal solve, coefficients overwritten in copies."""
    nf = len(d)
    ac, bc, cc, dc = map(np.array, (a, b, c, d))
    for it in range(1, nf):
        mc = ac[it - 1] / bc[it - 1]
        bc[it] = bc[it] - mc * cc[it - 1]
        dc[it] = dc[it] - mc * dc[it - 1]
    xc = bc
    xc[-1] = dc[-1] / bc[-1]
    for il in range(nf - 2, -1, -1):
        xc[il] = (dc[il] - cc[il] * xc[il + 1]) / bc[il]
    return xc


@programs(lambda draw, n: (definite(draw, n), draw.normal(size=n)), 4, 30, rounding=1e-12)
def conjugate_gradients(A, b):
    A = 0.5 * (A + A.T)
    x = np.zeros_like(b)
    r = b - A @ x
    p = r.copy()
    rsold = r @ r
    for i in range(10 * len(b)):
        Ap = A @ p
        alpha = rsold / (p @ Ap)
        x += alpha * p
        r -= alpha * Ap
        rsnew = r @ r
        if np.sqrt(rsnew) < 1e-9:
            break
        p = r + (rsnew / rsold) * p
        rsold = rsnew
    return x


@programs(lambda draw, n: (dominant(draw, n), draw.normal(size=n)), 3, 20, rounding=1e-12)
def jacobi_with_tolerance(A, b, tol=1e-8, max_iter=200):
    D = np.diag(A)
    R = A - np.diagflat(D)
    x = np.zeros(len(b))
    error = np.inf
    iterations = 0
    while error > tol and iterations < max_iter:
        x_new = (b - np.dot(R, x)) / D
        error = np.linalg.norm(x_new - x)
        x = x_new
        iterations += 1
    return x


@programs(lambda draw, n: (dominant(draw, n), draw.normal(size=n)), 3, 15, rounding=1e-13)
def gauss_seidel_solver(A, b):
    n = A.shape[0]
    x = np.zeros_like(b, dtype=np.double)
    for k in range(8):
        x_old = x.copy()
        for i in range(n):
            x[i] = (b[i] - np.dot(A[i, :i], x[:i]) - np.dot(A[i, (i + 1):], x_old[(i + 1):])) / A[i, i]
        if np.linalg.norm(x - x_old, ord=np.inf) / np.linalg.norm(x, ord=np.inf) < 1e-12:
            break
    return x


@programs(lambda draw, n: (definite(draw, n),), 4, 30, rounding=1e-12)
def power_iteration(A):
    v = np.ones(A.shape[0])
    lam = 0.0
    for _ in range(100):
        w = A @ v
        new = np.sqrt(np.sum(w ** 2))
        v = w / new
        if abs(new - lam) < 1e-6:
            lam = new
            break
        lam = new
    return lam


@programs(lambda draw, n: (definite(draw, n),), 3, 8, rounding=1e-12)
def jacobi_eigenvalues(A):
    a = A.copy()
    n = len(a)
    for sweep in range(6):
        off = 0.0
        for p in range(n):
            for q in range(p + 1, n):
                off += a[p, q] ** 2
        if off < 1e-20:
            break
        for p in range(n - 1):
            for q in range(p + 1, n):
                if abs(a[p, q]) < 1e-14:
                    continue
                theta = (a[q, q] - a[p, p]) / (2 * a[p, q])
                t = (1.0 if theta >= 0 else -1.0) / (abs(theta) + np.sqrt(theta * theta + 1))
                c = 1 / np.sqrt(t * t + 1)
                s = t * c
                row_p, row_q = a[p, :].copy(), a[q, :].copy()
                a[p, :] = c * row_p - s * row_q
                a[q, :] = s * row_p + c * row_q
                col_p, col_q = a[:, p].copy(), a[:, q].copy()
                a[:, p] = c * col_p - s * col_q
                a[:, q] = s * col_p + c * col_q
    return np.sort(np.diag(a))


@programs(lambda draw, n: (definite(draw, n), draw.normal(size=n)), 4, 20, rounding=1e-12)
def lanczos(A, v):
    m = 3
    alphas, betas = [], []
    v = v / np.sqrt(v @ v)
    previous = 0 * v
    beta = 0.0
    for j in range(m):
        w = A @ v - beta * previous
        alpha = w @ v
        w -= alpha * v
        beta = np.sqrt(w @ w)
        previous, v = v, w / beta
        alphas.append(alpha)
        betas.append(beta)
    T = np.diag(alphas) + np.diag(betas[:-1], 1) + np.diag(betas[:-1], -1)
    return T


@programs(lambda draw, n: (dominant(draw, n) / 4,), 3, 12, rounding=1e-13)
def matrix_exponential_by_series(A):
    result = np.eye(len(A))
    term = np.eye(len(A))
    k = 1
    while np.max(np.abs(term)) > 1e-10:
        term = term @ A / k
        result += term
        k += 1
    return result


@programs(lambda draw, n: (dominant(draw, n),), 4, 20)
def gauss_jordan_inverse(m):
    n = len(m)
    aug = np.hstack([m, np.eye(n)])
    for i in range(n):
        aug[i] = aug[i] / aug[i, i]
        for j in range(n):
            if i != j:
                aug[j] -= aug[j, i] * aug[i]
    return aug[:, n:]


def row_pointers(draw, n):
    full = (draw.random((n, n)) < 0.4) | np.eye(n, dtype=bool)
    full = (np.random.default_rng(n).random((n, n)) < 0.4) | np.eye(n, dtype=bool)      # the same structure in each call
    indptr = np.concatenate([[0], np.cumsum(full.sum(1))])
    return draw.normal(size=indptr[-1]), np.nonzero(full)[1], indptr


@programs(lambda draw, n: (*row_pointers(draw, n), draw.normal(size=n)), 6, 60)
def csr_matvec(data, indices, indptr, x):
    n = len(indptr) - 1
    y = np.zeros(n)
    for i in range(n):
        for k in range(indptr[i], indptr[i + 1]):
            y[i] += data[k] * x[indices[k]]
    return y


@programs(lambda draw, n: (*row_pointers(draw, n), draw.normal(size=n)), 6, 100, rounding=1e-14)
def csr_matvec_by_rows(data, indices, indptr, x):
    y = np.empty(indptr.size - 1)
    for row, (start, stop) in enumerate(zip(indptr[:-1], indptr[1:])):
        y[row] = np.dot(data[start:stop], x[indices[start:stop]])
    return y


@programs(lambda draw, n: (draw.integers(0, n, 3 * n), draw.integers(0, n, 3 * n), draw.normal(size=3 * n), draw.normal(size=n)), 5, 100)
def coo_matvec(rows, cols, values, x):
    y = np.zeros(x.shape)
    np.add.at(y, rows, values * x[cols])
    return y


@programs(lambda draw, n: (draw.normal(size=(n, n)), draw.normal(size=(n, n))), 4, 60, rounding=1e-14)
def triangular_product_by_rows(L, B):
    out = np.zeros((L.shape[0], B.shape[1]))
    for i in range(L.shape[0]):
        out[i] = L[i, :i + 1] @ B[:i + 1]
    return out


@programs(lambda draw, n: (draw.normal(size=(n, n)),), 5, 200)
def sum_over_diagonal(a):
    total = 0.0
    for i in range(a.shape[0]):
        total += a[i, i]
    return total


@programs(lambda draw, n: (draw.normal(size=(n, 3)), draw.normal(size=n)), 5, 60)
def banded_matvec(bands, x):
    n = len(x)
    y = bands[:, 1] * x
    for i in range(n):
        if i > 0:
            y[i] += bands[i, 0] * x[i - 1]
        if i < n - 1:
            y[i] += bands[i, 2] * x[i + 1]
    return y


@programs(lambda draw, n: (np.abs(dominant(draw, n)), 0.85), 4, 30, rounding=1e-12)
def page_rank(links, damping):
    n = links.shape[0]
    M = links / links.sum(axis=0)
    rank = np.full(n, 1.0 / n)
    while True:
        new = (1 - damping) / n + damping * M.dot(rank)
        if np.abs(new - rank).sum() < 1e-8:
            return new
        rank = new


@programs(lambda draw, n: (draw.normal(size=(4 * n, n)), draw.normal(size=4 * n)), 3, 10, rounding=1e-12)
def least_squares_normal_equations(X, y):
    X = np.column_stack([np.ones(X.shape[0]), X])
    beta = np.linalg.solve(X.T @ X, X.T @ y)
    residual = y - X @ beta
    sigma2 = residual @ residual / (X.shape[0] - X.shape[1])
    return beta, sigma2


@programs(lambda draw, n: (draw.normal(size=(n, n)),), 4, 6)
def determinant_by_minors(m):
    def det(m):
        if m.shape[0] == 2:
            return m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0]
        total = 0
        for j in range(m.shape[0]):
            minor = np.delete(np.delete(m, 0, axis=0), j, axis=1)
            total += (-1) ** j * m[0, j] * det(minor)
        return total
    return det(m)
