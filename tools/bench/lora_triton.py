"""A segmented LoRA product in Triton: a peer for our kernels, of our own writing.

It is the scheme that public servers use, not the code of any: one launch shrinks, each program some
rows of one adapter and a part of K; one expands, each program some of those rows and some columns,
adding up the parts first. Nothing is zeroed, and no atomic operation is needed.
"""

import torch
import triton
import triton.language as tl

ROWS = 16  # of one program: what the tensor cores take at least
STEP = 128  # along K at a time
COLUMNS = 128  # of one expanding program


@triton.jit(do_not_specialize=["batch"])
def shrink_kernel(x, a, blocks, parts, batch, IN: tl.constexpr, RANK: tl.constexpr,
                  PADDED: tl.constexpr, PART: tl.constexpr, ROWS: tl.constexpr, STEP: tl.constexpr,
                  OPERAND: tl.constexpr):
    block = tl.program_id(0) * 3
    part = tl.program_id(1)
    first = tl.load(blocks + block)
    m = tl.arange(0, ROWS)
    r = tl.arange(0, PADDED)
    k = part * PART + tl.arange(0, STEP)
    has_row = (m < tl.load(blocks + block + 1))[:, None]
    has_rank = r < RANK
    a += tl.load(blocks + block + 2).to(tl.int64) * RANK * IN
    v = tl.zeros([ROWS, PADDED], tl.float32)
    for _ in range(0, PART, STEP):
        xs = tl.load(x + (first + m)[:, None] * IN + k[None, :], mask=has_row, other=0.0)
        weights = tl.load(a + r[None, :] * IN + k[:, None], mask=has_rank[None, :], other=0.0)
        v = tl.dot(xs.to(OPERAND), weights.to(OPERAND), v)
        k += STEP
    tl.store(parts + (part * batch + first + m)[:, None] * RANK + r[None, :], v,
             mask=has_row & has_rank[None, :])


@triton.jit(do_not_specialize=["batch"])
def expand_kernel(parts, b, blocks, y, batch, out, SCALE: tl.constexpr, RANK: tl.constexpr,
                  PADDED: tl.constexpr, PARTS: tl.constexpr, ROWS: tl.constexpr,
                  COLUMNS: tl.constexpr, OPERAND: tl.constexpr):
    block = tl.program_id(0) * 3
    first = tl.load(blocks + block)
    m = tl.arange(0, ROWS)
    r = tl.arange(0, PADDED)
    n = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    has_row = (m < tl.load(blocks + block + 1))[:, None]
    has_rank = r < RANK
    b += tl.load(blocks + block + 2).to(tl.int64) * out * RANK
    weights = tl.load(b + n[None, :] * RANK + r[:, None], mask=has_rank[:, None], other=0.0)
    v = tl.zeros([ROWS, PADDED], tl.float32)
    for part in tl.static_range(PARTS):
        v += tl.load(parts + (part * batch + first + m)[:, None] * RANK + r[None, :],
                     mask=has_row & has_rank[None, :], other=0.0)
    delta = tl.dot(v.to(tl.bfloat16).to(OPERAND), weights.to(OPERAND))
    place = y + (first + m)[:, None] * out + n[None, :]
    before = tl.load(place, mask=has_row, other=0.0).to(tl.float32)
    tl.store(place, (before + SCALE * delta).to(tl.bfloat16), mask=has_row)


def blocks_of(segments: list, device) -> torch.Tensor:
    """First row, rows and adapter of each ROWS or fewer rows of a (begin, end, adapter)."""
    return torch.tensor([(first, min(ROWS, end - first), adapter)
                         for begin, end, adapter in segments for first in range(begin, end, ROWS)],
                        dtype=torch.int32, device=device)


def parts_of(num_blocks: int) -> int:
    """Few blocks are cut finer, to have work for a hundred and some multiprocessors. Not measured."""
    return 32 if num_blocks <= 8 else 8


def apply(x, a, b, y, blocks, parts, scale: float) -> None:
    """y += scale · x Aᵀ Bᵀ, of `blocks`. parts [number, batch, rank] is scratch."""
    (batch, in_features), out, rank = x.shape, y.shape[1], a.shape[1]
    assert in_features % (len(parts) * STEP) == 0 and out % COLUMNS == 0, (x.shape, y.shape)
    # The interpreter's dot takes bfloat16 for the integers that hold it.
    operand = tl.float32 if x.device.type == "cpu" else tl.bfloat16
    shared = {"RANK": rank, "PADDED": max(16, rank), "ROWS": ROWS, "OPERAND": operand}
    shrink_kernel[(len(blocks), len(parts))](x, a, blocks, parts, batch, IN=in_features,
                                             PART=in_features // len(parts), STEP=STEP, **shared)
    expand_kernel[(len(blocks), out // COLUMNS)](parts, b, blocks, y, batch, out, SCALE=scale,
                                                 PARTS=len(parts), COLUMNS=COLUMNS, **shared)
