"""Plans are solved in a child process: in this one they would make requests wait.

The child reads tasks from its standard input and ends when that is closed, so it cannot outlive a
bidder that was killed. Both ends are ours: what crosses is pickled.
"""

import asyncio
import contextlib
import os
import pickle
import struct
import sys
from typing import BinaryIO

from kreach.adsystem.bidding.plan import Plan
from kreach.adsystem.bidding.worth import Worth
from kreach.adsystem.bidserver.plan_task import PlanTask

__all__ = ["PlanWorker"]

_LENGTH = struct.Struct("<Q")
Solved = tuple[Plan | None, Worth | None]


class PlanWorker:
    """Solves one task at a time; a child that died is replaced with the next task."""

    def __init__(self) -> None:
        self._child: asyncio.subprocess.Process | None = None

    async def solve(self, task: PlanTask) -> Solved:
        """The plan and its table."""
        child = self._child
        if child is None or child.returncode is not None:
            child = self._child = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                __name__,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
        assert child.stdin is not None
        assert child.stdout is not None
        body = pickle.dumps(task, protocol=pickle.HIGHEST_PROTOCOL)
        child.stdin.write(_LENGTH.pack(len(body)) + body)
        await child.stdin.drain()
        (length,) = _LENGTH.unpack(await child.stdout.readexactly(_LENGTH.size))
        solved: Solved | Exception = pickle.loads(await child.stdout.readexactly(length))
        if isinstance(solved, Exception):
            raise solved
        return solved

    async def close(self) -> None:
        """End the child."""
        child = self._child
        if child is not None and child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()


def _work(tasks: BinaryIO, answers: BinaryIO) -> None:
    while head := tasks.read(_LENGTH.size):
        task: PlanTask = pickle.loads(tasks.read(_LENGTH.unpack(head)[0]))
        solved: Solved | Exception
        try:
            solved = task.run()
        except Exception as error:
            solved = error
        body = pickle.dumps(solved, protocol=pickle.HIGHEST_PROTOCOL)
        answers.write(_LENGTH.pack(len(body)) + body)
        answers.flush()


if __name__ == "__main__":
    os.nice(5)
    with contextlib.suppress(KeyboardInterrupt, BrokenPipeError):
        _work(sys.stdin.buffer, sys.stdout.buffer)
