"""Status codes that an exported program returns, and their meaning."""

from __future__ import annotations

STATUS: tuple[tuple[str, str], ...] = (
    ("OK", "no error"),
    ("NULL_POINTER", "a pointer to an array, or to working memory, is NULL"),
    ("MISALIGNED", "the working memory, or an array, is not aligned"),
    ("NO_CODE", "this processor lacks what every level of the library needs"),
    ("INDEX", "an index is out of range; nothing was written into inputs"),
    ("DECISION", "a decision on values differs from that of the exported call; nothing was written into inputs"),
)
"""Name and text of each status, by number."""
