"""Uids of jobs: UUIDs of version 7, so that new rows lie side by side in the index."""

import os


def new_uid(now_s: float) -> str:
    """A UUID that sorts by time, to a millisecond (RFC 9562, section 5.7)."""
    millis = int(now_s * 1000) & ((1 << 48) - 1)
    chance = int.from_bytes(os.urandom(10), "big")
    value = millis << 80 | chance
    value = value & ~(0xF << 76) | 7 << 76
    value = value & ~(0x3 << 62) | 2 << 62
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
