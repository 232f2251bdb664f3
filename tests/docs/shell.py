"""The shell commands that pages show, and what is known about each."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.docs.test_docs import FENCE, PAGES, ROOT

__all__ = ["NOT_RUN", "RUN", "Command", "commands_of", "reason_not_to_run", "shell_commands"]

# A block without a language is shell if it begins with one of these.
PROGRAMS = ("kreach", "make", "pip", "python", "python3", "curl", "printf", "venv/bin/")
SHELLS = {"sh", "bash", "console", "shell"}
CRON = re.compile(r"^(?:[\d*/,-]+\s+){5}(?=\S)")

# What is run: commands that end soon and by themselves. A new one is told here, or below.
RUN = (
    r"^kreach (measure|plan|groups (build|audit|segments)|keys (add|list)"
    r"|serve \w+ .*--check-config) ?"
)

# Why a command is not run. The first that matches counts; the test checks that each is needed.
NOT_RUN = {
    r"^kreach serve (?!.*--check-config)": "runs until it is stopped;"
    " tests/service and tests/lab/test_live.py do so",
    r"^kreach demo(?!.*--headless)": "opens a console; tests/cli/test_demo.py runs it",
    r"^kreach reproduce ": "takes minutes; tests/cli/test_reproduce.py runs it on little",
    r"^kreach (panel|measure .*--panel) ": "needs who saw what; tests/cli/test_panel.py runs it",
    r"^kreach (evaluate|tradeoff) ": "takes minutes; tests/cli/test_studies.py runs it on little",
    r"^kreach measure .*--engine spark": "starts Spark; tests/contract runs it on every engine",
    r"^kreach measure .*--engine \w+://": "needs a database; tests/contract starts them",
    r"^kreach measure .*--counts": "needs counts; tests/contract/test_count_queries.py runs it",
    r"^kreach jobs .*(--last|\[)": "needs a bidder's store; tests/cli/test_jobs.py runs it",
    r"^kreach keys (rotate|revoke) ": "needs the id of a key; tests/adsystem/access runs it",
    r"^kreach keys limit ": "needs a store with keys; tests/adsystem/access runs it",
    r"^kreach groups audience ": "needs people who match; tests/publisher/test_audience_file.py"
    " runs it",
    r"^kreach (backup|restore|settle|migrate) ": "needs stores; tests/cli/test_backup.py runs it",
    r"^kreach repair bidder ": "needs a stream; tests/adsystem/sharing/test_rebuilt_bidder.py does"
    " what it does",
    r"^kreach catalogues push ": "needs an object store; tests/adsystem/shipping runs it",
    r"^kreach log sql ": "writes a file; tests/contract/test_count_queries.py compares queries",
    r"^kreach groups apply ": "needs who saw what; tests/cli/test_groups_apply.py runs it",
    r"^kreach groups renew ": "needs an older build; tests/cli/test_groups_renew.py runs it",
    r"^curl ": "needs a running service; tests/adsystem/api and the browser tests ask it",
    r"^make (demo|test|quick|docs|check|bench)": "is what this test may be part of",
    r"^make image": "builds an image: make deploy-check does",
    r"^pip install ": "needs the network; tests/packaging installs the wheel",
    r"^python3 -m venv |^venv/bin/": "tests/packaging installs into an empty environment",
    r"^python -m benchmarks": "measures for minutes",
}


class Command(NamedTuple):
    """One command of a page."""

    page: str
    text: str

    @property
    def words(self) -> list[str]:
        """As a shell splits it, comments left out."""
        return shlex.split(self.text, comments=True)


def commands_of(page: Path) -> Iterator[str]:
    """The commands of a page in their order, continued lines joined."""
    for block in FENCE.finditer(page.read_text(encoding="utf-8")):
        language, code = block["language"].strip(), block["code"]
        lines = code.replace("\\\n", " ").splitlines()
        first = CRON.sub("", lines[0].strip()) if lines else ""
        if language not in SHELLS and not (language == "" and first.startswith(PROGRAMS)):
            continue
        yield from _joined(lines)


def _joined(lines: list[str]) -> Iterator[str]:
    """Lines as commands: what stands in quotes may go on, what is no program is its output."""
    held = ""
    for line in lines:
        held = f"{held}\n{line}" if held else CRON.sub("", line.strip())
        if not held.startswith(PROGRAMS):
            held = ""
            continue
        try:
            shlex.split(held, comments=True)
        except ValueError:
            continue  # a quote is open
        yield re.sub(r"\s{2,}", " ", held)
        held = ""


def shell_commands() -> list[Command]:
    """All of README and docs, each once a page."""
    return [
        Command(page.relative_to(ROOT).as_posix(), text)
        for page in PAGES
        for text in dict.fromkeys(commands_of(page))
    ]


def reason_not_to_run(text: str) -> str | None:
    """Why this command is not run by a test, or None."""
    for pattern, reason in NOT_RUN.items():
        if re.search(pattern, text):
            return reason
    return None
