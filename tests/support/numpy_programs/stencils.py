"""Partial differential equations on grids, by slices and by loops."""

import numpy as np
from numpy import *
from support.numpy_programs.program import Programs

programs = Programs()


@programs(lambda draw, n: (draw.normal(size=n), 0.2), 8, 100)
def jacobi_1d(A, w):
    B = A.copy()
    A = A.copy()
    for t in range(1, 4):
        B[1:-1] = w * (A[:-2] + A[1:-1] + A[2:])
        A[1:-1] = w * (B[:-2] + B[1:-1] + B[2:])
    return A


@programs(lambda draw, n: (draw.normal(size=n), 0.1), 10, 200)
def heat_1d(u0, alpha):
    dx = 1.0
    dt = 0.4 * dx ** 2
    u = u0.copy()
    for _ in range(5):
        un = u.copy()
        for i in range(1, len(u) - 1):
            u[i] = un[i] + alpha * dt / dx ** 2 * (un[i + 1] - 2 * un[i] + un[i - 1])
        u[0] = 0.0
        u[-1] = u[-2]
    return u


@programs(lambda draw, n: (0.1 + 0.05 * draw.random(), draw.normal(size=(n, n))), 6, 50)
def heat_2d(nu, source):
    u = np.zeros(source.shape)
    u[0, :] = 1.0
    for _ in range(5):
        u[1:-1, 1:-1] += nu * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]) + source[1:-1, 1:-1]
    return u


@programs(lambda draw, n: (draw.normal(size=(n, n, n)),), 5, 20)
def heat_3d(A):
    B = np.copy(A)
    A = np.copy(A)
    for t in range(2):
        B[1:-1, 1:-1, 1:-1] = (0.125 * (A[2:, 1:-1, 1:-1] - 2.0 * A[1:-1, 1:-1, 1:-1] + A[:-2, 1:-1, 1:-1])
                               + 0.125 * (A[1:-1, 2:, 1:-1] - 2.0 * A[1:-1, 1:-1, 1:-1] + A[1:-1, :-2, 1:-1])
                               + 0.125 * (A[1:-1, 1:-1, 2:] - 2.0 * A[1:-1, 1:-1, 1:-1] + A[1:-1, 1:-1, 0:-2]) + A[1:-1, 1:-1, 1:-1])
        A[1:-1, 1:-1, 1:-1] = 0.5 * (B[2:, 1:-1, 1:-1] + B[:-2, 1:-1, 1:-1])
    return A


@programs(lambda draw, n: (draw.normal(size=(n, n)),), 6, 16)
def seidel_2d(A):
    A = A.copy()
    n = len(A)
    for t in range(2):
        for i in range(1, n - 1):
            A[i, 1:-1] += A[i - 1, :-2] + A[i - 1, 1:-1] + A[i - 1, 2:] + A[i, 2:] + A[i + 1, :-2] + A[i + 1, 1:-1] + A[i + 1, 2:]
            for j in range(1, n - 1):
                A[i, j] += A[i, j - 1]
                A[i, j] /= 9.0
    return A


@programs(lambda draw, n: (draw.normal(size=(n, n)), 1.5), 5, 16)
def successive_over_relaxation(phi, omega):
    phi = phi.copy()
    for sweep in range(60):
        largest = 0.0
        for i in range(1, phi.shape[0] - 1):
            for j in range(1, phi.shape[1] - 1):
                change = omega * (0.25 * (phi[i + 1, j] + phi[i - 1, j] + phi[i, j + 1] + phi[i, j - 1]) - phi[i, j])
                phi[i, j] += change
                if abs(change) > largest:
                    largest = abs(change)
        if largest < 1e-2:
            break
    return phi


