"""Tables filled cell by cell: paths, alignments, allocations."""

import numpy as np
from support.numpy_programs.program import Programs

programs = Programs()


@programs(lambda draw, n: (10 * draw.random((n, n)),), 5, 16)
def floyd_warshall(path):
    path = path.copy()
    for k in range(path.shape[0]):
        path[:] = np.minimum(path[:], np.add.outer(path[:, k], path[k, :]))
    return path


@programs(lambda draw, n: (10 * draw.random((n, n)),), 4, 8)
def floyd_warshall_by_loops(w):
    d = np.array(w)
    n = d.shape[0]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                if d[i, k] + d[k, j] < d[i, j]:
                    d[i, j] = d[i, k] + d[k, j]
    return d


@programs(lambda draw, n: (draw.integers(0, 3, n), draw.integers(0, 3, n + 1)), 4, 10)
def edit_distance(a, b):
    m, n = len(a), len(b)
    d = np.zeros((m + 1, n + 1), dtype=int)
    d[:, 0] = np.arange(m + 1)
    d[0, :] = np.arange(n + 1)
    for i in range(1, m + 1):
        for j in range(1, n + 1):
            cost = 0 if a[i - 1] == b[j - 1] else 1
            d[i, j] = min(d[i - 1, j] + 1, d[i, j - 1] + 1, d[i - 1, j - 1] + cost)
    return d[m, n]


@programs(lambda draw, n: (draw.random((n, n)), 0.3 + 0.1 * draw.random(), 0.4), 4, 10)
def weighted_edit_distance(cost, insert, delete):
    n, m = cost.shape
    table = np.zeros((n + 1, m + 1))
    for i in range(1, n + 1):
        table[i, 0] = table[i - 1, 0] + delete
    for j in range(1, m + 1):
        table[0, j] = table[0, j - 1] + insert
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            table[i, j] = np.min([table[i - 1, j] + delete, table[i, j - 1] + insert, table[i - 1, j - 1] + cost[i - 1, j - 1]])
    return table[-1, -1]


def soft_min(values, gamma):
    z = -np.array(values) / gamma
    m = np.max(z)
    return -gamma * (np.log(np.sum(np.exp(z - m))) + m)


@programs(lambda draw, n: (draw.normal(size=n), draw.normal(size=n + 1), 0.5), 4, 15, rounding=1e-13)
def soft_dtw(x, y, gamma):
    D = (x[:, None] - y[None, :]) ** 2
    R = np.full((len(x) + 1, len(y) + 1), 1e10)
    R[0, 0] = 0.0
    for j in range(1, len(y) + 1):
        for i in range(1, len(x) + 1):
            R[i, j] = D[i - 1, j - 1] + soft_min([R[i - 1, j - 1], R[i - 1, j], R[i, j - 1]], gamma)
    return R[-1, -1]


@programs(lambda draw, n: (draw.normal(size=n), draw.normal(size=n)), 4, 12)
def dtw_with_path(s, t):
    n, m = len(s), len(t)
    dtw = np.full((n + 1, m + 1), np.inf)
    dtw[0, 0] = 0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            cost = abs(s[i - 1] - t[j - 1])
            dtw[i, j] = cost + min(dtw[i - 1, j], dtw[i, j - 1], dtw[i - 1, j - 1])
    i, j = n, m
    path = [(i, j)]
    while (i, j) != (1, 1):
        choices = [dtw[i - 1, j - 1], dtw[i - 1, j], dtw[i, j - 1]]
        best = int(np.argmin(choices))
        i, j = [(i - 1, j - 1), (i - 1, j), (i, j - 1)][best]
        path.append((i, j))
    return dtw[n, m], len(path)


