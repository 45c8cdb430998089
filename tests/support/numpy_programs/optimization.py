"""Roots, minima and quadrature by hand, with tolerances."""

import numpy as np
from support.numpy_programs.program import Programs

programs = Programs()


@programs(lambda draw, n: (draw.uniform(0.1, 1e3),), 1, 1)
def newton_square_root(a):
    x = a
    while abs(x * x - a) > 1e-12 * a:
        x = 0.5 * (x + a / x)
    return x


@programs(lambda draw, n: (draw.uniform(1, 50),), 1, 1, wrt=())
def bisection(a):
    lo, hi = 0.0, 50.0
    while hi - lo > 1e-9:
        mid = 0.5 * (lo + hi)
        if mid * mid * mid - a > 0:
            hi = mid
        else:
            lo = mid
    return 0.5 * (lo + hi)


@programs(lambda draw, n: (draw.uniform(1, 5), 0.3), 1, 1)
def secant(a, b):
    def f(x):
        return np.exp(b * x) - a - x * 0.1

    x0, x1 = 1.0, 2.0
    for i in range(50):
        if abs(x1 - x0) < 1e-13:
            break
        x0, x1 = x1, x1 - f(x1) * (x1 - x0) / (f(x1) - f(x0))
    return x1


@programs(lambda draw, n: (draw.uniform(-1, 1), draw.uniform(0.1, 0.5)), 1, 1, wrt=())
def golden_section(c, k):
    def f(x):
        return (x - c) ** 2 + k * np.cos(3 * x)

    r = (np.sqrt(5) - 1) / 2
    a, b = -2.0, 3.0
    x1, x2 = b - r * (b - a), a + r * (b - a)
    f1, f2 = f(x1), f(x2)
    while abs(b - a) > 1e-6:
        if f1 < f2:
            b, x2, f2 = x2, x1, f1
            x1 = b - r * (b - a)
            f1 = f(x1)
        else:
            a, x1, f1 = x1, x2, f2
            x2 = a + r * (b - a)
            f2 = f(x2)
    return (a + b) / 2


@programs(lambda draw, n: (draw.normal(size=n), np.eye(n) * 2 + 0.1), 4, 20, rounding=1e-11)
def gradient_descent_with_backtracking(x, A):
    def f(x):
        return 0.5 * x @ A @ x + np.sum(np.cos(x))

    for it in range(4):
        g = A @ x - np.sin(x)
        if np.linalg.norm(g) < 1e-3:
            break
        t = 1.0
        while f(x - t * g) > f(x) - 0.5 * t * np.sum(g * g):
            t *= 0.5
        x = x - t * g
    return x


@programs(lambda draw, n: (draw.normal(size=n), 1 + draw.random(n)), 4, 30, rounding=1e-10)
def lbfgs(x, scale):
    def fun(x):
        return np.sum(scale * (x - 1) ** 2) + 0.1 * np.sum(x ** 4), 2 * scale * (x - 1) + 0.4 * x ** 3

    m = 3
    s_list, y_list = [], []
    f, g = fun(x)
    for k in range(6):
        q = g.copy()
        alphas = []
        for s, y in reversed(list(zip(s_list, y_list))):
            rho = 1.0 / np.dot(y, s)
            a = rho * np.dot(s, q)
            alphas.append((a, rho))
            q -= a * y
        if s_list:
            q *= np.dot(s_list[-1], y_list[-1]) / np.dot(y_list[-1], y_list[-1])
        for (s, y), (a, rho) in zip(zip(s_list, y_list), reversed(alphas)):
            b = rho * np.dot(y, q)
            q += s * (a - b)
        d = -q
        t = 1.0
        while True:
            x_new = x + t * d
            f_new, g_new = fun(x_new)
            if f_new <= f + 1e-4 * t * np.dot(g, d) or t < 1e-8:
                break
            t *= 0.5
        if len(s_list) == m:
            s_list.pop(0)
            y_list.pop(0)
        s_list.append(x_new - x)
        y_list.append(g_new - g)
        x, f, g = x_new, f_new, g_new
        if np.max(np.abs(g)) < 1e-5:
            break
    return x, f


