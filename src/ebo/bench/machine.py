"""What stands beside every figure: the command, the date and the machine."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ebo import native


def circumstances(command: str) -> dict[str, Any]:
    """The command, today's date, and what the figures depend on."""
    return {
        "command": command,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {
            "processor": _processor(),
            "cores": os.cpu_count() or 1,
            "instruction_set": native.instruction_set(),
            "python": platform.python_version(),
        },
    }


def _processor() -> str:
    """The processor's name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
