"""What the commands share: the --json option, reading settings, the progress spinner."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

if TYPE_CHECKING:
    from kreach.service.config import Settings

__all__ = ["ConfigFile", "Json", "Seed", "progress_spinner", "split_names", "table_console"]

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
    if not console.is_terminal:
        return nullcontext(lambda _: None)
    return _Spinner(console)


class _Spinner:
    def __init__(self, console: Any) -> None:
        self._status = console.status("starting")

    def __enter__(self) -> Any:
        self._status.start()
        return self._status.update

    def __exit__(self, *_: object) -> None:
        self._status.stop()
