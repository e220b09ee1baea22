"""`python -m bethink` does the same as the command `bethink`."""

import sys

from bethink.cli import main

if __name__ == "__main__":
    sys.exit(main())
