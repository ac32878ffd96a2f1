#!/usr/bin/env python3
"""The cases of `aril bench kernels --device cuda --kernel lora` as PyTorch computes them.

Measured as there: a graph of 16 applications, each of the next adapters of a large pool, so that
weights come from memory; events around a replay, before it a copy that empties the L2; the median of
21 replays after 3. A graph has no cost of Python or of launches in it, which favours the loop most.
Weights are laid out as PEFT has them (A [rank, in], B [out, rank]); x, y and weights are bfloat16.
Aril's y is float32, and so are the `bytes` printed here: PyTorch has fewer to move.

Prints one JSON object. Exits with 2 without a GPU or PyTorch, with 1 at a wrong result or an error of
the device, with 64 if an argument is not understood.
"""

import functools
import json
import math
import os
import statistics
import sys

import command_line
import lora_cases

try:
    import torch
except ImportError:
    torch = None

POOL_BYTES = 1 << 30
CPU_POOL_BYTES = 1 << 25
FLUSHED_BYTES = 256 << 20
PAIRS = 16  # applications in a graph
WARM_UPS = 3
REPLAYS = 21
SCALE = 0.5
CHECKED_COLUMNS = 16  # of each row
# Padding of ranks, few and many blocks of rows, a segment of several blocks.
CPU_PATTERNS = ("4096/8/4/skewed", "4096/64/32/identical", "4096/16/64/skewed")


class WrongResult(Exception):
    pass


class Problem:
    """A case's rows, the pool cut into its adapters, and who comes when in PAIRS applications."""

    def __init__(self, case: lora_cases.Case, pool, pairs: int):
        random = torch.Generator(pool.device).manual_seed(1)
        adapters = pool.numel() * lora_cases.ELEMENT // case.adapter_bytes()
        a, b, _ = pool.tensor_split((adapters * case.rank * lora_cases.IN,
                                     adapters * case.rank * (lora_cases.IN + case.out)))
        self.case = case
        self.a = a.view(adapters, case.rank, lora_cases.IN)
        self.b = b.view(adapters, case.out, case.rank)
        self.x = pool.new_empty(case.batch, lora_cases.IN).uniform_(-1, 1, generator=random)
        self.y_before = pool.new_empty(case.batch, case.out).uniform_(-8, 8, generator=random)
        self.y = self.y_before.clone()
        self.v = pool.new_empty(case.batch, case.rank)
        self.segments = []  # of each application: (first row, row after the last, adapter)
        adapter = 0
        for _ in range(pairs):
            row = 0
            self.segments.append([])
            for length in case.segment_lengths():
                self.segments[-1].append((row, row + length, adapter))
                row += length
                adapter = (adapter + 1) % adapters
            assert row == case.batch, (row, case)
        self.row_adapters = [
            torch.tensor([adapter for begin, end, adapter in segments for _ in range(begin, end)],
                         device=pool.device) for segments in self.segments]
        self.columns = torch.randint(case.out, (case.batch, CHECKED_COLUMNS), device=pool.device,
                                     generator=random)

    @functools.cached_property
    def expected(self) -> tuple:
        """The last application's result at self.columns in float64, and how far it may be missed.

        Rounding to bfloat16 errs by 2⁻⁸ of a value at most: each element of v, and the sum in y.
        Twice that, because cuBLAS may add up parts of v in bfloat16, too; sums in float32 err by
        less than a hundredth of it. A wrong adapter is off by about as much as the result.
        """
        adapters = self.row_adapters[-1]
        v = (self.a[adapters].double() @ self.x.double()[:, :, None])[:, None, :, 0]
        terms = SCALE * v * self.b[adapters[:, None], self.columns].double()
        y = self.y_before.gather(1, self.columns).double() + terms.sum(-1)
        return y, 2 * 2**-8 * (terms.abs().sum(-1) + y.abs())

    def check(self, name: str, last) -> None:
        self.v.fill_(math.nan)  # what another variant left there is right
        self.y.copy_(self.y_before)
        last()
        expected, bound = self.expected
        error = (self.y.gather(1, self.columns).double() - expected).abs()
        if not (error <= bound).all():  # also of NaN
            worst = (error / bound).max().item()
            raise WrongResult(f"wrong result: {self.case} {name}: {worst:.3g} times what rounding explains")

    def multiply(self, a, b) -> None:
        """y += SCALE · x aᵀ bᵀ, row by row: a [batch, rank, in], b [batch, out, rank]."""
        torch.bmm(self.x[:, None], a.transpose(1, 2), out=self.v[:, None])
        self.y[:, None].baddbmm_(self.v[:, None], b.transpose(1, 2), alpha=SCALE)