@programs(lambda draw, n: (draw.random(n), np.random.default_rng(1).integers(1, 4, n)), 5, 15)
def knapsack(values, weights, capacity=6):
    n = len(values)
    K = np.zeros((n + 1, capacity + 1))
    for i in range(1, n + 1):
        for w in range(capacity + 1):
            K[i, w] = K[i - 1, w]
            if weights[i - 1] <= w:
                K[i, w] = max(K[i, w], values[i - 1] + K[i - 1, w - weights[i - 1]])
    return K[n, capacity]


@programs(lambda draw, n: (draw.normal(size=(n, n)), 0.5), 4, 10)
def smith_waterman(scores, gap):
    n, m = scores.shape
    H = np.zeros((n + 1, m + 1))
    best = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            H[i, j] = max(0.0, H[i - 1, j - 1] + scores[i - 1, j - 1], H[i - 1, j] - gap, H[i, j - 1] - gap)
            if H[i, j] > best:
                best = H[i, j]
    return best


@programs(lambda draw, n: (draw.normal(size=3), draw.normal(size=(3, 3)), draw.normal(size=(n, 3))), 5, 40)
def viterbi(start, transitions, emissions):
    T, S = emissions.shape
    score = np.zeros((T, S))
    back = np.zeros((T, S), dtype=int)
    score[0] = start + emissions[0]
    for t in range(1, T):
        for s in range(S):
            candidates = score[t - 1] + transitions[:, s]
            back[t, s] = np.argmax(candidates)
            score[t, s] = candidates[back[t, s]] + emissions[t, s]
    path = [int(np.argmax(score[-1]))]
    for t in range(T - 1, 0, -1):
        path.append(int(back[t, path[-1]]))
    return np.max(score[-1]), np.array(path[::-1])


@programs(lambda draw, n: (1 + draw.random(8),), 5, 5)
def bellman_ford(weights):
    edges = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3), (3, 4), (2, 4), (4, 1)]
    dist = np.full(5, np.inf)
    dist[0] = 0.0
    for _ in range(4):
        changed = False
        for (u, v), w in zip(edges, weights):
            if dist[u] + w < dist[v]:
                dist[v] = dist[u] + w
                changed = True
        if not changed:
            break
    return dist


@programs(lambda draw, n: (draw.random((n, n)),), 5, 14)
def seam_carving(energy):
    M = energy.copy()
    r, c = M.shape
    for i in range(1, r):
        for j in range(c):
            lo, hi = max(j - 1, 0), min(j + 2, c)
            M[i, j] += M[i - 1, lo:hi].min()
    return M[-1].min()


@programs(lambda draw, n: (1 + draw.random(n + 1),), 4, 12)
def matrix_chain(dims):
    n = len(dims) - 1
    m = np.zeros((n, n))
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            m[i, j] = np.inf
            for k in range(i, j):
                q = m[i, k] + m[k + 1, j] + dims[i] * dims[k + 1] * dims[j + 1]
                if q < m[i, j]:
                    m[i, j] = q
    return m[0, n - 1]


@programs(lambda draw, n: (draw.random((n, 3)), 0.95, draw.random((3, n, n))), 4, 20, rounding=1e-13)
def value_iteration(reward, discount, P):
    P = P / P.sum(axis=-1, keepdims=True)
    V = np.zeros(len(reward))
    for sweep in range(200):
        Q = np.stack([reward[:, a] + discount * P[a] @ V for a in range(3)])
        new = Q.max(axis=0)
        delta = np.max(np.abs(new - V))
        V = new
        if delta < 0.05:
            break
    return V, Q.argmax(axis=0)


@programs(lambda draw, n: (draw.normal(size=n),), 8, 100)
def maximum_subarray(x):
    best = current = x[0]
    for value in x[1:]:
        current = max(value, current + value)
        best = max(best, current)
    return best


@programs(lambda draw, n: (draw.random(n),), 6, 12)
def longest_increasing_weights(x):
    n = len(x)
    weight = x.copy()
    for i in range(n):
        for j in range(i):
            if x[j] < x[i] and weight[j] + x[i] > weight[i]:
                weight[i] = weight[j] + x[i]
    return weight.max()
