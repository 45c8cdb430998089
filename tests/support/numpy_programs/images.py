"""Images by loops over pixels, by masks and by windows."""

import math

import numpy as np
from support.numpy_programs.program import Programs

programs = Programs()


@programs(lambda draw, n: (draw.normal(size=(n, n)), draw.normal(size=(3, 3))), 5, 20)
def convolution_by_loops(image, kernel):
    kh, kw = kernel.shape
    h, w = image.shape
    out = np.zeros((h - kh + 1, w - kw + 1))
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = np.sum(image[i:i + kh, j:j + kw] * kernel)
    return out


@programs(lambda draw, n: (draw.normal(size=(2, n, n, 2)), draw.normal(size=(3, 3, 2, 3)), draw.normal(size=3)), 4, 10, rounding=1e-13)
def convolution_layer(x, w, b):
    k = w.shape[0]
    N, H, W, _ = x.shape
    out = np.empty((N, H - k + 1, W - k + 1, w.shape[3]))
    for i in range(H - k + 1):
        for j in range(W - k + 1):
            patch = x[:, i:i + k, j:j + k, :, np.newaxis]
            out[:, i, j, :] = np.sum(patch * w[np.newaxis], axis=(1, 2, 3))
    return np.maximum(out + b, 0)


@programs(lambda draw, n: (draw.normal(size=(n, n)),), 6, 24)
def max_pool_by_loops(x):
    out = np.zeros((x.shape[0] // 2, x.shape[1] // 2))
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            best = -math.inf
            for di in range(2):
                for dj in range(2):
                    if x[2 * i + di, 2 * j + dj] > best:
                        best = x[2 * i + di, 2 * j + dj]
            out[i, j] = best
    return out


@programs(lambda draw, n: (draw.random((n, n)), draw.random((n, n))), 6, 64, rounding=1e-15)
def azimuthal_integration(image, radius):
    bins = np.linspace(0, 1, 4)
    result = np.zeros(3)
    for i in range(3):
        mask = (radius >= bins[i]) & (radius < bins[i + 1])
        if mask.sum() > 0:
            result[i] = image[mask].mean()
    return result


@programs(lambda draw, n: (draw.random((n, n)), draw.uniform(0, n - 2, size=(5, 2))), 6, 30)
def bilinear_interpolation(image, points):
    out = np.zeros(len(points))
    for k, (y, x) in enumerate(points):
        y0, x0 = int(y), int(np.floor(x))
        fy, fx = y - y0, x - x0
        out[k] = (image[y0, x0] * (1 - fy) * (1 - fx) + image[y0 + 1, x0] * fy * (1 - fx)
                  + image[y0, x0 + 1] * (1 - fy) * fx + image[y0 + 1, x0 + 1] * fy * fx)
    return out


@programs(lambda draw, n: (draw.random((n, n)), 0.5), 6, 64)
def sobel_edges(image, threshold):
    gx = image[1:-1, 2:] - image[1:-1, :-2]
    gy = image[2:, 1:-1] - image[:-2, 1:-1]
    magnitude = np.hypot(gx, gy)
    edges = np.zeros_like(magnitude)
    edges[magnitude > threshold] = 1.0
    magnitude[magnitude < threshold] = 0
    return magnitude, edges


@programs(lambda draw, n: (draw.random((n, n)),), 5, 20)
def median_filter(image):
    padded = np.pad(image, 1, mode="edge")
    out = np.empty_like(image)
    for i in range(image.shape[0]):
        for j in range(image.shape[1]):
            window = np.sort(padded[i:i + 3, j:j + 3].ravel())
            out[i, j] = window[4]
    return out


@programs(lambda draw, n: (draw.random((n, n)), 0.8), 6, 64, rounding=1e-14)
def gaussian_blur(image, sigma):
    r = 2
    t = np.arange(-r, r + 1)
    k = np.exp(-t ** 2 / (2 * sigma ** 2))
    k /= k.sum()
    tmp = np.zeros_like(image)
    out = np.zeros_like(image)
    for i, w in enumerate(k):
        tmp += w * np.roll(image, i - r, axis=0)
    for i, w in enumerate(k):
        out += w * np.roll(tmp, i - r, axis=1)
    return out


@programs(lambda draw, n: (draw.random((n, n)), 0.3), 5, 20, rounding=1e-14)
def bilateral_filter(image, sigma):
    h, w = image.shape
    out = np.zeros_like(image)
    for y in range(h):
        for x in range(w):
            y0, y1 = max(0, y - 1), min(h, y + 2)
            x0, x1 = max(0, x - 1), min(w, x + 2)
            patch = image[y0:y1, x0:x1]
            weights = np.exp(-(patch - image[y, x]) ** 2 / (2 * sigma ** 2))
            out[y, x] = (weights * patch).sum() / weights.sum()
    return out


@programs(lambda draw, n: (np.linspace(-2, 0.6, n) + 0.01 * draw.random(n), np.linspace(-1, 1, n - 1)), 5, 30)
def mandelbrot_by_points(re, im):
    counts = np.zeros((im.size, re.size), dtype=np.int64)
    last = np.zeros((im.size, re.size))
    for i in range(im.size):
        for j in range(re.size):
            x = y = 0.0
            for k in range(6):
                x2, y2 = x * x, y * y
                if x2 + y2 > 4.0:
                    break
                y = 2 * x * y + im[i]
                x = x2 - y2 + re[j]
                counts[i, j] += 1
            last[i, j] = x
    return counts, last


@programs(lambda draw, n: (np.linspace(-2, 0.6, n) + 0.01 * draw.random(n), np.linspace(-1, 1, n - 1)), 6, 100, wrt=())
def mandelbrot_by_masks(re, im):
    X, Y = np.meshgrid(re, im)
    x, y = np.zeros_like(X), np.zeros_like(Y)
    counts = np.zeros(X.shape, dtype=int)
    for k in range(10):
        inside = x * x + y * y <= 4
        counts[inside] += 1
        x[inside], y[inside] = (x * x - y * y + X)[inside], (2 * x * y + Y)[inside]
    return counts


@programs(lambda draw, n: (draw.random(n),), 20, 400, rounding=1e-15)
def otsu_threshold(pixels):
    hist, edges = np.zeros(8), np.linspace(0, 1, 9)
    for p in pixels:
        hist[min(int(p * 8), 7)] += 1
    best, threshold = -1.0, 0.0
    for t in range(1, 8):
        w0, w1 = hist[:t].sum(), hist[t:].sum()
        if w0 == 0 or w1 == 0:
            continue
        m0 = np.sum(hist[:t] * edges[:t]) / w0
        m1 = np.sum(hist[t:] * edges[t:8]) / w1
        between = w0 * w1 * (m0 - m1) ** 2
        if between > best:
            best, threshold = between, edges[t]
    return pixels[pixels > threshold].mean(), threshold


@programs(lambda draw, n: (draw.random((n, n)),), 6, 100)
def integral_image_box_filter(image):
    n, m = image.shape
    table = np.zeros((n + 1, m + 1))
    for i in range(n):
        row = 0
        for j in range(m):
            row += image[i, j]
            table[i + 1, j + 1] = table[i, j + 1] + row
    k = 3
    return (table[k:, k:] - table[:-k, k:] - table[k:, :-k] + table[:-k, :-k]) / k ** 2


@programs(lambda draw, n: (draw.random((n, n)),), 5, 16)
def floyd_steinberg(image):
    img = image.copy()
    h, w = img.shape
    for y in range(h):
        for x in range(w):
            old = img[y, x]
            new = np.round(old)
            img[y, x] = new
            err = old - new
            if x + 1 < w:
                img[y, x + 1] += err * 7 / 16
            if y + 1 < h:
                if x > 0:
                    img[y + 1, x - 1] += err * 3 / 16
                img[y + 1, x] += err * 5 / 16
                if x + 1 < w:
                    img[y + 1, x + 1] += err * 1 / 16
    return img


@programs(lambda draw, n: (draw.random((n, n, 3)), 1.2), 5, 64)
def color_to_gray_with_gamma(image, gamma):
    gray = image[..., 0] * 0.299 + image[..., 1] * 0.587 + image[..., 2] * 0.114
    linear = np.where(gray <= 0.04045, gray / 12.92, ((gray + 0.055) / 1.055) ** gamma)
    low, high = np.min(linear), np.max(linear)
    return (linear - low) / (high - low)


@programs(lambda draw, n: (draw.random((n, n)), 0.3), 6, 40)
def rotate_nearest(image, angle):
    n = len(image)
    out = np.zeros_like(image)
    c, s = math.cos(angle), math.sin(angle)
    mid = (n - 1) / 2
    for y in range(n):
        for x in range(n):
            sx = c * (x - mid) + s * (y - mid) + mid
            sy = -s * (x - mid) + c * (y - mid) + mid
            i, j = int(round(sy)), int(round(sx))
            if 0 <= i < n and 0 <= j < n:
                out[y, x] = image[i, j]
    return out


@programs(lambda draw, n: ((draw.random((n, n)) < 0.4).astype(int),), 6, 40)
def game_of_life(board):
    for _ in range(3):
        neighbours = sum(np.roll(np.roll(board, i, 0), j, 1) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))
        new = np.zeros_like(board)
        new[(board == 1) & ((neighbours == 2) | (neighbours == 3))] = 1
        new[(board == 0) & (neighbours == 3)] = 1
        board = new
    return board, int(board.sum())


@programs(lambda draw, n: (draw.random((n, 400 if n > 100 else 6)), 0.9), 5, 300)
def recursive_filter_over_columns(image, a):
    out = np.empty_like(image)
    out[:, 0] = image[:, 0]
    for j in range(1, image.shape[1]):
        out[:, j] = a * out[:, j - 1] + (1 - a) * image[:, j]
    return out


@programs(lambda draw, n: (draw.random((n, n)),), 6, 30)
def non_maximum_suppression(response):
    peaks = []
    values = []
    for i in range(1, response.shape[0] - 1):
        for j in range(1, response.shape[1] - 1):
            v = response[i, j]
            if v == response[i - 1:i + 2, j - 1:j + 2].max() and v > 0.5:
                peaks.append((i, j))
                values.append(v)
    if not values:
        return 0.0, np.zeros((0, 2), int)
    return np.mean(values), np.array(peaks)
