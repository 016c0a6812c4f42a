"""``python -m audit COMMAND``: see :mod:`audit.cli`."""

import sys

from audit.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
