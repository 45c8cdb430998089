"""Rays, robots, curves and polygons."""

import math
from math import cos, hypot, sin, sqrt

import numpy as np
from support.numpy_programs.program import Programs

programs = Programs()


def intersect_sphere(origin, direction, center, radius):
    oc = origin - center
    b = np.dot(oc, direction)
    c = np.dot(oc, oc) - radius ** 2
    disc = b * b - c
    if disc < 0:
        return None
    t = -b - np.sqrt(disc)
    if t > 1e-4:
        return t
    return None


@programs(lambda draw, n: (np.array([0.0, 0.0, -3.0]), draw.normal(size=(n, 3)) + np.array([0, 0, 4.0]), 0.5 + 0.5 * draw.random(3)), 4, 30,
          rounding=1e-13)
def ray_spheres(origin, directions, radii):
    centers = [np.array([0.0, 0.0, 0.0]), np.array([1.0, 0.5, 1.0]), np.array([-1.0, -0.5, 0.5])]
    image = np.zeros(len(directions))
    for i, d in enumerate(directions):
        d = d / np.linalg.norm(d)
        nearest, hit = np.inf, None
        for k, center in enumerate(centers):
            t = intersect_sphere(origin, d, center, radii[k])
            if t is not None and t < nearest:
                nearest, hit = t, k
        if hit is None:
            image[i] = 0.1
            continue
        normal = (origin + nearest * d - centers[hit]) / radii[hit]
        image[i] = max(0.0, np.dot(normal, np.array([0.0, 0.6, -0.8])))
    return image


@programs(lambda draw, n: (np.array([0.2, -0.1, -3.0]), draw.normal(size=(n, 2)) * 0.4, 0.8 + 0.4 * draw.random()), 3, 30, rounding=1e-12)
def ray_marching(camera, pixels, radius):
    def sdf(p):
        sphere = np.sqrt(np.sum(p ** 2)) - radius
        plane = p[1] + 1.0
        return min(sphere, plane)

    depths = []
    for u, v in pixels:
        d = np.array([u, v, 1.0])
        d = d / np.sqrt(np.sum(d ** 2))
        t = 0.0
        for step in range(20):
            dist = sdf(camera + t * d)
            t += dist
            if dist < 1e-3:
                break
            if t > 10.0:
                t = 10.0
                break
        depths.append(t)
    return np.array(depths)


def dh(theta, d, a, alpha):
    return np.array([[cos(theta), -sin(theta) * cos(alpha), sin(theta) * sin(alpha), a * cos(theta)],
                     [sin(theta), cos(theta) * cos(alpha), -cos(theta) * sin(alpha), a * sin(theta)],
                     [0, sin(alpha), cos(alpha), d],
                     [0, 0, 0, 1]])


@programs(lambda draw, n: (draw.normal(size=3), np.array([1.0, 0.8, 0.5])), 3, 3, rounding=1e-13)
def robot_arm(angles, lengths):
    T = np.eye(4)
    positions = [T[:3, 3]]
    for theta, a in zip(angles, lengths):
        T = T @ dh(theta, 0.1, a, 0.3)
        positions.append(T[:3, 3])
    return np.array(positions)


@programs(lambda draw, n: (draw.normal(size=n), np.array([0.5, 0.5]) + draw.random(2)), 3, 8, rounding=1e-12)
def inverse_kinematics(angles, target):
    """Jacobian transpose until the hand is near."""
    angles = angles.copy()
    for it in range(15):
        total = np.cumsum(angles)
        x, y = np.sum(np.cos(total)), np.sum(np.sin(total))
        err = target - np.array([x, y])
        if np.sqrt(err @ err) < 1e-1:
            break
        J = np.zeros((2, len(angles)))
        for k in range(len(angles)):
            J[0, k] = -np.sum(np.sin(total[k:]))
            J[1, k] = np.sum(np.cos(total[k:]))
        angles += 0.05 * J.T @ err
    return angles, err


@programs(lambda draw, n: (draw.normal(size=(n, 2)),), 6, 100)
def polygon_area_and_perimeter(p):
    area = 0.0
    perimeter = 0.0
    n = len(p)
    for i in range(n):
        x1, y1 = p[i]
        x2, y2 = p[(i + 1) % n]
        area += x1 * y2 - x2 * y1
        perimeter += hypot(x2 - x1, y2 - y1)
    return abs(area) / 2, perimeter


