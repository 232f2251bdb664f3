"""What a bidder does besides answering: tasks that run again and again until it stops."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from kreach.service.logs import Log

__all__ = ["BackgroundTasks", "Task"]

Task = Callable[[], Awaitable[None]]
"""One round of a task, which includes its wait."""


class BackgroundTasks:
    """Tasks on the running event loop."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._running: list[asyncio.Task[None]] = []

    def start(self, tasks: Iterable[Task]) -> None:
        """Run each of them until `cancel`."""
        self._running = [asyncio.create_task(self._repeat(task)) for task in tasks]

    async def cancel(self) -> None:
        """Stop all tasks, and wait for their end."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _repeat(self, task: Task) -> None:
        """Run a task again and again; an error is logged by its type."""
        while True:
            try:
                await task()
            except Exception as error:
                name = getattr(task, "__name__", "task")
                self._log.error("task failed", task=name, kind=type(error).__name__)
                await asyncio.sleep(1.0)
