"""Thread pools for blocking work, with bounded queues; a fair one for work that takes long."""

import asyncio
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import ceil
from typing import Any, TypeVar

from kreach.service.tracing import in_step

__all__ = ["Busy", "FairWorkers", "QueueFull", "Workers"]

T = TypeVar("T")
_MAX_RETRY_SECONDS = 60
_RECENT = 0.2  # the weight of the last piece of work in the mean time of one


class Busy(RuntimeError):
    """Too many requests are waiting."""


class QueueFull(RuntimeError):
    """One caller has too many requests waiting; others are served."""

    def __init__(self, waiting: int, retry_seconds: int) -> None:
        super().__init__(f"{waiting} requests of this kind are waiting already: try again later")
        self.retry_seconds = retry_seconds


class Workers:
    """A thread pool for short work, with a bounded queue."""

    def __init__(self, name: str, threads: int, max_waiting: int) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._max_under_way = threads + max_waiting
        self._lock = threading.Lock()
        self.under_way = 0

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """Run work in a thread, and await its result."""
        with self._lock:
            if self.under_way >= self._max_under_way:
                raise Busy("too many requests at once: try again later")
            self.under_way += 1
        future = self._threads.submit(partial(work, *args))
        future.add_done_callback(self._done)
        return await asyncio.wrap_future(future)

    def _done(self, _: object) -> None:
        with self._lock:
            self.under_way -= 1

    def close(self) -> None:
        """Wait for running work; cancel what is queued."""
        self._threads.shutdown(wait=True, cancel_futures=True)


class FairWorkers:
    """A thread pool that owners of work share evenly. Used by one event loop.

    Each owner has a queue of its own, and owners take turns: whoever sends many requests waits for
    those, and others do not. An owner has at most `max_per_owner` running and
    `max_waiting_per_owner` waiting; in all at most `max_waiting` wait.
    """

    def __init__(
        self,
        name: str,
        threads: int,
        *,
        max_per_owner: int,
        max_waiting_per_owner: int,
        max_waiting: int,
    ) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._name = name
        self._free, self._max_per_owner = threads, max_per_owner
        self._max_of_owner, self._max_waiting = max_waiting_per_owner, max_waiting
        self._running: Counter[str] = Counter()
        self._queues: OrderedDict[str, deque[_Job]] = OrderedDict()  # the next owner first
        self._mean_seconds = 1.0

    async def run(self, owner: str, work: Callable[..., T], *args: Any) -> T:
        """Run work in a thread when it is the owner's turn, and await its result."""
        queue = self._queues.get(owner, ())
        if len(queue) >= self._max_of_owner:
            seconds = ceil(self._mean_seconds * len(queue) / self._max_per_owner)
            raise QueueFull(len(queue), min(max(seconds, 1), _MAX_RETRY_SECONDS))
        if sum(map(len, self._queues.values())) >= self._max_waiting:
            raise Busy("too many requests at once: try again later")
        job = _Job(owner, partial(in_step(self._name, work), *args))
        self._queues.setdefault(owner, deque()).append(job)
        self._start()
        result: T = await job.result
        return result

    @property
    def under_way(self) -> int:
        """How many requests run or wait."""
        return self._running.total() + sum(map(len, self._queues.values()))

    def _start(self) -> None:
        """Start what may run: of each owner in turn, the oldest."""
        while self._free:
            ready = (one for one in self._queues if self._running[one] < self._max_per_owner)
            owner = next(ready, None)
            if owner is None:
                return
            queue = self._queues[owner]
            job = queue.popleft()
            if queue:
                self._queues.move_to_end(owner)
            else:
                del self._queues[owner]
            if not job.result.cancelled():
                self._free -= 1
                self._running[owner] += 1
                running = asyncio.wrap_future(self._threads.submit(job.timed))
                running.add_done_callback(partial(self._done, job))

    def _done(self, job: "_Job", running: "asyncio.Future[Any]") -> None:
        self._free += 1
        self._running[job.owner] -= 1
        if not self._running[job.owner]:
            del self._running[job.owner]
        self._mean_seconds += _RECENT * (job.seconds - self._mean_seconds)
        if running.cancelled():
            job.result.cancel()
        elif not job.result.done():
            error = running.exception()
            if error is None:
                job.result.set_result(running.result())
            else:
                job.result.set_exception(error)
        else:  # its caller has gone
            running.exception()  # which nobody will retrieve
        self._start()

    def close(self) -> None:
        """Wait for running work; cancel what is queued."""
        for queue in self._queues.values():
            for job in queue:
                job.result.cancel()
        self._queues.clear()
        self._threads.shutdown(wait=True, cancel_futures=True)


class _Job:
    """Work of an owner, and its result once there is one."""

    def __init__(self, owner: str, work: Callable[[], Any]) -> None:
        self.owner, self._work = owner, work
        self.seconds = 0.0
        self.result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def timed(self) -> Any:
        """Do the work, and note how long it took."""
        begun = time.monotonic()
        try:
            return self._work()
        finally:
            self.seconds = time.monotonic() - begun
