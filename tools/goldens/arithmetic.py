"""Exact and noisy arithmetic under transformers' own code.

transformers computes norms, softmax and RoPE in float32 even where the model is float64. Under
`Arithmetic`, every mention of float32 means float64, and a float32 result is an error: the forward
pass is float64 throughout, which against float32 is as good as exact.

With a `Format`, every operation's result is also perturbed by as much as rounding in that format
would (Monte Carlo arithmetic: Parker, 1997). How far the logits then move is how far an honest
implementation in that format may be off, whatever its order of operations.
"""

import contextlib
import dataclasses
import math

import torch
from torch.overrides import TorchFunctionMode

MATRIX_PRODUCTS = {"linear", "matmul"}
ARITHMETIC = {"add", "sub", "mul", "div", "truediv", "pow", "mean", "rsqrt", "softmax", "silu",
              "sigmoid", "gelu", "tanh", "cos", "sin", "reciprocal", "conv1d", "exp", "softplus"}


@dataclasses.dataclass(frozen=True)
class Format:
    """A number format of an implementation: results are rounded to `unit` (half an ulp of 1);
    dot products are accumulated in float32 in either case."""

    unit: float
    accumulation_unit: float = 2.0**-24


FLOAT32 = Format(unit=2.0**-24)
BFLOAT16 = Format(unit=2.0**-9)


def operation(func):
    """"mul" for mul, __mul__, __rmul__ and __imul__ alike."""
    name = getattr(func, "__name__", "").strip("_")
    return name[1:] if name[:1] in "ri" and name[1:] in ARITHMETIC else name


class Arithmetic(TorchFunctionMode):
    """A forward pass in float64; with `number_format`, one that rounds like it, at random."""

    def __init__(self, number_format=None, generator=None):
        super().__init__()
        self.format = number_format
        self.generator = generator

    @contextlib.contextmanager
    def at_least_float32(self):
        """For RoPE's angles and linear attention's state, which are float32 in implementations of
        bfloat16, too."""
        before = self.format
        self.format = before and FLOAT32
        yield
        self.format = before

    def __torch_function__(self, func, types, args=(), kwargs=None):
        wide = lambda x: torch.float64 if x is torch.float32 else x
        args = tuple(wide(x) for x in args)
        kwargs = {key: wide(value) for key, value in (kwargs or {}).items()}
        if func is torch.Tensor.float:
            func = torch.Tensor.double
        result = func(*args, **kwargs)
        if isinstance(result, torch.Tensor):
            assert result.dtype is not torch.float32, f"{func} computes in float32"
            if self.format and result.dtype is torch.float64:
                first = args[0] if args else kwargs.get("input")
                result = self.perturb(operation(func), first, result)
        return result

    def perturb(self, name, first, exact):
        """`first`: of the operation's arguments."""
        if name in MATRIX_PRODUCTS:
            exact = exact + self.accumulation_error(first.shape[-1], exact)
        elif name not in ARITHMETIC:
            return exact
        uniform = 2 * torch.rand(exact.shape, generator=self.generator, dtype=torch.float64) - 1
        noisy = exact + exact * self.format.unit * uniform
        return torch.where(exact.isinf(), exact, noisy)  # as scores that are masked may be

    def accumulation_error(self, depth, exact):
        """The error of adding up `depth` products of random signs one after the other: partial sum
        i has variance i, and each is rounded with variance unit²/3 of that, together depth²/6;
        against the result's depth, and with the products' own rounding: depth/6 + 1/3."""
        spread = exact.square().mean(-1, keepdim=True).sqrt()
        normal = torch.randn(exact.shape, generator=self.generator, dtype=torch.float64)
        return normal * spread * self.format.accumulation_unit * math.sqrt(depth / 6 + 1 / 3)
