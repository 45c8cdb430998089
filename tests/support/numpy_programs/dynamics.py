"""Ordinary differential equations, bodies and particles, controllers."""

import math

import numpy as np
from support.numpy_programs.program import Programs

programs = Programs()


@programs(lambda draw, n: (draw.normal(size=(n, 3)), draw.normal(size=(n, 3)), 1 + draw.random(n), 0.1), 4, 30, rounding=1e-13)
def nbody(pos, vel, mass, softening):
    """After the leapfrog code that everybody copies."""
    def get_acc(pos, mass, G, softening):
        x = pos[:, 0:1]
        y = pos[:, 1:2]
        z = pos[:, 2:3]
        dx = x.T - x
        dy = y.T - y
        dz = z.T - z
        inv_r3 = dx ** 2 + dy ** 2 + dz ** 2 + softening ** 2
        inv_r3[inv_r3 > 0] = inv_r3[inv_r3 > 0] ** (-1.5)
        ax = G * (dx * inv_r3) @ mass
        ay = G * (dy * inv_r3) @ mass
        az = G * (dz * inv_r3) @ mass
        return np.stack((ax, ay, az), axis=1)

    vel = vel - np.mean(mass[:, None] * vel, 0) / np.mean(mass)
    acc = get_acc(pos, mass, 1.0, softening)
    energies = np.zeros(4)
    for i in range(3):
        vel = vel + acc * 0.01 / 2.0
        pos = pos + vel * 0.01
        acc = get_acc(pos, mass, 1.0, softening)
        vel = vel + acc * 0.01 / 2.0
        energies[i + 1] = 0.5 * np.sum(mass * np.sum(vel ** 2, axis=1))
    return pos, energies


@programs(lambda draw, n: (draw.normal(size=(n, 2)), np.ones(n)), 4, 12, rounding=1e-15)
def nbody_by_pairs(positions, masses):
    n = len(masses)
    forces = np.zeros((n, 2))
    for i in range(n):
        for j in range(i + 1, n):
            r = positions[j] - positions[i]
            dist = math.sqrt(r[0] ** 2 + r[1] ** 2 + 1e-2)
            f = masses[i] * masses[j] * r / dist ** 3
            forces[i] += f
            forces[j] -= f
    return forces


@programs(lambda draw, n: (1.5 * draw.normal(size=(n, 3)),), 5, 20, rounding=1e-15)
def lennard_jones_with_cutoff(x):
    energy = 0.0
    f = np.zeros_like(x)
    rc2 = 6.25
    for i in range(len(x) - 1):
        for j in range(i + 1, len(x)):
            d = x[i] - x[j]
            r2 = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + 0.5
            if r2 > rc2:
                continue
            inv6 = 1.0 / r2 ** 3
            energy += 4.0 * (inv6 * inv6 - inv6)
            f[i] += 24 * (2 * inv6 * inv6 - inv6) / r2 * d
            f[j] -= 24 * (2 * inv6 * inv6 - inv6) / r2 * d
    return energy, f


@programs(lambda draw, n: (np.array([1.0, 0.5]) + draw.random(2), 1.1, 0.4, 0.1, 0.4), 5, 200)
def lotka_volterra_rk4(y0, a, b, c, d):
    def f(t, y):
        prey, pred = y
        return np.array([a * prey - b * prey * pred, c * prey * pred - d * pred])

    h = 0.05
    ts = np.arange(0, 0.4, h)
    ys = [y0]
    for t in ts:
        y = ys[-1]
        k1 = f(t, y)
        k2 = f(t + h / 2, y + h / 2 * k1)
        k3 = f(t + h / 2, y + h / 2 * k2)
        k4 = f(t + h, y + h * k3)
        ys.append(y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4))
    return np.array(ys)