@programs(lambda draw, n: (draw.normal(size=(n, n)),), 5, 20)
def adi(u):
    n = u.shape[0]
    u = u.copy()
    v = np.zeros_like(u)
    p = np.zeros_like(u)
    q = np.zeros_like(u)
    a, b = -0.3, 1.6
    d, e = -0.2, 1.4
    for t in range(2):
        v[0, 1:n - 1] = 1.0
        p[1:n - 1, 0] = 0.0
        q[1:n - 1, 0] = v[0, 1:n - 1]
        for j in range(1, n - 1):
            p[1:n - 1, j] = -a / (a * p[1:n - 1, j - 1] + b)
            q[1:n - 1, j] = (-d * u[j, 0:n - 2] + (1.0 + 2.0 * d) * u[j, 1:n - 1] - d * u[j, 2:n] - a * q[1:n - 1, j - 1]) / (
                a * p[1:n - 1, j - 1] + b)
        v[n - 1, 1:n - 1] = 1.0
        for j in range(n - 2, 0, -1):
            v[j, 1:n - 1] = p[1:n - 1, j] * v[j + 1, 1:n - 1] + q[1:n - 1, j]
        u[1:n - 1, 0] = 1.0
        p[1:n - 1, 0] = 0.0
        q[1:n - 1, 0] = u[1:n - 1, 0]
        for j in range(1, n - 1):
            p[1:n - 1, j] = -d / (d * p[1:n - 1, j - 1] + e)
            q[1:n - 1, j] = (-a * v[0:n - 2, j] + (1.0 + 2.0 * a) * v[1:n - 1, j] - a * v[2:n, j] - d * q[1:n - 1, j - 1]) / (
                d * p[1:n - 1, j - 1] + e)
        u[1:n - 1, n - 1] = 1.0
        for j in range(n - 2, 0, -1):
            u[1:n - 1, j] = p[1:n - 1, j] * u[1:n - 1, j + 1] + q[1:n - 1, j]
    return u


@programs(lambda draw, n: (draw.normal(size=n), 0.3), 6, 40)
def crank_nicolson(u, r):
    n = len(u)
    for step in range(2):
        rhs = u.copy()
        rhs[1:-1] = r / 2 * u[:-2] + (1 - r) * u[1:-1] + r / 2 * u[2:]
        diag = ones(n) * (1 + r)
        diag[0] = diag[-1] = 1.0
        for i in range(1, n - 1):
            lower = -r / 2
            w = lower / diag[i - 1]
            diag[i] -= w * (0.0 if i == 1 else -r / 2)
            rhs[i] -= w * rhs[i - 1]
        x = zeros(n)
        x[-1] = rhs[-1]
        for i in range(n - 2, 0, -1):
            x[i] = (rhs[i] + r / 2 * x[i + 1]) / diag[i]
        x[0] = rhs[0]
        u = x
    return u


@programs(lambda draw, n: (1 + 0.1 * draw.random((n, n)), 9.81), 5, 40)
def shallow_water(h, g):
    u = zeros(h.shape)
    v = zeros(h.shape)
    h = h + 0.0
    dt, dx = 0.01, 1.0
    for _ in range(3):
        u[1:-1, :] -= dt * g * (h[2:, :] - h[:-2, :]) / (2 * dx)
        v[:, 1:-1] -= dt * g * (h[:, 2:] - h[:, :-2]) / (2 * dx)
        u[0, :] = -u[1, :]
        u[-1, :] = -u[-2, :]
        v[:, 0], v[:, -1] = -v[:, 1], -v[:, -2]
        h[1:-1, 1:-1] -= dt * ((h[2:, 1:-1] * u[2:, 1:-1] - h[:-2, 1:-1] * u[:-2, 1:-1])
                               + (h[1:-1, 2:] * v[1:-1, 2:] - h[1:-1, :-2] * v[1:-1, :-2])) / (2 * dx)
    return h, u, v


@programs(lambda draw, n: (1.0 + 0.1 * draw.random(n), 0.1 * draw.normal(size=n)), 8, 60)
def shallow_water_1d_rusanov(h, hu):
    g, dx, dt = 9.81, 1.0, 0.02

    def flux(q):
        h, hu = q
        return np.array([hu, hu ** 2 / h + 0.5 * g * h ** 2])

    q = np.array([h, hu])
    for _ in range(3):
        f = flux(q)
        speed = np.max(np.abs(q[1] / q[0]) + np.sqrt(g * q[0]))
        face = 0.5 * (f[:, 1:] + f[:, :-1]) - 0.5 * speed * (q[:, 1:] - q[:, :-1])
        q[:, 1:-1] -= dt / dx * (face[:, 1:] - face[:, :-1])
    return q


