"""Requests like those of `aril bench generate` (src/apps/bench_generate.cc).

They are of the same distributions, not the same numbers: lengths as src/apps/bench_lengths.cc draws
them and adapters as src/apps/bench_popularity.cc does, after Punica's evaluation (Chen et al., MLSys
2024, section 7).
"""

import dataclasses
import math
import random

MAX_BATCH = 32
MAX_TOTAL = 4096  # the positions of Llama 2
SHORT_OUTPUTS = 200
MAX_SHORT_PROMPT = 2048 - SHORT_OUTPUTS
LOWEST_TOKEN = 10  # of prompts
POPULARITIES = ("distinct", "uniform", "skewed", "identical")


@dataclasses.dataclass(frozen=True)
class Request:
    which: int
    prompt_tokens: int
    output_tokens: int
    adapter: int

    def prompt(self, vocab_size: int) -> list[int]:
        """SyntheticPrompt in src/apps/bench_synthetic.cc."""
        return [LOWEST_TOKEN + (self.which * 7919 + t * 104729) % (vocab_size - LOWEST_TOKEN)
                for t in range(self.prompt_tokens)]


def max_total(lengths: str) -> int:
    """The maximum of prompt and output together of punica:MAX; 0 of punica-short, which has none."""
    name, _, maximum = lengths.partition(":")
    if lengths == "punica-short":
        return 0
    if name == "punica" and maximum.isdecimal() and 3 <= int(maximum) <= MAX_TOTAL:
        return int(maximum)
    raise ValueError(f"no lengths {lengths}: punica-short, or punica:MAX with a MAX from 3 to {MAX_TOTAL}")


def draw_lengths(total: int, source: random.Random) -> tuple[int, int]:
    """Tokens of a prompt and of its output. `total` is what max_total says."""
    prompt = math.floor(18 * source.lognormvariate(0, 0.8) - 1)
    prompt = min(max(prompt, 1), total - 2 if total else MAX_SHORT_PROMPT)
    if not total:
        return prompt, source.randint(1, SHORT_OUTPUTS)
    return prompt, max(source.randrange(total) - prompt, 2)


def shares(popularity: str, n: int) -> list[int]:
    """How many of n successive requests use each adapter, as AdapterShares has them."""
    if popularity == "distinct":
        return [1] * n
    if popularity == "identical":
        return [n]
    if popularity == "uniform":
        adapters = math.ceil(math.sqrt(n))
        return [n // adapters + (i < n % adapters) for i in range(adapters)]
    result, share = [], 1.0
    while (left := n - sum(result)) > 0:
        result.append(min(int(share), left))
        share *= 1.5
    return sorted(result, reverse=True)


def assign(popularity: str, count: int, adapters: int, seed: int) -> list[int]:
    """Each request's adapter: the shares in each MAX_BATCH of them, shuffled; distinct goes round all."""
    block = [i for i, share in enumerate(shares(popularity, MAX_BATCH)) for _ in range(share)]
    if adapters <= max(block):
        raise ValueError(f"{popularity} with {MAX_BATCH} at a time needs {max(block) + 1} adapters")
    if popularity == "distinct":
        return [i % adapters for i in range(count)]
    source, result = random.Random(seed), []
    while len(result) < count:
        source.shuffle(block)
        result += block
    return result[:count]


def draw(popularity: str, lengths: str, count: int, adapters: int, seed: int) -> list[Request]:
    """The same lengths for every popularity. ValueError says what cannot be drawn."""
    total, source = max_total(lengths), random.Random(seed)
    return [Request(i, *draw_lengths(total, source), adapter)
            for i, adapter in enumerate(assign(popularity, count, adapters, seed))]


def batches(requests: list[Request], one_adapter: bool) -> list[list[Request]]:
    """First come, first served, without continuous batching: who comes after waits for a whole batch."""
    result = []
    for request in requests:
        last = result[-1] if result else []
        if 0 < len(last) < MAX_BATCH and (not one_adapter or last[0].adapter == request.adapter):
            last.append(request)
        else:
            result.append([request])
    return result