@programs(lambda draw, n: (draw.normal(size=(n, 2)), np.array([[-1.0, -1.0], [1.2, -0.8], [0.9, 1.1], [-0.7, 0.8]])), 6, 60, wrt=())
def points_in_polygon(points, polygon):
    inside = np.zeros(len(points), dtype=bool)
    for k, (x, y) in enumerate(points):
        j = len(polygon) - 1
        for i in range(len(polygon)):
            xi, yi = polygon[i]
            xj, yj = polygon[j]
            if (yi > y) != (yj > y) and x < (xj - xi) * (y - yi) / (yj - yi) + xi:
                inside[k] = not inside[k]
            j = i
    return inside


@programs(lambda draw, n: (draw.normal(size=(n, 2)),), 6, 30)
def convex_hull_area(points):
    def cross(o, a, b):
        return (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0])

    pts = sorted(points, key=lambda p: (p[0], p[1]))
    lower = []
    for p in pts:
        while len(lower) >= 2 and cross(lower[-2], lower[-1], p) <= 0:
            lower.pop()
        lower.append(p)
    upper = []
    for p in reversed(pts):
        while len(upper) >= 2 and cross(upper[-2], upper[-1], p) <= 0:
            upper.pop()
        upper.append(p)
    hull = np.array(lower[:-1] + upper[:-1])
    x, y = hull[:, 0], hull[:, 1]
    return 0.5 * np.abs(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))), len(hull)


@programs(lambda draw, n: (draw.normal(size=4), draw.normal(size=(n, 3))), 4, 30)
def quaternion_rotation(q, points):
    def multiply(a, b):
        w1, x1, y1, z1 = a
        w2, x2, y2, z2 = b
        return np.array([w1 * w2 - x1 * x2 - y1 * y2 - z1 * z2, w1 * x2 + x1 * w2 + y1 * z2 - z1 * y2,
                         w1 * y2 - x1 * z2 + y1 * w2 + z1 * x2, w1 * z2 + x1 * y2 - y1 * x2 + z1 * w2])

    q = q / np.sqrt(np.sum(q ** 2))
    conj = q * np.array([1, -1, -1, -1])
    out = []
    for p in points:
        v = np.concatenate(([0.0], p))
        out.append(multiply(multiply(q, v), conj)[1:])
    return np.vstack(out)


@programs(lambda draw, n: (draw.uniform(-1.5, 1.5),), 1, 1, wrt=())
def cordic(angle):
    angles = [math.atan(2.0 ** -i) for i in range(20)]
    gain = 1.0
    for i in range(20):
        gain *= 1 / sqrt(1 + 2.0 ** (-2 * i))
    x, y, z = gain, 0.0, angle
    for i in range(20):
        d = 1 if z >= 0 else -1
        x, y, z = x - d * y * 2.0 ** -i, y + d * x * 2.0 ** -i, z - d * angles[i]
    return x, y


@programs(lambda draw, n: (draw.normal(size=(n, 2)), 0.4), 4, 10)
def de_casteljau(points, t):
    beta = [p for p in points]
    n = len(beta)
    for j in range(1, n):
        for k in range(n - j):
            beta[k] = beta[k] * (1 - t) + beta[k + 1] * t
    return beta[0]


@programs(lambda draw, n: (np.sort(draw.random(n)) + np.arange(n), draw.normal(size=n), np.linspace(0.6, n - 1.2, 5)),
          5, 20, wrt=(1,), rounding=1e-15)