def build_up_b(rho, dt, dx, dy, u, v):
    b = np.zeros_like(u)
    b[1:-1, 1:-1] = (rho * (1 / dt * ((u[1:-1, 2:] - u[1:-1, 0:-2]) / (2 * dx) + (v[2:, 1:-1] - v[0:-2, 1:-1]) / (2 * dy))
                            - ((u[1:-1, 2:] - u[1:-1, 0:-2]) / (2 * dx)) ** 2
                            - 2 * ((u[2:, 1:-1] - u[0:-2, 1:-1]) / (2 * dy) * (v[1:-1, 2:] - v[1:-1, 0:-2]) / (2 * dx))
                            - ((v[2:, 1:-1] - v[0:-2, 1:-1]) / (2 * dy)) ** 2))
    return b


def pressure_poisson(p, dx, dy, b, nit):
    pn = np.empty_like(p)
    for q in range(nit):
        pn = p.copy()
        p[1:-1, 1:-1] = (((pn[1:-1, 2:] + pn[1:-1, 0:-2]) * dy ** 2 + (pn[2:, 1:-1] + pn[0:-2, 1:-1]) * dx ** 2)
                         / (2 * (dx ** 2 + dy ** 2)) - dx ** 2 * dy ** 2 / (2 * (dx ** 2 + dy ** 2)) * b[1:-1, 1:-1])
        p[:, -1] = p[:, -2]
        p[0, :] = p[1, :]
        p[:, 0] = p[:, 1]
        p[-1, :] = 0
    return p


@programs(lambda draw, n: (1.0 + draw.random(), 0.1, n), 5, 21, wrt=(0, 1))
def cavity_flow(lid, nu, n):
    dx = dy = 2.0 / 4
    rho, dt = 1.0, 0.01
    u = np.zeros((5, 5))
    v = np.zeros((5, 5))
    p = np.zeros((5, 5))
    for _ in range(3):
        un, vn = u.copy(), v.copy()
        b = build_up_b(rho, dt, dx, dy, u, v)
        p = pressure_poisson(p, dx, dy, b, 4)
        u[1:-1, 1:-1] = (un[1:-1, 1:-1] - un[1:-1, 1:-1] * dt / dx * (un[1:-1, 1:-1] - un[1:-1, 0:-2])
                         - vn[1:-1, 1:-1] * dt / dy * (un[1:-1, 1:-1] - un[0:-2, 1:-1])
                         - dt / (2 * rho * dx) * (p[1:-1, 2:] - p[1:-1, 0:-2])
                         + nu * (dt / dx ** 2 * (un[1:-1, 2:] - 2 * un[1:-1, 1:-1] + un[1:-1, 0:-2])
                                 + dt / dy ** 2 * (un[2:, 1:-1] - 2 * un[1:-1, 1:-1] + un[0:-2, 1:-1])))
        v[1:-1, 1:-1] = (vn[1:-1, 1:-1] - dt / (2 * rho * dy) * (p[2:, 1:-1] - p[0:-2, 1:-1])
                         + nu * dt / dx ** 2 * (vn[1:-1, 2:] - 2 * vn[1:-1, 1:-1] + vn[1:-1, 0:-2]))
        u[0, :] = 0
        u[:, 0] = 0
        u[:, -1] = 0
        u[-1, :] = lid
        v[0, :] = 0
        v[-1, :] = 0
    return u, v, p


