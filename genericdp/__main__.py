"""``python -m genericdp``."""

import sys

from genericdp.cli import main

sys.exit(main())
