"""Statistics and time series: filters, likelihoods, clusters, histograms."""

import numpy as np
from support.numpy_programs.program import Programs

programs = Programs()


def rows(draw, *shape):
    p = 0.1 + draw.random(shape)
    return p / p.sum(-1, keepdims=True)


@programs(lambda draw, n: (rows(draw, 3), rows(draw, 3, 3), rows(draw, 3, 4), np.random.default_rng(2).integers(0, 4, n)),
          5, 50, rounding=1e-13)
def hmm_forward_backward(pi, A, B, obs):
    T, S = len(obs), len(pi)
    alpha = np.zeros((T, S))
    beta = np.zeros((T, S))
    scale = np.zeros(T)
    alpha[0] = pi * B[:, obs[0]]
    scale[0] = alpha[0].sum()
    alpha[0] /= scale[0]
    for t in range(1, T):
        alpha[t] = (alpha[t - 1] @ A) * B[:, obs[t]]
        scale[t] = np.sum(alpha[t])
        alpha[t] /= scale[t]
    beta[T - 1] = 1.0
    for t in reversed(range(T - 1)):
        beta[t] = A @ (B[:, obs[t + 1]] * beta[t + 1]) / scale[t + 1]
    gamma = alpha * beta
    return np.log(scale).sum(), gamma / gamma.sum(axis=1, keepdims=True)


@programs(lambda draw, n: (np.array([0.1, 0.15, 0.7]) + 0.05 * draw.random(3), draw.normal(size=n)), 8, 300)
def garch(theta, returns):
    omega, alpha, beta = theta
    if omega <= 0 or alpha < 0 or beta < 0 or alpha + beta >= 1:
        return np.inf
    T = len(returns)
    s2 = np.empty(T)
    s2[0] = np.var(returns)
    for t in range(1, T):
        s2[t] = omega + alpha * returns[t - 1] ** 2 + beta * s2[t - 1]
    return 0.5 * np.sum(np.log(2 * np.pi * s2) + returns ** 2 / s2)


@programs(lambda draw, n: (np.array([[1, 0.1], [0, 0.9]]), np.array([[1.0, 0.0]]), 0.01 * np.eye(2), 0.1 * np.eye(1),
                           draw.normal(size=(n, 1))), 4, 100, rounding=1e-12)
def kalman_filter(F, H, Q, R, ys):
    x = np.zeros(2)
    P = np.eye(2)
    xs, ll = [], 0.0
    for y in ys:
        x = F @ x
        P = F @ P @ F.T + Q
        S = H @ P @ H.T + R
        K = P @ H.T @ np.linalg.inv(S)
        v = y - H @ x
        x = x + K @ v
        P = (np.eye(2) - K @ H) @ P
        ll -= 0.5 * (v @ np.linalg.solve(S, v) + np.log(np.linalg.det(S)) + np.log(2 * np.pi))
        xs.append(x)
    return ll, np.array(xs)


@programs(lambda draw, n: (0.9, 0.5, 0.3, np.where(draw.random(n) < 0.3, np.nan, draw.normal(size=n))), 8, 200, wrt=(0, 1, 2))
def scalar_kalman_with_gaps(phi, q, r, y):
    a, p = 0.0, 1.0
    loglik = 0.0
    filtered = np.zeros(len(y))
    for t in range(len(y)):
        a, p = phi * a, phi ** 2 * p + q
        if not np.isnan(y[t]):
            f = p + r
            v = y[t] - a
            k = p / f
            a += k * v
            p *= 1 - k
            loglik += -0.5 * (np.log(2 * np.pi * f) + v * v / f)
        filtered[t] = a
    return loglik, filtered


@programs(lambda draw, n: (0.8, draw.normal(size=n), draw.normal(size=(n, 12)), draw.random(n)), 4, 40, rounding=1e-13)
def particle_filter(phi, ys, noise, uniforms):
    """Bootstrap filter with systematic resampling when the effective size is small; the noise is given."""
    N = noise.shape[1]
    x = np.zeros(N)
    w = np.ones(N) / N
    means = []
    loglik = 0.0
    for t, y in enumerate(ys):
        x = phi * x + 0.5 * noise[t]
        w = w * np.exp(-0.5 * (y - x) ** 2)
        total = np.sum(w)
        loglik += np.log(total)
        w = w / total
        means.append(np.sum(w * x))
        if 1.0 / np.sum(w ** 2) < N / 2:
            positions = (np.arange(N) + uniforms[t]) / N
            cumulative = np.cumsum(w)
            i, j = 0, 0
            indexes = np.zeros(N, dtype=int)
            while i < N:
                if positions[i] < cumulative[j] or j == N - 1:
                    indexes[i] = j
                    i += 1
                else:
                    j += 1
            x = x[indexes]
            w = np.ones(N) / N
    return loglik, np.array(means)