@programs(lambda draw, n: (10.0, 28.0 + draw.random(), 8 / 3, draw.normal(size=3)), 6, 500)
def lorenz_filled(sigma, rho, beta, start):
    n = 7
    xs = np.empty(n + 1)
    ys = np.empty(n + 1)
    zs = np.empty(n + 1)
    xs[0], ys[0], zs[0] = start
    for i in range(n):
        xs[i + 1] = xs[i] + 0.01 * sigma * (ys[i] - xs[i])
        ys[i + 1] = ys[i] + 0.01 * (xs[i] * (rho - zs[i]) - ys[i])
        zs[i + 1] = zs[i] + 0.01 * (xs[i] * ys[i] - beta * zs[i])
    return xs, ys, zs


@programs(lambda draw, n: (0.3 + 0.1 * draw.random(), 0.2, 0.1, 1e-2), 5, 160)
def seir(beta, sigma, gamma, i0):
    days = 8
    out = np.zeros((days, 4))
    s, e, i, r = 1 - i0, 0.0, i0, 0.0
    for day in range(days):
        out[day] = [s, e, i, r]
        new_e = beta * s * i
        new_i = sigma * e
        new_r = gamma * i
        s -= new_e
        e += new_e - new_i
        i += new_i - new_r
        r += new_r
    return out


@programs(lambda draw, n: (0.5 + draw.random(), 0.2 * draw.random()), 5, 5, rounding=1e-13)
def adaptive_rk45(y0, damping):
    """Dormand-Prince with a step-size controller, accepted steps in a list."""
    a = [[], [1 / 5], [3 / 40, 9 / 40], [44 / 45, -56 / 15, 32 / 9]]
    b5 = np.array([0.1, 0.3, 0.3, 0.3])
    b4 = np.array([0.2, 0.2, 0.3, 0.3])

    def rhs(t, y):
        return np.array([y[1], -y[0] - damping * y[1]])

    t, h, tmax, tol = 0.0, 0.3, 1.0, 1e-3
    y = np.array([y0, 0.0])
    steps = 0
    while t < tmax:
        if t + h > tmax:
            h = tmax - t
        k = []
        for row in a:
            k.append(rhs(t, y + h * sum((c * ki for c, ki in zip(row, k)), np.zeros(2))))
        y5 = y + h * sum(b * ki for b, ki in zip(b5, k))
        y4 = y + h * sum(b * ki for b, ki in zip(b4, k))
        err = np.max(np.abs(y5 - y4))
        if err < tol:
            t += h
            y = y5
        steps += 1
        h = h * min(2.0, max(0.2, 0.9 * (tol / (err + 1e-30)) ** 0.2))
        if steps > 60:
            break
    return y


@programs(lambda draw, n: (0.5 + draw.random(), 1e-3), 5, 5, wrt=(0,))
def heun_adaptive(y, tol):
    t = 0.0
    h = 0.1
    while t < 1.0:
        h = min(h, 1.0 - t)
        k1 = -y * y
        k2 = -(y + h * k1) ** 2
        err = abs(0.5 * h * (k2 - k1))
        if err < tol:
            t = t + h
            y = y + 0.5 * h * (k1 + k2)
            h *= 1.5
        else:
            h *= 0.5
    return y


@programs(lambda draw, n: (1.0 + draw.random(), 0.8, 9.81), 5, 5)
def bouncing_ball_events(height, restitution, g):
    """Free flight until the ball hits the floor, the time of which is located by bisection."""
    t, y, v = 0.0, height, 0.0
    dt = 0.1
    bounces = 0
    while t < 1.0:
        y_new = y + v * dt - 0.5 * g * dt ** 2
        if y_new < 0:
            lo, hi = 0.0, dt
            for _ in range(40):
                mid = (lo + hi) / 2
                if y + v * mid - 0.5 * g * mid ** 2 > 0:
                    lo = mid
                else:
                    hi = mid
            tau = (v + math.sqrt(v * v + 2 * g * y)) / g
            t += hi
            v = -restitution * (v - g * tau)
            y = 0.0
            bounces += 1
        else:
            t += dt
            y, v = y_new, v - g * dt
    return y + v, bounces


