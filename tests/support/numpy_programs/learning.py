"""Networks and trees by hand."""

import numpy as np
from support.numpy_programs.program import Programs

programs = Programs()


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def softmax(z):
    e = np.exp(z - np.max(z))
    return e / e.sum()


@programs(lambda draw, n: (draw.normal(size=(4, 3)), draw.normal(size=(4, 4)), draw.normal(size=(3, 4)), draw.normal(size=(n, 3)),
                           draw.integers(0, 3, n)), 4, 30, rounding=1e-13)
def rnn_by_hand(Wxh, Whh, Why, inputs, targets):
    """After the character model of 100 lines: states in dicts."""
    xs, hs, ps = {}, {}, {}
    hs[-1] = np.zeros(4)
    loss = 0
    for t in range(len(inputs)):
        xs[t] = inputs[t]
        hs[t] = np.tanh(np.dot(Wxh, xs[t]) + np.dot(Whh, hs[t - 1]))
        y = np.dot(Why, hs[t])
        ps[t] = np.exp(y) / np.sum(np.exp(y))
        loss += -np.log(ps[t][targets[t]])
    return loss


class LSTMCell:
    def __init__(self, W, b, hidden):
        self.W, self.b, self.hidden = W, b, hidden
        self.reset()

    def reset(self):
        self.h = np.zeros(self.hidden)
        self.c = np.zeros(self.hidden)

    def forward(self, x):
        z = self.W @ np.concatenate([x, self.h]) + self.b
        i, f, o, g = np.split(z, 4)
        self.c = sigmoid(f) * self.c + sigmoid(i) * np.tanh(g)
        self.h = sigmoid(o) * np.tanh(self.c)
        return self.h


@programs(lambda draw, n: (draw.normal(size=(12, 5)), draw.normal(size=12), draw.normal(size=(n, 2))), 4, 40, rounding=1e-13)
def lstm_class(W, b, xs):
    cell = LSTMCell(W, b, 3)
    outs = np.zeros((len(xs), 3))
    for t in range(len(xs)):
        outs[t] = cell.forward(xs[t])
    return outs


@programs(lambda draw, n: (draw.normal(size=(3, 4, 4)), draw.normal(size=(n, 4))), 4, 40, rounding=1e-13)
def gru(weights, xs):
    Wz, Wr, Wh = weights
    h = xs[0] * 0
    states = []
    for x in xs:
        z = sigmoid(Wz.dot(x) + h)
        r = sigmoid(Wr.dot(x) - h)
        cand = np.tanh(Wh.dot(r * h) + x)
        h = (1 - z) * h + z * cand
        states.append(h)
    return np.stack(states).mean(axis=0)


@programs(lambda draw, n: (draw.normal(size=(n, 2)),), 8, 60)
def decision_tree_predict(X):
    tree = {"feature": 0, "threshold": 0.1,
            "left": {"feature": 1, "threshold": -0.3, "left": {"value": 1.0}, "right": {"value": -1.0}},
            "right": {"feature": 1, "threshold": 0.5, "left": {"value": 2.0},
                      "right": {"feature": 0, "threshold": 1.0, "left": {"value": 0.5}, "right": {"value": -2.0}}}}

    def predict(row, node):
        if "value" in node:
            return node["value"] * row[0]
        if row[node["feature"]] < node["threshold"]:
            return predict(row, node["left"])
        return predict(row, node["right"])

    return np.array([predict(row, tree) for row in X])


@programs(lambda draw, n: (draw.normal(size=(n, 2)), draw.normal(size=n)), 7, 20)
def regression_stump_fit(X, y):
    """The best split over all features and thresholds."""
    best = np.inf
    split = None
    for f in range(X.shape[1]):
        for t in X[:, f]:
            left, right = y[X[:, f] <= t], y[X[:, f] > t]
            if len(left) == 0 or len(right) == 0:
                continue
            sse = np.sum((left - left.mean()) ** 2) + np.sum((right - right.mean()) ** 2)
            if sse < best:
                best, split = sse, (f, t)
    return best, split


@programs(lambda draw, n: ([draw.normal(size=(3, 5)), draw.normal(size=(5, 4)), draw.normal(size=(4, 2))], draw.normal(size=(n, 3)),
                           draw.normal(size=(n, 2))), 4, 64, rounding=1e-13)
def mlp_list_of_layers(weights, X, Y):
    activations = [X]
    for i, W in enumerate(weights):
        z = activations[-1] @ W
        if i < len(weights) - 1:
            z[z < 0] *= 0.01
        activations.append(z)
    return np.mean((activations[-1] - Y) ** 2) + 1e-3 * sum((W ** 2).sum() for W in weights)


@programs(lambda draw, n: (draw.normal(size=(n, 4)), draw.normal(size=(4, 4)), draw.normal(size=(4, 4)), draw.normal(size=(4, 4))), 4, 16,
          rounding=1e-13)