def natural_cubic_spline(x, y, xs):
    n = len(x)
    h = np.diff(x)
    alpha = np.zeros(n)
    l = np.ones(n)
    mu = np.zeros(n)
    z = np.zeros(n)
    for i in range(1, n - 1):
        alpha[i] = 3 * ((y[i + 1] - y[i]) / h[i] - (y[i] - y[i - 1]) / h[i - 1])
        l[i] = 2 * (x[i + 1] - x[i - 1]) - h[i - 1] * mu[i - 1]
        mu[i] = h[i] / l[i]
        z[i] = (alpha[i] - h[i - 1] * z[i - 1]) / l[i]
    c = np.zeros(n)
    b = np.zeros(n - 1)
    d = np.zeros(n - 1)
    for j in range(n - 2, -1, -1):
        c[j] = z[j] - mu[j] * c[j + 1]
        b[j] = (y[j + 1] - y[j]) / h[j] - h[j] * (c[j + 1] + 2 * c[j]) / 3
        d[j] = (c[j + 1] - c[j]) / (3 * h[j])
    result = []
    for v in xs:
        j = 0
        while j < n - 2 and v > x[j + 1]:
            j += 1
        dx = v - x[j]
        result.append(y[j] + b[j] * dx + c[j] * dx ** 2 + d[j] * dx ** 3)
    return np.array(result)


def haversine(lat1, lon1, lat2, lon2):
    lat1, lon1, lat2, lon2 = map(np.radians, (lat1, lon1, lat2, lon2))
    a = np.sin((lat2 - lat1) / 2) ** 2 + np.cos(lat1) * np.cos(lat2) * np.sin((lon2 - lon1) / 2) ** 2
    return 2 * 6371 * np.arcsin(np.sqrt(a))


@programs(lambda draw, n: (draw.uniform(-80, 80, n), draw.uniform(-180, 180, n)), 5, 100)
def route_length(lat, lon):
    total = 0
    for i in range(len(lat) - 1):
        total += haversine(lat[i], lon[i], lat[i + 1], lon[i + 1])
    return total


@programs(lambda draw, n: (draw.normal(size=(n, 3)),), 5, 100)
def mesh_normals(vertices):
    faces = np.array([[0, i, i + 1] for i in range(1, len(vertices) - 1)])
    v0, v1, v2 = vertices[faces[:, 0]], vertices[faces[:, 1]], vertices[faces[:, 2]]
    normals = np.cross(v1 - v0, v2 - v0)
    out = np.zeros_like(vertices)
    for k in range(3):
        np.add.at(out, faces[:, k], normals)
    return out / np.linalg.norm(out, axis=1, keepdims=True)


@programs(lambda draw, n: (draw.normal(size=(n, 2)), draw.normal(size=(n + 1, 2))), 5, 40, rounding=1e-13)
def iterative_closest_point(source, target):
    src = source.copy()
    for it in range(3):
        matches = np.zeros_like(src)
        for i in range(len(src)):
            d = np.sum((target - src[i]) ** 2, axis=1)
            matches[i] = target[np.argmin(d)]
        ms, mt = src.mean(axis=0), matches.mean(axis=0)
        H = (src - ms).T @ (matches - mt)
        angle = np.arctan2(H[0, 1] - H[1, 0], H[0, 0] + H[1, 1])
        R = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        src = (src - ms) @ R.T + mt
    return src


class Camera:
    def __init__(self, position, yaw, focal=1.5):
        self.position = np.asarray(position, dtype=float)
        self.rotation = np.array([[np.cos(yaw), 0.0, np.sin(yaw)], [0.0, 1.0, 0.0], [-np.sin(yaw), 0.0, np.cos(yaw)]])
        self.focal = focal

    def project(self, points):
        local = (points - self.position) @ self.rotation.T
        visible = local[:, 2] > 0.1
        local = local[visible]
        return self.focal * local[:, :2] / local[:, 2:3]


@programs(lambda draw, n: (draw.normal(size=3), draw.normal(), draw.normal(size=(n, 3)) + np.array([0, 0, 3.0])), 5, 100, rounding=1e-13)
def camera_projection(position, yaw, points):
    uv = Camera(position, yaw).project(points)
    return np.mean(uv ** 2) if len(uv) else 0.0


@programs(lambda draw, n: (draw.normal(size=2), draw.normal(size=(n, 2)), 0.3), 4, 40)
def potential_field_path(start, obstacles, repulsion):
    goal = np.array([3.0, 3.0])
    p = np.array(start)
    path = [p.copy()]
    for step in range(6):
        force = goal - p
        for o in obstacles:
            away = p - o
            dist = np.linalg.norm(away)
            if dist < 1.0:
                force = force + repulsion * (1 / dist - 1) * away / dist ** 3
        p = p + 0.1 * force / max(1.0, np.linalg.norm(force))
        path.append(p.copy())
    return np.array(path)