@programs(lambda draw, n: (draw.uniform(-0.5, 0.5, 2), 1.0), 2, 2)
def nelder_mead(x0, b):
    def f(p):
        return (1 - p[0]) ** 2 + b * (p[1] - p[0] ** 2) ** 2

    simplex = [x0, x0 + np.array([0.5, 0.0]), x0 + np.array([0.0, 0.5])]
    values = [f(p) for p in simplex]
    for it in range(10):
        order = sorted(range(3), key=lambda i: values[i])
        simplex = [simplex[i] for i in order]
        values = [values[i] for i in order]
        center = (simplex[0] + simplex[1]) / 2
        reflected = center + (center - simplex[2])
        fr = f(reflected)
        if values[0] <= fr < values[1]:
            simplex[2], values[2] = reflected, fr
        elif fr < values[0]:
            expanded = center + 2 * (center - simplex[2])
            fe = f(expanded)
            if fe < fr:
                simplex[2], values[2] = expanded, fe
            else:
                simplex[2], values[2] = reflected, fr
        else:
            contracted = center + 0.5 * (simplex[2] - center)
            fc = f(contracted)
            if fc < values[2]:
                simplex[2], values[2] = contracted, fc
            else:
                for i in (1, 2):
                    simplex[i] = simplex[0] + 0.5 * (simplex[i] - simplex[0])
                    values[i] = f(simplex[i])
    return min(values)


@programs(lambda draw, n: (np.linspace(0, 2, n), 2 * np.exp(-np.linspace(0, 2, n)) + 0.1 * draw.normal(size=n), np.array([1.5, 0.7])),
          6, 40, rounding=1e-11)
def levenberg_marquardt(t, y, p):
    lam = 1e-2
    cost = np.sum((y - p[0] * np.exp(-p[1] * t)) ** 2)
    for it in range(8):
        e = np.exp(-p[1] * t)
        r = y - p[0] * e
        J = np.column_stack((e, -p[0] * t * e))
        H = J.T @ J
        step = np.linalg.solve(H + lam * np.diag(np.diag(H)), J.T @ r)
        trial = p + step
        new = np.sum((y - trial[0] * np.exp(-trial[1] * t)) ** 2)
        if new < cost:
            p, cost, lam = trial, new, lam / 10
        else:
            lam *= 10
        if np.linalg.norm(step) < 1e-5:
            break
    return p, cost


def soft_threshold(rho, lam):
    if rho < -lam:
        return rho + lam
    elif rho > lam:
        return rho - lam
    else:
        return 0.0


@programs(lambda draw, n: (draw.normal(size=(3 * n, n)), draw.normal(size=3 * n), 1.0), 4, 15, rounding=1e-12)
def lasso_coordinate_descent(X, y, lam):
    w = np.zeros(X.shape[1])
    for sweep in range(4):
        for j in range(X.shape[1]):
            residual = y - X @ w + X[:, j] * w[j]
            rho = X[:, j] @ residual
            w[j] = soft_threshold(rho, lam) / np.sum(X[:, j] ** 2)
    return w


@programs(lambda draw, n: (draw.normal(size=n),), 6, 60)
def project_on_simplex(v):
    u = np.sort(v)[::-1]
    css = np.cumsum(u) - 1
    ind = np.arange(len(v)) + 1
    cond = u - css / ind > 0
    rho = ind[cond][-1]
    theta = css[cond][-1] / rho
    return np.maximum(v - theta, 0)


class Adam:
    def __init__(self, lr=0.1, beta1=0.9, beta2=0.999, eps=1e-8):
        self.lr, self.beta1, self.beta2, self.eps = lr, beta1, beta2, eps
        self.m = None
        self.v = None
        self.t = 0

    def update(self, params, grads):
        if self.m is None:
            self.m = np.zeros_like(params)
            self.v = np.zeros_like(params)
        self.t += 1
        self.m = self.beta1 * self.m + (1 - self.beta1) * grads
        self.v = self.beta2 * self.v + (1 - self.beta2) * grads ** 2
        m_hat = self.m / (1 - self.beta1 ** self.t)
        v_hat = self.v / (1 - self.beta2 ** self.t)
        params -= self.lr * m_hat / (np.sqrt(v_hat) + self.eps)
        return params


@programs(lambda draw, n: (draw.normal(size=n), draw.normal(size=n)), 4, 50)
def adam_class(x, target):
    optimizer = Adam(lr=0.05)
    x = x.copy()
    for _ in range(5):
        x = optimizer.update(x, 2 * (x - target) + 0.1 * np.sin(x))
    return x


@programs(lambda draw, n: (draw.uniform(0.5, 2), draw.uniform(0.1, 1)), 1, 1, rounding=1e-14)
def romberg(a, b):
    """Richardson's table until two diagonals agree."""
    def f(x):
        return np.exp(-a * x) * np.cos(b * x)

    R = np.zeros((8, 8))
    h = 1.0
    R[0, 0] = 0.5 * h * (f(0.0) + f(1.0))
    for i in range(1, 8):
        h /= 2
        total = 0.0
        for k in range(1, 2 ** i, 2):
            total += f(k * h)
        R[i, 0] = 0.5 * R[i - 1, 0] + h * total
        for j in range(1, i + 1):
            R[i, j] = R[i, j - 1] + (R[i, j - 1] - R[i - 1, j - 1]) / (4 ** j - 1)
        if abs(R[i, i] - R[i - 1, i - 1]) < 1e-6:
            return R[i, i]
    return R[7, 7]