@programs(lambda draw, n: (draw.normal(size=n), np.array([-1.0, 1.0]), np.ones(2), np.full(2, 0.5)), 10, 100, rounding=1e-13)
def em_for_mixture(x, mu, sigma, weights):
    mu, sigma, weights = mu.copy(), sigma.copy(), weights.copy()
    old = -np.inf
    for it in range(10):
        dens = np.zeros((len(x), 2))
        for k in range(2):
            dens[:, k] = weights[k] * np.exp(-0.5 * ((x - mu[k]) / sigma[k]) ** 2) / (sigma[k] * np.sqrt(2 * np.pi))
        total = dens.sum(axis=1, keepdims=True)
        resp = dens / total
        ll = np.log(total).sum()
        Nk = resp.sum(axis=0)
        mu[:] = (resp * x[:, None]).sum(axis=0) / Nk
        for k in range(2):
            sigma[k] = np.sqrt(np.sum(resp[:, k] * (x - mu[k]) ** 2) / Nk[k])
        weights = Nk / len(x)
        if abs(ll - old) < 1e-2:
            break
        old = ll
    return ll, mu, sigma


@programs(lambda draw, n: (draw.normal(size=(n, 2)) + 3 * (np.arange(n)[:, None] % 2),), 10, 100, rounding=1e-14)
def k_means(X, k=2):
    centers = X[:k].copy()
    while True:
        distances = ((X[:, None, :] - centers[None, :, :]) ** 2).sum(axis=2)
        labels = np.argmin(distances, axis=1)
        new = centers.copy()
        for j in range(k):
            if np.any(labels == j):
                new[j] = X[labels == j].mean(axis=0)
        if np.allclose(new, centers):
            return new, labels
        centers = new


@programs(lambda draw, n: (draw.normal(size=n), draw.random(n)), 12, 200)
def histogram_by_loops(x, weights):
    edges = np.linspace(-3, 3, 7)
    counts = np.zeros(6, dtype=int)
    sums = np.zeros(6)
    for v, w in zip(x, weights):
        if v < edges[0] or v >= edges[-1]:
            continue
        for b in range(6):
            if edges[b] <= v < edges[b + 1]:
                counts[b] += 1
                sums[b] += w * v
                break
    return counts, sums


@programs(lambda draw, n: (2 * draw.random(n), draw.random(n)), 10, 300)
def histogram_by_index(x, w):
    hist = np.zeros(5)
    for i in range(len(x)):
        k = int(x[i] / 0.5)
        if 0 <= k < 5:
            hist[k] += w[i]
    return hist


@programs(lambda draw, n: (0.3, draw.normal(size=n)), 8, 300)
def exponential_smoothing(alpha, series):
    level = series[0]
    sse = 0
    forecasts = [level]
    for y in series[1:]:
        error = y - level
        sse += error ** 2
        level += alpha * error
        forecasts.append(level)
    return sse / len(series), np.asarray(forecasts)


@programs(lambda draw, n: (0.4, 0.1, 0.3, np.abs(draw.normal(size=n)) + 5), 10, 100)
def holt_winters(alpha, beta, gamma, y):
    period = 4
    season = [y[i] - np.mean(y[:period]) for i in range(period)]
    level, trend = np.mean(y[:period]), 0.0
    errors = []
    for t in range(period, len(y)):
        s = season[t % period]
        errors.append(y[t] - (level + trend + s))
        last = level
        level = alpha * (y[t] - s) + (1 - alpha) * (level + trend)
        trend = beta * (level - last) + (1 - beta) * trend
        season[t % period] = gamma * (y[t] - level) + (1 - gamma) * s
    return np.mean(np.square(errors))


