"""Runs that studies share, kept in the user's cache: trained once for each configuration.

A change of the code that makes another model of the same configuration needs another version.
"""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from .. import __version__
from ..files import cache_folder
from .config import Config
from .loop import train


def trained(config: Config) -> Path:
    """The folder of a finished run with this configuration; one that was killed goes on."""
    about = json.dumps([__version__, asdict(config)], sort_keys=True)
    folder = cache_folder() / "runs" / hashlib.sha256(about.encode()).hexdigest()[:16]
    if not (folder / "model" / "config.json").exists():  # the last that a run writes
        train(config, folder, resume=True)
    return folder