# Each variant makes a function for every application of a problem. What it says of itself is printed.

def loop(problem: Problem) -> list:
    """for each adapter, mm of its rows and A, addmm of that and B into y's rows"""
    def run(segments):
        for begin, end, adapter in segments:
            v = problem.v[begin:end]
            torch.mm(problem.x[begin:end], problem.a[adapter].T, out=v)
            problem.y[begin:end].addmm_(v, problem.b[adapter].T, alpha=SCALE)
    return [functools.partial(run, segments) for segments in problem.segments]


def gather_bmm(problem: Problem) -> list:
    """index_select of each row's A and B, then bmm and baddbmm"""
    batch = problem.case.batch
    a = problem.a.new_empty(batch, *problem.a.shape[1:])
    b = problem.b.new_empty(batch, *problem.b.shape[1:])

    def run(adapters):
        torch.index_select(problem.a, 0, adapters, out=a)
        torch.index_select(problem.b, 0, adapters, out=b)
        problem.multiply(a, b)
    return [functools.partial(run, adapters) for adapters in problem.row_adapters]


def bmm(problem: Problem) -> list:
    """bmm and baddbmm of weights that were gathered before, a copy for each row"""
    return [functools.partial(problem.multiply, problem.a[adapters], problem.b[adapters])
            for adapters in problem.row_adapters]


def triton(problem: Problem) -> list:
    """segmented split-K shrink and expand: our own writing of that scheme, not a published one, not tuned"""
    import lora_triton  # where there is one, and not before --cpu chose the interpreter
    device = problem.x.device
    blocks = [lora_triton.blocks_of(segments, device) for segments in problem.segments]
    parts = torch.full((lora_triton.parts_of(len(blocks[0])), *problem.v.shape), math.nan,
                       device=device)
    return [functools.partial(lora_triton.apply, problem.x, problem.a, problem.b, problem.y, block,
                              parts, SCALE) for block in blocks]


VARIANTS = {variant.__name__: variant for variant in (loop, gather_bmm, bmm, triton)}


class Gpu:
    """Everything runs on one stream, which is not the default one: that cannot be captured."""

    def __init__(self, pool):
        torch.cuda.synchronize()  # the default stream filled the pool
        self.stream = torch.cuda.Stream()
        torch.cuda.set_stream(self.stream)
        self.pool, self.copy = pool, torch.empty_like(pool)
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]

    def copy_bandwidth(self) -> float:
        """Read plus written bytes per second of a copy of the whole pool."""
        return 2 * POOL_BYTES / self.median_us(lambda: self.copy.copy_(self.pool)) * 1e6

    def us(self, applications: list) -> float:
        """Of one of the applications."""
        for run in applications:  # so that nothing is compiled or loaded during the capture
            run()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            for run in applications:
                run()
        return self.median_us(graph.replay) / len(applications)

    def median_us(self, work) -> float:
        begin, end = self.events
        flushed = FLUSHED_BYTES // lora_cases.ELEMENT
        times = []
        for _ in range(WARM_UPS + REPLAYS):
            self.copy[:flushed].copy_(self.copy[-flushed:])
            begin.record()
            work()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1000)
        return statistics.median(times[WARM_UPS:])


