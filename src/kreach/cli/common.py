"""What the commands share: the --json option, reading settings, the progress spinner."""

from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeVar

import typer

from kreach.display.progress import time_left

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kreach.adsystem.log.engine import Engine
    from kreach.service.config import Settings

__all__ = ["ConfigFile", "Json", "Seed", "progress_spinner", "split_names", "table_console"]

_POLL_SECONDS = 0.25

S = TypeVar("S", bound="Settings")

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Seed = Annotated[int, typer.Option(help="Random seed; the same seed gives the same result.")]


def split_names(text: str) -> tuple[str, ...]:
    """The names in a comma-separated list."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


class ConfigFile:
    """A settings file, or none; relative paths in it start at its folder."""

    def __init__(self, path: Path | None) -> None:
        from kreach.service.config import read_file

        self.document = read_file(path)
        self._base = Path.cwd() if path is None else path.absolute().parent

    def load(self, kind: type[S], section: str) -> S:
        """One section, with the environment on top of it."""
        from kreach.service.config import load_settings

        return load_settings(kind, section, self.document, base=self._base)


def table_console(min_width: int = 80) -> Any:
    """A console for tables: of the terminal's width; in a pipe or file at least `min_width`."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=max(console.width, min_width))
    return console


def progress_spinner() -> Any:
    """A spinner that shows the current step, on a terminal only."""
    from rich.console import Console

    console = Console(stderr=True)
    return _Spinner(console) if console.is_terminal else _Silent()


class _Silent:
    """No progress: in a pipe."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __call__(self, text: str) -> None:
        pass

    def scanning(self, engine: "Engine", text: str) -> AbstractContextManager[object]:
        """While an engine reads a log."""
        return nullcontext()


class _Spinner(_Silent):
    def __init__(self, console: Any) -> None:
        self._status = console.status("starting")

    def __enter__(self) -> Self:
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def __call__(self, text: str) -> None:
        self._status.update(text)

    @contextmanager
    def scanning(self, engine: "Engine", text: str) -> "Iterator[None]":
        """While an engine reads a log: how much of the pass is done, and how long it will take."""
        engine.count_progress()
        ended = Event()
        watcher = Thread(target=self._follow, args=(engine, text, ended), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()

    def _follow(self, engine: "Engine", text: str, ended: Event) -> None:
        self(text)
        begun, before = monotonic(), 0.0
        while not ended.wait(_POLL_SECONDS):
            share = engine.share_done()
            if share is None:
                continue
            if share < before:  # another pass over the log
                begun = monotonic()
            before = share
            self(f"{text}: {share:.0%} of this pass{time_left(share, monotonic() - begun)}")
