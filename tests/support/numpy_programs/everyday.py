"""What people write every day: helpers with checks, sorting, money, signals, small simulations."""

import math
import numbers

import numpy as np
from support.numpy_programs.program import Programs

programs = Programs()


def as_vector(x):
    if isinstance(x, (float, int, np.floating, numbers.Number)):
        return np.array([x])
    if not isinstance(x, np.ndarray):
        x = np.array(x)
    if x.ndim == 0:
        return x.reshape(1)
    return np.asarray(x, dtype=float)


@programs(lambda draw, n: (draw.normal(size=n), draw.normal()), 4, 100)
def helper_with_type_checks(a, b):
    a, b = as_vector(a), as_vector(b)
    if np.isscalar(b) or not hasattr(b, "__len__"):
        return a * 3
    if np.ndim(b) == 1 and len(b) == 1:
        return a * b[0]
    return a + b


def unit_step(x):
    x = np.asarray(x)
    scalar = x.ndim == 0
    x = np.atleast_1d(x)
    y = np.zeros_like(x)
    y[x > 0] = np.sqrt(x[x > 0])
    return y[0] if scalar else y


@programs(lambda draw, n: (draw.normal(size=n), abs(draw.normal())), 6, 100)
def scalar_or_array(x, s):
    return unit_step(x), unit_step(s)


@programs(lambda draw, n: (draw.normal(size=n),), 5, 12)
def bubble_sort(x):
    a = x.copy()
    n = len(a)
    for i in range(n):
        swapped = False
        for j in range(n - 1 - i):
            if a[j] > a[j + 1]:
                a[j], a[j + 1] = a[j + 1], a[j]
                swapped = True
        if not swapped:
            break
    return a * np.arange(n)


@programs(lambda draw, n: (draw.normal(size=n),), 5, 16)
def insertion_sort(x):
    a = [v for v in x]
    for i in range(1, len(a)):
        key = a[i]
        j = i - 1
        while j >= 0 and a[j] > key:
            a[j + 1] = a[j]
            j -= 1
        a[j + 1] = key
    return np.array(a)


