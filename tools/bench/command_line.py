"""What the peers' command lines have in common."""

import argparse
import sys

WRONG_USAGE = 64


class Parser(argparse.ArgumentParser):
    """Exits with WRONG_USAGE where an argument is not understood."""

    def error(self, message):
        self.print_usage(sys.stderr)
        self.exit(WRONG_USAGE, f"{self.prog}: {message}\n")
