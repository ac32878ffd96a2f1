"""A model of a published shape and adapters for it, with random weights, for benchmarks over HTTP."""

import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


def synthesize(aril: pathlib.Path, shape: str, model: pathlib.Path, adapters: pathlib.Path,
               count: int, rank: int) -> None:
    """Writes both folders: weights in bf16, the demo's tokenizer, adapters of all linear layers."""
    for command in (
            ["model", "--shape", shape, "--tokenizer", ROOT / "models/demo/base", "--seed", 1,
             "--dtype", "bf16", "--out", model],
            ["adapters", "--model", model, "--count", count, "--ranks", rank, "--targets",
             "all-linear", "--seed", 1, "--out", adapters]):
        subprocess.run([aril, "synth", *map(str, command)], check=True, stdout=subprocess.DEVNULL)
