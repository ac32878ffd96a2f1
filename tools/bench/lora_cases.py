"""Punica's cases as `aril bench kernels --device cuda --kernel lora` has them (docs/device.md)."""

import dataclasses
import itertools
import math

IN = 4096
OUTS = (4096, 11008)
RANKS = (8, 16, 32, 64)
BATCHES = (1, 2, 4, 8, 16, 32, 64)
POPULARITIES = ("distinct", "uniform", "skewed", "identical")
ELEMENT = 2  # bytes of a bfloat16


def segment_lengths(popularity: str, rows: int) -> list[int]:
    """Rows of each adapter, as AdapterShares in src/apps/bench_popularity.cc has them."""
    if popularity == "distinct":
        return [1] * rows
    if popularity == "identical":
        return [rows]
    adapters = math.ceil(math.sqrt(rows))
    if popularity == "uniform":
        return [rows // adapters + (i < rows % adapters) for i in range(adapters)]
    lengths = []
    share = 1.0
    while sum(lengths) < rows:
        lengths.append(min(int(share), rows - sum(lengths)))
        share *= 1.5
    return sorted(lengths, reverse=True)


@dataclasses.dataclass(frozen=True)
class Case:
    out: int
    rank: int
    batch: int
    popularity: str

    def __str__(self) -> str:
        return "/".join(map(str, dataclasses.astuple(self)))

    def matches(self, pattern: str) -> bool:
        """Whether each part of OUT/RANK/BATCH/POPULARITY is `*` or the case's own."""
        parts, own = pattern.split("/"), str(self).split("/")
        return len(parts) == len(own) and all(p in ("*", o) for p, o in zip(parts, own))

    def segment_lengths(self) -> list[int]:
        return segment_lengths(self.popularity, self.batch)

    def adapter_bytes(self) -> int:
        return self.rank * (IN + self.out) * ELEMENT

    def describe(self) -> dict:
        """What Aril prints of the case, `bytes` with its y: float32, read and written."""
        moved = (len(self.segment_lengths()) * self.adapter_bytes() + self.batch * IN * ELEMENT
                 + self.batch * self.out * 2 * 4)
        return {"operands": f"{IN} to {self.out} rank {self.rank} {self.popularity}",
                "rows": self.batch, "bytes": moved}


def matching(pattern: str) -> list[Case]:
    cases = itertools.starmap(Case, itertools.product(OUTS, RANKS, BATCHES, POPULARITIES))
    return [case for case in cases if case.matches(pattern)]
