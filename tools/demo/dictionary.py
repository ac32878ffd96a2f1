"""Ambrose Bierce's "The Devil's Dictionary" (1911, public domain), of Debian's package dict-devil.

Only training reads it.
"""

import functools
import gzip
import pathlib
import re

FILE = pathlib.Path("/usr/share/dictd/devil.dict.dz")


@functools.cache
def entries() -> list[str]:
    text = gzip.open(FILE, "rt", encoding="utf-8", errors="replace").read()
    parts = re.split(r"\n(?=[A-Z-]+, )", text[text.index("ABASEMENT"):])
    return [re.sub(r"\s+", " ", part).strip() for part in parts]


@functools.cache
def words() -> list[str]:
    """Its different words of three to ten letters, in small letters and in order."""
    return sorted(set(re.findall(r"\b[a-z]{3,10}\b", " ".join(entries()).lower())))