@programs(lambda draw, n: (1 + draw.random(n), draw.normal(size=5)), 12, 200)
def fdtd_1d(eps, pulse):
    nx = len(eps)
    ez = np.zeros(nx)
    hy = np.zeros(nx - 1)
    probe = []
    for t in range(len(pulse)):
        hy += 0.5 * (ez[1:] - ez[:-1])
        ez[1:-1] += 0.5 / eps[1:-1] * (hy[1:] - hy[:-1])
        ez[nx // 2] += pulse[t]
        probe.append(ez[nx // 2 + 2])
    return np.array(probe), ez


@programs(lambda draw, n: (draw.normal(size=(n, n)), draw.normal(size=(n, n)), draw.normal(size=(n, n)), draw.normal(size=4)), 5, 40)
def fdtd_2d(ex, ey, hz, fict):
    ex, ey, hz = ex.copy(), ey.copy(), hz.copy()
    for t in range(len(fict)):
        ey[0, :] = fict[t]
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
    return ex, ey, hz


@programs(lambda draw, n: (draw.normal(size=n), 0.1), 8, 100)
def burgers_upwind(u, nu):
    dt = dx = 0.1
    u = array(u)
    for _ in range(3):
        un = u.copy()
        for i in range(len(u)):
            left, right = un[i - 1], un[(i + 1) % len(u)]
            if un[i] > 0:
                slope = (un[i] - left) / dx
            else:
                slope = (right - un[i]) / dx
            u[i] = un[i] - dt * un[i] * slope + nu * dt * (right - 2 * un[i] + left)
    return u


@programs(lambda draw, n: (draw.random(n),), 10, 100)
def advection_with_limiter(u):
    """Minmod slopes by masks."""
    c = 0.5
    for _ in range(3):
        left = u - np.roll(u, 1)
        right = np.roll(u, -1) - u
        slope = np.zeros_like(u)
        same = left * right > 0
        smaller = np.abs(left) < np.abs(right)
        slope[same & smaller] = left[same & smaller]
        slope[same & ~smaller] = right[same & ~smaller]
        face = u + 0.5 * (1 - c) * slope
        u = u - c * (face - np.roll(face, 1))
    return u


@programs(lambda draw, n: (sin(linspace(0, 3, n)) * draw.random(), 0.5), 10, 100)
def wave_equation(u0, c):
    nt = 6
    u = zeros((nt, len(u0)))
    u[0] = u0
    u[1, 1:-1] = u[0, 1:-1] + 0.5 * c ** 2 * (u[0, 2:] - 2 * u[0, 1:-1] + u[0, :-2])
    for n in range(1, nt - 1):
        u[n + 1, 1:-1] = 2 * u[n, 1:-1] - u[n - 1, 1:-1] + c ** 2 * (u[n, 2:] - 2 * u[n, 1:-1] + u[n, :-2])
    return u


def laplacian(Z):
    Zn = Z[0:-2, 1:-1]
    Zs = Z[2:, 1:-1]
    Zw = Z[1:-1, :-2]
    Ze = Z[1:-1, 2:]
    return Zn + Zs + Zw + Ze - 4 * Z[1:-1, 1:-1]


@programs(lambda draw, n: (0.05 + 0.01 * draw.random(), 0.06, draw.random((n, n))), 6, 40)
def gray_scott(F, k, seed):
    U = np.ones(seed.shape)
    V = np.zeros(seed.shape)
    U[2:4, 2:4], V[2:4, 2:4] = 0.5, 0.25
    V += 0.05 * seed
    u, v = U[1:-1, 1:-1], V[1:-1, 1:-1]
    for i in range(3):
        Lu = laplacian(U)
        Lv = laplacian(V)
        uvv = u * v * v
        u += 0.16 * Lu - uvv + F * (1 - u)
        v += 0.08 * Lv + uvv - (F + k) * v
        for Z in (U, V):
            Z[0, :] = Z[1, :]
            Z[-1, :] = Z[-2, :]
    return V


@programs(lambda draw, n: (draw.normal(size=(n, n)),), 5, 30)
def laplace_until_converged(boundary):
    p = boundary.copy()
    p[1:-1, 1:-1] = 0
    l1norm = 1
    while l1norm > 1e-2:
        pn = p.copy()
        p[1:-1, 1:-1] = (pn[1:-1, 2:] + pn[1:-1, :-2] + pn[2:, 1:-1] + pn[:-2, 1:-1]) / 4
        l1norm = np.sum(np.abs(p - pn)) / np.sum(np.abs(pn))
    return p


@programs(lambda draw, n: (draw.normal(size=n),), 8, 64, rounding=1e-13)
def multigrid_v_cycle(f):
    def smooth(u, f, h):
        for _ in range(2):
            u[1:-1] = 0.5 * (u[2:] + u[:-2] + h * h * f[1:-1])
        return u

    def cycle(u, f, h):
        u = smooth(u, f, h)
        if len(u) <= 3:
            return u
        r = np.zeros(len(u))
        r[1:-1] = f[1:-1] + (u[2:] - 2 * u[1:-1] + u[:-2]) / h ** 2
        rc = r[::2].copy()
        rc[1:-1] = 0.25 * r[1:-3:2] + 0.5 * r[2:-2:2] + 0.25 * r[3:-1:2]
        e = cycle(np.zeros(len(rc)), rc, 2 * h)
        fine = np.zeros(len(u))
        fine[::2] = e
        fine[1::2] = 0.5 * (e[:-1] + e[1:])
        return smooth(u + fine, f, h)

    f = np.append(f, 0.0)
    return cycle(np.zeros(len(f)), f, 1.0 / (len(f) - 1))