@programs(lambda draw, n: (np.array([0.5, 0.3]), draw.normal(size=n)), 8, 300)
def arma_likelihood(theta, y):
    phi, ma = theta
    e = np.zeros(len(y))
    for t in range(len(y)):
        e[t] = y[t]
        if t > 0:
            e[t] -= phi * y[t - 1] + ma * e[t - 1]
    sigma2 = np.mean(e ** 2)
    return -0.5 * len(y) * (np.log(2 * np.pi * sigma2) + 1)


@programs(lambda draw, n: (draw.normal(size=n), draw.random(n), np.array([0.2])), 8, 100)
def metropolis_with_given_noise(steps, uniforms, start):
    x = start[0]
    samples = np.empty(len(steps))
    accepted = 0
    for i in range(len(steps)):
        proposal = x + steps[i]
        if np.log(uniforms[i]) < -0.5 * proposal ** 2 + 0.5 * x ** 2:
            x = proposal
            accepted += 1
        samples[i] = x
    return samples, accepted / len(steps)


@programs(lambda draw, n: (draw.normal(size=n),), 8, 40)
def isotonic_by_pooling(y):
    """Pool adjacent violators, blocks in lists."""
    values, sizes = [], []
    for v in y:
        values.append(v)
        sizes.append(1)
        while len(values) > 1 and values[-2] > values[-1]:
            total = values[-2] * sizes[-2] + values[-1] * sizes[-1]
            sizes[-2] += sizes[-1]
            values[-2] = total / sizes[-2]
            values.pop()
            sizes.pop()
    return np.repeat(values, sizes)


@programs(lambda draw, n: (np.sort(draw.random(n)), draw.normal(size=n), 0.3), 6, 40, rounding=1e-13)
def local_regression(x, y, bandwidth):
    fitted = np.zeros(len(x))
    for i in range(len(x)):
        u = np.abs(x - x[i]) / bandwidth
        w = np.where(u < 1, (1 - u ** 3) ** 3, 0.0)
        sw, sx, sy = np.sum(w), np.sum(w * x), np.sum(w * y)
        sxx, sxy = np.sum(w * x * x), np.sum(w * x * y)
        det = sw * sxx - sx ** 2
        if abs(det) < 1e-12:
            fitted[i] = sy / sw
        else:
            slope = (sw * sxy - sx * sy) / det
            fitted[i] = (sy - slope * sx) / sw + slope * x[i]
    return fitted


@programs(lambda draw, n: (draw.exponential(size=n), draw.random(n) < 0.7), 8, 60)
def kaplan_meier(times, observed):
    order = np.argsort(times)
    times, observed = times[order], observed[order]
    survival = 1.0
    curve = []
    at_risk = len(times)
    for t, event in zip(times, observed):
        if event:
            survival *= 1 - 1 / at_risk
        curve.append(survival * t)
        at_risk -= 1
    return np.array(curve)


@programs(lambda draw, n: (draw.normal(size=n),), 10, 200)
def running_maximum_drawdown(returns):
    wealth = np.cumprod(1 + 0.05 * returns)
    peak = wealth[0]
    worst = 0.0
    for w in wealth:
        if w > peak:
            peak = w
        drawdown = (peak - w) / peak
        if drawdown > worst:
            worst = drawdown
    return worst


@programs(lambda draw, n: (draw.normal(size=n), 0.5), 8, 100, rounding=1e-14)
def kernel_density(x, h):
    grid = np.linspace(-2, 2, 5)
    density = np.zeros(grid.shape)
    for i, g in enumerate(grid):
        density[i] = np.mean(np.exp(-0.5 * ((g - x) / h) ** 2)) / (h * np.sqrt(2 * np.pi))
    return density


@programs(lambda draw, n: (draw.normal(size=n), draw.random(n) < 0.3, np.array([1.0, 2.0])), 10, 100)
def outliers_replaced(x, bad, bounds):
    x = np.array(x)
    x[bad] = np.median(x[~bad])
    z = (x - x.mean()) / x.std()
    x[np.abs(z) > bounds[0]] = bounds[1]
    return x, (np.abs(z) > bounds[0]).sum()


@programs(lambda draw, n: (draw.normal(size=n), 3), 8, 60, wrt=(0,))
def moving_average_verbose(x, window):
    out = []
    for i in range(len(x) - window + 1):
        value = x[i:i + window].mean()
        print(f"window {i}: {value:.3f}")
        out.append(value)
    print("largest", max(out))
    return np.array(out)