@programs(lambda draw, n: (1.0 + 0.2 * draw.random(), 0.3), 5, 5)
def shooting_method(target, k):
    def end(slope):
        y, v = 0.0, slope
        h = 0.1
        for _ in range(10):
            y, v = y + h * v, v - h * k * np.sin(y)
        return y - target

    s0, s1 = 0.5, 1.5
    f0, f1 = end(s0), end(s1)
    while abs(f1) > 1e-9:
        s0, s1, f0 = s1, s1 - f1 * (s1 - s0) / (f1 - f0), f1
        f1 = end(s1)
    return s1


@programs(lambda draw, n: (0.5 + 0.3 * draw.random(), 50.0), 5, 100)
def implicit_euler_with_newton(y0, stiffness):
    h = 0.05
    y = y0
    out = [y]
    for i in range(5):
        z = y
        for _ in range(20):
            F = z - y - h * (-stiffness * z + np.cos(z))
            J = 1 + h * (stiffness + np.sin(z))
            step = F / J
            z = z - step
            if np.abs(step) < 1e-12:
                break
        y = z
        out.append(y)
    return np.array(out)


@programs(lambda draw, n: (3.0 * draw.random(n), 0.1 + 0.5 * draw.random()), 4, 30)
def kepler(mean_anomaly, e):
    """Solves Kepler's equation one angle at a time."""
    out = np.zeros(len(mean_anomaly))
    for i, M in enumerate(mean_anomaly):
        E = M if e < 0.5 else np.pi
        while True:
            dE = (E - e * np.sin(E) - M) / (1 - e * np.cos(E))
            E -= dE
            if abs(dE) < 1e-10:
                break
        out[i] = E
    return out


class Pendulum:
    def __init__(self, length, damping=0.1):
        self.length = length
        self.damping = damping
        self.theta = 0.0
        self.omega = 0.0
        self.history = []

    def acceleration(self):
        return -9.81 / self.length * math.sin(self.theta) - self.damping * self.omega

    def step(self, dt):
        self.omega += dt * self.acceleration()
        self.theta += dt * self.omega
        self.history.append((self.theta, self.omega))


@programs(lambda draw, n: (1 + draw.random(), draw.random()), 5, 300)
def pendulum_class(length, angle):
    p = Pendulum(length)
    p.theta = angle
    for _ in range(8):
        p.step(0.02)
    return np.array(p.history)


class PID:
    """A controller with a limited output, and no integration while it is limited."""

    def __init__(self, kp, ki, kd, limit=2.0):
        self.kp, self.ki, self.kd, self.limit = kp, ki, kd, limit
        self.integral = 0
        self.previous = None

    def __call__(self, error, dt):
        derivative = 0 if self.previous is None else (error - self.previous) / dt
        self.previous = error
        u = self.kp * error + self.ki * self.integral + self.kd * derivative
        if u > self.limit:
            return self.limit
        if u < -self.limit:
            return -self.limit
        self.integral += error * dt
        return u


@programs(lambda draw, n: (draw.uniform(0.5, 6), 0.5, 0.05, 1.0), 5, 200)
def pid_control(kp, ki, kd, setpoint):
    controller = PID(kp, ki, kd)
    x = v = cost = 0
    for _ in range(10):
        u = controller(setpoint - x, 0.1)
        v += (u - 0.5 * v) * 0.1
        x += v * 0.1
        cost += (setpoint - x) ** 2
    return cost


@programs(lambda draw, n: (15 + 5 * draw.random(), 18.0, 21.0, 0.3), 5, 300)
def thermostat(temperature, low, high, loss):
    on = False
    energy = 0.0
    temps = np.zeros(10)
    for hour in range(10):
        if temperature < low:
            on = True
        elif temperature > high:
            on = False
        if on:
            temperature += 1.5
            energy += 1.0
        temperature -= loss * (temperature - 10) / 5
        temps[hour] = temperature
    return temps, energy


