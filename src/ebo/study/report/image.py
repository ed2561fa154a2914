"""Dense figures as small pictures: PNG with a palette, by NumPy and zlib alone.

A scatter of some thousand points is 10 kB so, and a browser draws it at once; as SVG it would be
ten times that. The background is transparent, so the picture fits a light page and a dark one.
"""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from ebo.arrays import Floats, Ints

Bytes = NDArray[np.uint8]

VIRIDIS = ("440154", "482878", "3e4989", "31688e", "26828e", "1f9e89", "35b779", "6ece58", "b5de2b")
BLUES = ("f1f5fa", "cfe0f0", "9fc6e3", "62a3d2", "2f7cbb", "105a9e", "08306b")
GLOW = ("20262f", "23405c", "1f5f83", "1c82a0", "35a8a8", "7fcea0", "eaf2a2")
SHADES = 16  # colours of a scatter


def ramp(stops: tuple[str, ...], n: int) -> Bytes:
    """n colours (n, 3) evenly along the stops."""
    given = np.array([[int(s[i : i + 2], 16) for i in (0, 2, 4)] for s in stops], dtype=np.float64)
    at = np.linspace(0, len(stops) - 1, n)
    channels = [np.interp(at, np.arange(len(stops)), given[:, c]) for c in range(3)]
    return np.stack(channels, axis=1).round().astype(np.uint8)


def png(pixels: Bytes, colours: Bytes) -> str:
    """A picture (h, w) of indices into colours (k, 4), with opacity, as a data URI."""
    height, width = pixels.shape
    lines = np.zeros((height, width + 1), dtype=np.uint8)  # each begins with its filter: none
    lines[:, 1:] = pixels
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", np.ascontiguousarray(colours[:, :3]).tobytes()),
        (b"tRNS", np.ascontiguousarray(colours[:, 3]).tobytes()),
        (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    ]
    whole = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )
    return "data:image/png;base64," + base64.b64encode(whole).decode("ascii")


def scatter(
    x: Floats,
    y: Floats,
    shade: Ints,
    colours: Bytes,
    size: tuple[int, int],
    radius: float,
    opacity: float = 1.0,
) -> str:
    """Dots at (x, y) in [0, 1]^2, y upwards, later ones on top; shade indexes colours (k, 3)."""
    width, height = size
    shades = len(colours)
    reach = int(np.ceil(radius))
    dx, dy, edge = _stamp(radius, reach)
    # The frame is padded by the reach of a dot, so that no dot needs to be cut while drawing.
    pixels = np.zeros((height + 2 * reach, width + 2 * reach), dtype=np.uint8)
    column = np.rint(x * (width - 1)).astype(np.int64) + reach
    row = np.rint((1.0 - y) * (height - 1)).astype(np.int64) + reach
    at = (row[:, None] + dy) * pixels.shape[1] + column[:, None] + dx
    pixels.reshape(-1)[at.reshape(-1)] = (1 + shade[:, None] + shades * edge).reshape(-1)
    palette = np.zeros((1 + 2 * shades, 4), dtype=np.uint8)
    palette[1:, :3] = np.concatenate([colours, colours])
    palette[1 : 1 + shades, 3] = round(255 * opacity)
    palette[1 + shades :, 3] = round(110 * opacity)
    return png(pixels[reach : reach + height, reach : reach + width], palette)


def matrix(shares: Floats, stops: tuple[str, ...], levels: int = 32) -> str:
    """A square of shares in [0, 1], one pixel each; the diagonal, and NaN, are left empty."""
    empty = np.isnan(shares) | np.eye(len(shares), dtype=bool)
    level = np.rint(np.clip(np.nan_to_num(shares), 0.0, 1.0) * (levels - 1)).astype(np.uint8) + 1
    level[empty] = 0
    palette = np.full((levels + 1, 4), 255, dtype=np.uint8)
    palette[1:, :3] = ramp(stops, levels)
    palette[0] = (128, 128, 128, 90)
    return png(level, palette)


def _stamp(radius: float, reach: int) -> tuple[Ints, Ints, Ints]:
    """The pixels of a dot, as offsets, and which of them are its soft edge."""
    offsets = np.arange(-reach, reach + 1)
    dx, dy = (a.reshape(-1) for a in np.meshgrid(offsets, offsets))
    distance = np.hypot(dx, dy)
    inside = distance <= radius
    return dx[inside], dy[inside], (distance[inside] > radius - 0.8).astype(np.int64)
