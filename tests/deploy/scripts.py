"""The programs beside the Containerfile, as modules."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[2]
IMAGE = CHECKOUT / "deploy/image"


def script(name: str) -> Any:
    """Load deploy/image/NAME.py."""
    spec = spec_from_file_location(f"deploy_image_{name}", IMAGE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