@programs(lambda draw, n: (draw.normal(size=n),), 8, 100)
def quicksort_with_masks(x):
    if len(x) <= 1:
        return x
    pivot = x[len(x) // 2]
    return np.concatenate([quicksort_with_masks(x[x < pivot]), x[x == pivot], quicksort_with_masks(x[x > pivot])])


@programs(lambda draw, n: (draw.normal(size=n), draw.normal(size=n)), 8, 64)
def fft_by_recursion(re, im):
    n = len(re)
    if n == 1:
        return re, im
    er, ei = fft_by_recursion(re[::2], im[::2])
    odr, odi = fft_by_recursion(re[1::2], im[1::2])
    k = np.arange(n // 2)
    c, s = np.cos(-2 * np.pi * k / n), np.sin(-2 * np.pi * k / n)
    tr, ti = c * odr - s * odi, c * odi + s * odr
    return np.concatenate([er + tr, er - tr]), np.concatenate([ei + ti, ei - ti])


@programs(lambda draw, n: (100 + draw.normal(), 100.0, 0.05, 0.2, 1.0, n), 5, 60, wrt=(0, 1, 2, 3, 4))
def american_put_binomial(S, K, r, sigma, T, steps):
    dt = T / steps
    u = np.exp(sigma * np.sqrt(dt))
    d = 1 / u
    p = (np.exp(r * dt) - d) / (u - d)
    V = np.zeros(steps + 1)
    for j in range(steps + 1):
        V[j] = max(K - S * u ** j * d ** (steps - j), 0)
    for i in range(steps - 1, -1, -1):
        for j in range(i + 1):
            hold = np.exp(-r * dt) * (p * V[j + 1] + (1 - p) * V[j])
            V[j] = max(hold, K - S * u ** j * d ** (i - j))
    return V[0]


@programs(lambda draw, n: (100.0, 0.03, 0.2, draw.normal(size=(n, 4))), 6, 500, rounding=1e-14)
def barrier_option(S0, r, sigma, z):
    payoffs = np.zeros(len(z))
    for i in range(len(z)):
        s = S0
        alive = True
        for e in z[i]:
            s *= math.exp((r - 0.5 * sigma ** 2) * 0.25 + sigma * math.sqrt(0.25) * e)
            if s < 85.0:
                alive = False
                break
        if alive:
            payoffs[i] = max(s - 100.0, 0.0)
    return np.exp(-r) * payoffs.mean()


@programs(lambda draw, n: (np.concatenate([[-100.0], 30 + 10 * draw.random(5)]),), 6, 6, rounding=1e-15)
def internal_rate_of_return(flows):
    rate = 0.1
    for _ in range(100):
        npv = sum(cf / (1 + rate) ** t for t, cf in enumerate(flows))
        slope = sum(-t * cf / (1 + rate) ** (t + 1) for t, cf in enumerate(flows))
        new = rate - npv / slope
        if abs(new - rate) < 1e-10:
            return new
        rate = new
    return float("nan")


@programs(lambda draw, n: (1000 + 50 * draw.random(), 0.01, 210.0), 1, 1)
def loan_until_paid(balance, rate, payment):
    months = 0
    interest = 0.0
    while balance > 0:
        charge = balance * rate
        interest += charge
        balance = balance + charge - payment
        months += 1
    return interest, months


@programs(lambda draw, n: (draw.uniform(0, 120000),), 1, 1)
def income_tax(income):
    brackets = [(10000, 0.0), (40000, 0.2), (90000, 0.35), (float("inf"), 0.45)]
    tax = 0.0
    previous = 0.0
    for limit, rate in brackets:
        if income > limit:
            tax += (limit - previous) * rate
            previous = limit
        else:
            tax += (income - previous) * rate
            break
    return tax


@programs(lambda draw, n: (draw.normal(size=n), np.array([0.2, 0.3, 0.2]), np.array([1.0, -0.4])), 8, 300)
def iir_filter(x, b, a):
    y = np.zeros(len(x))
    for n in range(len(x)):
        for k in range(len(b)):
            if n - k >= 0:
                y[n] += b[k] * x[n - k]
        for k in range(1, len(a)):
            if n - k >= 0:
                y[n] -= a[k] * y[n - k]
    return y


@programs(lambda draw, n: (draw.normal(size=n), draw.normal(size=3)), 6, 100)
def full_convolution(x, h):
    y = np.zeros(len(x) + len(h) - 1)
    for i in range(len(x)):
        for j in range(len(h)):
            y[i + j] += x[i] * h[j]
    return y


@programs(lambda draw, n: (np.sort(draw.random(n)), draw.normal(size=n), draw.random(4)), 6, 60)
def linear_interpolation(xp, fp, x):
    out = np.empty(len(x))
    for i, v in enumerate(x):
        if v <= xp[0]:
            out[i] = fp[0]
        elif v >= xp[-1]:
            out[i] = fp[-1]
        else:
            k = np.searchsorted(xp, v)
            w = (v - xp[k - 1]) / (xp[k] - xp[k - 1])
            out[i] = (1 - w) * fp[k - 1] + w * fp[k]
    return out


@programs(lambda draw, n: (np.where(draw.random((n, n)) < 0.5, 1.0, -1.0), draw.random((3, n, n)), 0.4), 4, 16, wrt=())
def ising_sweeps(spins, uniforms, beta):
    s = spins.copy()
    n = len(s)
    for sweep in range(2):
        for i in range(n):
            for j in range(n):
                nb = s[(i + 1) % n, j] + s[i - 1, j] + s[i, (j + 1) % n] + s[i, j - 1]
                dE = 2 * s[i, j] * nb
                if dE <= 0 or uniforms[sweep, i, j] < np.exp(-beta * dE):
                    s[i, j] = -s[i, j]
    return s, s.mean()


@programs(lambda draw, n: (draw.integers(0, 50, n), 7), 5, 30)
def greatest_common_divisors(numbers, other):
    out = np.zeros(len(numbers), dtype=int)
    for i, a in enumerate(numbers):
        b = other
        while b:
            a, b = b, a % b
        out[i] = a
    return out


@programs(lambda draw, n: (np.int64(draw.integers(1, 30)),), 1, 1)
def collatz(n):
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps


@programs(lambda draw, n: (draw.random(n), draw.random(n), 5.0), 6, 60)
def inventory_simulation(demand, lead, order_up_to):
    stock = order_up_to
    pending = []
    lost = holding = 0.0
    for day in range(len(demand)):
        arrived = [q for due, q in pending if due <= day]
        pending = [(due, q) for due, q in pending if due > day]
        stock += sum(arrived)
        want = 3 * demand[day]
        if want > stock:
            lost += want - stock
            stock = 0.0
        else:
            stock -= want
        if stock < 3.0:
            pending.append((day + (2 if lead[day] > 0.5 else 1), order_up_to - stock))
        holding += 0.1 * stock
    return holding + 2 * lost


@programs(lambda draw, n: (draw.normal(size=(n, 3)),), 6, 60)
def statistics_dict(data):
    result = {}
    for name, column in zip("abc", data.T):
        m = np.mean(column)
        s = np.std(column, ddof=1)
        result[name] = {"mean": m, "std": s, "outliers": int(np.sum(np.abs(column - m) > s)), "range": (np.min(column), np.max(column))}
    result["best"] = max("abc", key=lambda k: result[k]["mean"])
    return result


@programs(lambda draw, n: (draw.normal(size=n),), 10, 100)
def piecewise_by_masks(x):
    y = np.empty_like(x)
    m1 = x < -0.5
    m2 = (x >= -0.5) & (x < 0.5)
    m3 = ~(m1 | m2)
    y[m1] = np.exp(x[m1])
    y[m2] = x[m2] ** 2 + 1
    y[m3] = np.log(x[m3] + 1)
    y[y > 1.2] *= 0.5
    return y.sum(), y[m2].mean(), np.count_nonzero(m3)


@programs(lambda draw, n: (np.where(draw.random(n) < 0.2, np.nan, draw.normal(size=n)),), 10, 100, wrt=())
def fill_missing_values(x):
    x = x.copy()
    last = 0.0
    for i in range(len(x)):
        if np.isnan(x[i]):
            x[i] = last
        else:
            last = x[i]
    assert not np.any(np.isnan(x))
    return x


@programs(lambda draw, n: (draw.normal(size=n), draw.normal(size=n)), 6, 100)
def writes_to_argument(x, y):
    """Normalises its first argument in place, as many programs do, and gives something else."""
    x -= x.mean()
    x /= np.sqrt((x ** 2).sum())
    return np.dot(x, y)


@programs(lambda draw, n: (draw.normal(size=(n, n)),), 4, 40)
def relu_in_place(x):
    x[x < 0] = 0
    x[0, :] += 1.0
    return x.sum(axis=1)


@programs(lambda draw, n: (draw.uniform(0.5, 3), draw.uniform(0.1, 0.9)), 1, 1)
def math_functions(x, y):
    a = math.sqrt(x) + math.exp(-y) * math.log(x + 1)
    b = math.atan2(y, x) + math.pow(x, 1.5) + math.tanh(y) + math.fabs(-y)
    c = math.floor(10 * x) + round(7 * y) + float(x) * 0.5
    return a, b, a * b + c


@programs(lambda draw, n: (draw.uniform(1, 6.5), draw.normal(size=8)), 1, 1)
def number_of_terms_from_value(x, table):
    n = int(x)
    total = 0.0
    for i in range(n):
        total += x ** i / (i + 1)
    return total + table[n] * x, n


@programs(lambda draw, n: (draw.normal(size=n), 0.5), 6, 60)
def early_returns(x, limit):
    if np.any(np.isnan(x)):
        return np.nan
    if np.all(np.abs(x) < limit):
        return np.sum(x)
    total = 0.0
    for v in x:
        if v > 2.0:
            return total
        if v < -limit:
            continue
        total += v * v
    return total


@programs(lambda draw, n: (draw.normal(size=n), draw.uniform(-1, 1)), 5, 20)
def chebyshev_clenshaw(c, x):
    b1 = b2 = 0.0
    for a in c[:0:-1]:
        b1, b2 = 2 * x * b1 - b2 + a, b1
    return x * b1 - b2 + c[0]


@programs(lambda draw, n: (draw.random(n), draw.random(n)), 6, 60)
def auction_clearing_price(bids, asks):
    bids, asks = np.sort(bids)[::-1], np.sort(asks)
    price = 0.0
    k = 0
    while k < len(bids) and bids[k] >= asks[k]:
        price = (bids[k] + asks[k]) / 2
        k += 1
    return price, k


@programs(lambda draw, n: (draw.normal(size=(n, 2)), draw.random(n) + 0.1), 5, 40)
def gravity_tree_moments(points, masses):
    """Quadrant by quadrant, recursively, until a cell holds one body."""
    def build(points, masses, depth):
        if len(masses) == 0:
            return 0.0
        if len(masses) == 1 or depth == 3:
            return np.sum(masses[:, None] * points ** 2) * 0.5 ** depth
        center = points.mean(axis=0)
        right, top = points[:, 0] > center[0], points[:, 1] > center[1]
        total = 0.0
        for a in (right, ~right):
            for b in (top, ~top):
                total += build(points[a & b], masses[a & b], depth + 1)
        return total

    return build(points, masses, 0)