def triton_version() -> tuple:
    """The version, or None and why there is none."""
    try:
        import lora_triton
    except Exception as problem:  # a broken installation raises anything
        return None, f"triton cannot be used: {problem!r}"
    return lora_triton.triton.__version__, None


def run_cases(cases: list, names: list, gpu, pool, pairs: int) -> list:
    results = []
    for case in cases:
        problem = Problem(case, pool, pairs)
        us = {}
        for name in names:
            applications = VARIANTS[name](problem)
            problem.check(name, applications[-1])
            us[name] = round(gpu.us(applications), 2) if gpu else None
        results.append({**case.describe(), "us": us})
        print(f"{len(results)} of {len(cases)}, {case}: {us if gpu else 'right'}", file=sys.stderr)
    return results


def parse_arguments():
    parser = command_line.Parser(description=__doc__.split("\n", maxsplit=1)[0], epilog="All 224 cases are meant to take "
                    "some two minutes; '*/16/*/*' is a quarter of them, --variants loop,bmm half of each.")
    parser.add_argument("pattern", nargs="?", metavar="OUT/RANK/BATCH/POPULARITY",
                        help="only these cases, `*` for all of one kind, as in 11008/16/64/distinct or '*/16/64/*'")
    parser.add_argument("--variants", default=",".join(VARIANTS), help="some of %(default)s")
    parser.add_argument("--cpu", action="store_true", help="only check a few cases, on the CPU (Triton's "
                        "in its interpreter); nothing is timed")
    options = parser.parse_args()
    options.names = options.variants.split(",")
    if unknown := set(options.names) - VARIANTS.keys():
        parser.error(f"no variant {', '.join(sorted(unknown))}; there are {', '.join(VARIANTS)}")
    patterns = [options.pattern or "*/*/*/*"]
    if options.cpu and not options.pattern:
        patterns = CPU_PATTERNS
    options.cases = [case for pattern in patterns for case in lora_cases.matching(pattern)]
    if not options.cases:
        parser.error(f"no case {options.pattern}: out {lora_cases.OUTS}, rank {lora_cases.RANKS}, "
                     f"batch {lora_cases.BATCHES}, popularity {lora_cases.POPULARITIES}")
    return options


def main() -> int:
    options = parse_arguments()
    if torch is None or not (options.cpu or torch.cuda.is_available()):
        print("torch is not installed" if torch is None else "torch finds no GPU", file=sys.stderr)
        return 2
    if options.cpu:
        os.environ["TRITON_INTERPRET"] = "1"
    version, why_not = triton_version()
    names = [name for name in options.names if name != "triton" or version]
    pool = torch.empty((CPU_POOL_BYTES if options.cpu else POOL_BYTES) // lora_cases.ELEMENT,
                       dtype=torch.bfloat16, device="cpu" if options.cpu else "cuda")
    pool.uniform_(-1, 1, generator=torch.Generator(pool.device).manual_seed(0))
    gpu = None if options.cpu else Gpu(pool)
    head = {"device": torch.cuda.get_device_name() if gpu else "cpu",
            "torch": torch.__version__, "triton": version,
            "copy_bytes_per_second": gpu and gpu.copy_bandwidth(),
            "variants": {name: VARIANTS[name].__doc__ for name in names},
            "skipped": {name: why_not for name in options.names if name not in names}}
    try:
        cases = run_cases(options.cases, names, gpu, pool, 2 if options.cpu else PAIRS)
    except WrongResult as wrong:
        print(wrong, file=sys.stderr)
        return 1
    lines = ",\n".join(f"    {json.dumps(case)}" for case in cases)
    print(json.dumps(head, indent=2)[:-2] + f',\n  "cases": [\n{lines}\n  ]\n}}')
    return 0


if __name__ == "__main__":
    sys.exit(main())
