"""Environments of their own for programs that pin older packages than kreach uses.

They lie in `.environments/` of the checkout; the first run makes them.
"""

import fcntl
import subprocess
import sys
from pathlib import Path

__all__ = ["program"]

_ROOT = Path(__file__).parents[1]
_HOME = _ROOT / ".environments"
_UV = _ROOT / ".uv" / "bin" / "uv"
_MAX_SECONDS = 500


def program(command: str, requirements: Path) -> Path:
    """A command of the packages that a file lists, installed into an environment of its own."""
    home = _HOME / command
    home.mkdir(parents=True, exist_ok=True)
    folder, installed = home / "env", home / "installed.txt"
    with (home / "lock").open("w") as lock:  # several processes may ask at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = requirements.read_text(encoding="utf-8")
        if not installed.is_file() or installed.read_text(encoding="utf-8") != wanted:
            python = str(folder / "bin" / "python")
            _run("venv", "-q", "--clear", "--python", sys.executable, str(folder))
            _run("pip", "install", "-q", "--python", python, "-r", str(requirements))
            installed.write_text(wanted, encoding="utf-8")
    return folder / "bin" / command


def _run(*arguments: str) -> None:
    subprocess.run([str(_UV), *arguments], check=True, timeout=_MAX_SECONDS)