@programs(lambda draw, n: (draw.exponential(size=n), draw.exponential(size=n)), 8, 200)
def queue_waiting_times(arrivals, services):
    t = np.cumsum(arrivals)
    start = np.zeros_like(t)
    end = np.zeros_like(t)
    for i in range(len(t)):
        start[i] = t[i] if i == 0 else max(t[i], end[i - 1])
        end[i] = start[i] + services[i]
    wait = start - t
    return wait.mean(), wait.max(), np.sum(wait > 0)


@programs(lambda draw, n: (draw.normal(size=(n, 2)), draw.normal(size=(n, 2))), 5, 30)
def boids(pos, vel):
    n = len(pos)
    for _ in range(2):
        new = np.zeros_like(vel)
        for i in range(n):
            diff = pos - pos[i]
            dist = np.sqrt((diff ** 2).sum(axis=1) + 1e-6)
            near = (dist < 1.5) & (np.arange(n) != i)
            if not near.any():
                new[i] = vel[i]
                continue
            cohesion = pos[near].mean(axis=0) - pos[i]
            alignment = vel[near].mean(axis=0) - vel[i]
            separation = -(diff[near] / dist[near][:, None] ** 2).sum(axis=0)
            new[i] = vel[i] + 0.1 * cohesion + 0.2 * alignment + 0.05 * separation
        vel = new
        pos = pos + 0.1 * vel
    return pos, vel


@programs(lambda draw, n: (draw.normal(size=n), 2.0, draw.random((n, 6))), 6, 40)
def langevin_with_reflection(x, k, noise):
    x = np.array(x, copy=True)
    for t in range(noise.shape[1]):
        x += -0.1 * k * x + 0.3 * (noise[:, t] - 0.5)
        x[x > 1.0] = 2.0 - x[x > 1.0]
        x[x < -1.0] = -2.0 - x[x < -1.0]
    return x, np.count_nonzero(x > 0)


@programs(lambda draw, n: (draw.random(4), draw.random(4)), 5, 5)
def double_pendulum_energy(state, params):
    th1, th2, w1, w2 = state
    m1, m2, l1, l2 = 1 + params
    for _ in range(5):
        d = th1 - th2
        den = 2 * m1 + m2 - m2 * np.cos(2 * d)
        a1 = (-9.81 * (2 * m1 + m2) * np.sin(th1) - m2 * 9.81 * np.sin(th1 - 2 * th2)
              - 2 * np.sin(d) * m2 * (w2 ** 2 * l2 + w1 ** 2 * l1 * np.cos(d))) / (l1 * den)
        a2 = (2 * np.sin(d) * (w1 ** 2 * l1 * (m1 + m2) + 9.81 * (m1 + m2) * np.cos(th1) + w2 ** 2 * l2 * m2 * np.cos(d))) / (l2 * den)
        w1, w2 = w1 + 0.01 * a1, w2 + 0.01 * a2
        th1, th2 = th1 + 0.01 * w1, th2 + 0.01 * w2
    return 0.5 * m1 * (l1 * w1) ** 2 + 0.5 * m2 * (l2 * w2) ** 2


@programs(lambda draw, n: (draw.random(n), draw.random(n), 0.1), 6, 60)
def hodgkin_like_gates(current, gates, dt):
    """A leaky integrate-and-fire neuron: spikes reset the membrane."""
    v = -65.0
    spikes = []
    trace = np.zeros(len(current))
    for t, (i, g) in enumerate(zip(current, gates)):
        v += dt * (-(v + 65.0) + 120 * i + 10 * g)
        if v >= -58.0:
            spikes.append(t)
            v = -65.0
        trace[t] = v
    return trace, len(spikes)