@programs(lambda draw, n: (draw.uniform(1, 3), 1e-4), 1, 1, wrt=(0,))
def adaptive_simpson(k, tol):
    def f(x):
        return np.sin(k * x) / (1 + x * x)

    def simpson(a, b):
        return (b - a) / 6 * (f(a) + 4 * f((a + b) / 2) + f(b))

    def recurse(a, b, whole, tol):
        mid = (a + b) / 2
        left, right = simpson(a, mid), simpson(mid, b)
        if abs(left + right - whole) < 15 * tol:
            return left + right + (left + right - whole) / 15
        return recurse(a, mid, left, tol / 2) + recurse(mid, b, right, tol / 2)

    return recurse(0.0, 2.0, simpson(0.0, 2.0), tol)


@programs(lambda draw, n: (draw.normal(size=n), draw.uniform(-1, 1)), 5, 30)
def horner(coefficients, x):
    y = 0.0
    dy = 0.0
    for c in coefficients:
        dy = dy * x + y
        y = y * x + c
    return y, dy


@programs(lambda draw, n: (draw.normal(size=(n, n)) * 0.3, draw.normal(size=n)), 4, 20, rounding=1e-12)
def fixed_point_iteration(W, x):
    for i in range(200):
        new = np.tanh(W @ x) + 0.1
        if np.max(np.abs(new - x)) < 1e-10:
            x = new
            break
        x = new
    else:
        raise RuntimeError("no convergence")
    return x


@programs(lambda draw, n: (draw.uniform(0.5, 2, n), draw.uniform(0.5, 2, n + 1), draw.random((n, n + 1)), 0.5), 3, 20, rounding=1e-12)
def sinkhorn(a, b, cost, eps):
    a, b = a / a.sum(), b / b.sum()
    K = np.exp(-cost / eps)
    u = np.ones_like(a)
    error, count = 1.0, 0
    while error > 1e-6 and count < 100:
        v = b / (K.T @ u)
        u_new = a / (K @ v)
        error = np.abs(u_new - u).max()
        u = u_new
        count += 1
    P = u[:, None] * K * v[None, :]
    return np.sum(P * cost)


@programs(lambda draw, n: (draw.uniform(5, 15), 100.0, 100.0, 0.03, 1.0), 1, 1, wrt=(0,))
def implied_volatility(price, S, K, r, T):
    def cdf(x):
        return 0.5 * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))

    def call(sigma):
        d1 = (np.log(S / K) + (r + 0.5 * sigma ** 2) * T) / (sigma * np.sqrt(T))
        return S * cdf(d1) - K * np.exp(-r * T) * cdf(d1 - sigma * np.sqrt(T))

    sigma = 0.3
    for _ in range(30):
        diff = call(sigma) - price
        if abs(diff) < 1e-8:
            break
        vega = (call(sigma + 1e-4) - call(sigma - 1e-4)) / 2e-4
        sigma -= diff / vega
    return sigma


@programs(lambda draw, n: (draw.normal(size=n),), 5, 16)
def durand_kerner_quadratic_factors(c):
    """Bairstow's method: real quadratic factors of a polynomial."""
    a = np.concatenate([[1.0], c[:4] + np.array([0.0, 3.0, 0.0, 2.0])])
    u, v = 0.5, 0.5
    n = len(a) - 1
    for it in range(40):
        b = np.zeros(n + 1)
        f = np.zeros(n + 1)
        for i in range(n + 1):
            b[i] = a[i] - (u * b[i - 1] if i >= 1 else 0) - (v * b[i - 2] if i >= 2 else 0)
            f[i] = b[i] - (u * f[i - 1] if i >= 1 else 0) - (v * f[i - 2] if i >= 2 else 0)
        det = f[n - 2] ** 2 - f[n - 1] * f[n - 3] + 0.1
        du = (b[n - 1] * f[n - 2] - b[n] * f[n - 3]) / det
        dv = (b[n] * f[n - 2] - b[n - 1] * f[n - 1]) / det
        u, v = u + 0.1 * np.clip(du, -1, 1), v + 0.1 * np.clip(dv, -1, 1)
        if it >= 3:
            break
    return u, v