def causal_attention_by_loops(x, Wq, Wk, Wv):
    q, k, v = x @ Wq, x @ Wk, x @ Wv
    out = np.zeros_like(v)
    for t in range(len(x)):
        scores = np.zeros(t + 1)
        for s in range(t + 1):
            scores[s] = q[t] @ k[s] / np.sqrt(4)
        out[t] = softmax(scores) @ v[:t + 1]
    return out


class BatchNorm:
    def __init__(self, n):
        self.running_mean = np.zeros(n)
        self.running_var = np.ones(n)

    def __call__(self, x, gamma, beta, training=True):
        if training:
            mu, var = x.mean(axis=0), x.var(axis=0)
            self.running_mean = 0.9 * self.running_mean + 0.1 * mu
            self.running_var = 0.9 * self.running_var + 0.1 * var
        else:
            mu, var = self.running_mean, self.running_var
        return gamma * (x - mu) / np.sqrt(var + 1e-5) + beta


@programs(lambda draw, n: (draw.normal(size=(n, 3)), draw.random(3), draw.random(3)), 6, 64)
def batch_norm_class(x, gamma, beta):
    layer = BatchNorm(x.shape[1])
    for _ in range(2):
        x = layer(x, gamma, beta)
    return layer(x, gamma, beta, training=False)


@programs(lambda draw, n: (draw.normal(size=(n, 2)), np.sign(draw.normal(size=n))), 6, 60, wrt=(0,), rounding=1e-14)
def perceptron(X, y):
    w = np.zeros(X.shape[1])
    b = 0.0
    mistakes = 0
    for epoch in range(3):
        errors = 0
        for xi, yi in zip(X, y):
            if yi * (np.dot(w, xi) + b) <= 0:
                w += 0.1 * yi * xi
                b += 0.1 * yi
                errors += 1
        mistakes += errors
        if errors == 0:
            break
    return w, b, mistakes


@programs(lambda draw, n: (draw.normal(size=(n, 2)), draw.normal(size=n), draw.normal(size=(3, 2))), 8, 60)
def nearest_neighbours(X, y, queries, k=3):
    out = np.empty(len(queries))
    for i, q in enumerate(queries):
        d = np.sqrt(((X - q) ** 2).sum(axis=1))
        idx = np.argsort(d)[:k]
        w = 1 / d[idx]
        out[i] = np.sum(w * y[idx]) / w.sum()
    return out


@programs(lambda draw, n: (draw.normal(size=(n, 3)), np.arange(n) % 2, draw.normal(size=3)), 8, 60, wrt=(0, 2))
def naive_bayes(X, labels, query):
    scores = []
    for c in np.unique(labels):
        rows = X[labels == c]
        mu, var = rows.mean(axis=0), rows.var(axis=0) + 1e-2
        scores.append(np.log(len(rows) / len(X)) - 0.5 * np.sum(np.log(2 * np.pi * var) + (query - mu) ** 2 / var))
    return np.array(scores), int(np.argmax(scores))


@programs(lambda draw, n: (0.1 * draw.normal(size=(n, 3)), np.array([0, 2, 1, 3, 2]), np.array([1, 3, 0, 2, 4])), 5, 50)
def skip_gram_training(E, centers, contexts):
    E = E.copy()
    losses = []
    for c, o in zip(centers, contexts):
        p = sigmoid(E[c] @ E[o])
        losses.append(-np.log(p))
        g = p - 1
        ec = E[c].copy()
        E[c] -= 0.5 * g * E[o]
        E[o] -= 0.5 * g * ec
    return np.mean(losses), E


@programs(lambda draw, n: (draw.normal(size=(n, 3)), draw.integers(0, 2, n), draw.normal(size=3)), 5, 100, rounding=1e-13)
def sgd_logistic_regression(X, y, w):
    w = w.copy()
    for i in range(len(y)):
        p = sigmoid(X[i].dot(w))
        if y[i] == 1:
            w += 0.1 * (1 - p) * X[i]
        else:
            w -= 0.1 * p * X[i]
    return w


@programs(lambda draw, n: (draw.normal(size=n), draw.normal(size=n), 1.0), 8, 100)
def huber_by_cases(pred, target, delta):
    loss = 0.0
    for p, t in zip(pred, target):
        r = p - t
        if abs(r) <= delta:
            loss += 0.5 * r * r
        else:
            loss += delta * (abs(r) - 0.5 * delta)
    return loss / len(pred)


@programs(lambda draw, n: (draw.normal(size=(n, n)), 1.0), 4, 20)
def clip_gradient_norm(g, limit):
    norm = np.sqrt(np.sum(g * g))
    if norm > limit:
        g = g * (limit / norm)
    return g


@programs(lambda draw, n: (draw.random((3, n)), draw.random((n, n))), 3, 8)
def beam_search(emissions, transitions):
    beams = [([], 0.0)]
    for t in range(len(emissions)):
        candidates = []
        for path, score in beams:
            for s in range(emissions.shape[1]):
                gain = np.log(emissions[t, s])
                if path:
                    gain = gain + np.log(transitions[path[-1], s])
                candidates.append((path + [s], score + gain))
        candidates.sort(key=lambda c: c[1], reverse=True)
        beams = candidates[:2]
    return beams[0][1], np.array(beams[0][0])
