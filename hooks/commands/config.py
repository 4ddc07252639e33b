"""`selfheal config --schema`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from heal_core import config
from hooks import settings


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Print the JSON Schema of `.selfheal.yaml`."""
    del environ
    parser = settings.Parser(prog="selfheal config", description="The configuration file, for editors.")
    parser.add_argument("--schema", action="store_true", required=True, help="print its JSON Schema")
    parser.parse_args(list(arguments))
    print(json.dumps(config.schema(), indent=2))
    return 0
