"""build/venv (tools/venv.sh), where tests find the clients of others that Debian does not have."""

import os
import pathlib
import sys

VENV = pathlib.Path(__file__).resolve().parents[1] / "build/venv"


def enter() -> None:
    """Runs the program again in it, if it is there: call it first."""
    if VENV.is_dir() and pathlib.Path(sys.prefix) != VENV:
        os.execv(VENV / "bin/python3", [str(VENV / "bin/python3"), *sys.argv])
