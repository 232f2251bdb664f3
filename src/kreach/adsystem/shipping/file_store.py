"""The object store or shared folder that closed log files are shipped to."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

from kreach.adsystem.store_layout import sync_path
from kreach.errors import KreachError
from kreach.extras import require_extra

if TYPE_CHECKING:
    from obstore.store import RetryConfig

__all__ = ["FileStore", "FilesUnavailable", "ObjectExists", "StoreSettings"]

_FEATURES = {"files": "shipping log files", "to": "kreach catalogues push"}


class StoreSettings(Protocol):
    """Where an object store is, and how to reach it."""

    @property
    def files(self) -> str | None:
        """The address: `s3://bucket/prefix`, `file:///folder` and so on."""

    @property
    def files_options(self) -> Mapping[str, str]:
        """What the address does not say: endpoint, region; never secrets."""

    @property
    def timeout_seconds(self) -> float:
        """How long a call may take, about."""


class FilesUnavailable(KreachError):
    """The object store cannot be reached or refuses: try again."""


class ObjectExists(KreachError):
    """Another object has this name: names are written once."""


class FileStore:
    """Objects by name. An object is written whole and once, and never changes."""

    def __init__(self, settings: StoreSettings, argument: str = "files") -> None:
        """`argument`: the setting that errors name."""
        require_extra(_FEATURES.get(argument, "fetching releases"), "object-store")
        import obstore  # noqa: PLC0415
        from obstore import exceptions  # noqa: PLC0415
        from obstore.store import from_url  # noqa: PLC0415

        self._obstore, self._errors = obstore, exceptions
        address = settings.files or ""
        self._folder: Path | None = None
        if address.startswith("file://"):
            self._folder = Path(unquote(urlsplit(address).path))
            if urlsplit(address).netloc:
                rule = "have three slashes after file:, and then a folder of this machine"
                raise KreachError.rule(argument, rule, address)
            if not self._folder.is_dir():
                raise KreachError.rule(argument, "be a folder that exists", str(self._folder))
        seconds = timedelta(seconds=settings.timeout_seconds)
        retry: RetryConfig = {"max_retries": 2, "retry_timeout": 2 * seconds}
        options = dict(settings.files_options)
        plain = options.pop("allow_http", "false") == "true"
        client = {"timeout": f"{5 * settings.timeout_seconds}s", "allow_http": plain}
        try:
            if self._folder is not None:
                self._store = from_url(address)
            else:
                given: dict[str, Any] = {"config": options, "client_options": client}
                self._store = from_url(address, retry_config=retry, **given)
        except exceptions.UnknownConfigurationKeyError:
            rule = "have names that this kind of store knows, such as endpoint and region"
            raise KreachError.rule("files_options", rule, ", ".join(options)) from None
        except (exceptions.BaseError, ValueError) as error:
            found = f"{address.partition('?')[0]} ({_first_line(error)})"
            rule = "name a store that the environment and files_options describe"
            raise KreachError.rule(argument, rule, found) from None

    @contextmanager
    def _available(self) -> Iterator[None]:
        if self._folder is not None and not self._folder.is_dir():  # and must not be made anew
            raise FilesUnavailable(f"the folder {self._folder} is not there: is it mounted?")
        try:
            yield
        except (self._errors.AlreadyExistsError, self._errors.NotFoundError, FileNotFoundError):
            raise
        except (self._errors.BaseError, OSError) as error:
            raise FilesUnavailable(f"the object store failed ({_first_line(error)})") from None

    def put_once(self, name: str, data: bytes) -> None:
        """Write an object. If it is there already it must be the same."""
        try:
            with self._available():
                self._obstore.put(self._store, name, data, mode="create", use_multipart=False)
        except (self._errors.AlreadyExistsError, self._errors.PreconditionError):
            if self.get(name) != data:
                raise ObjectExists(
                    f"{name} in the object store is another one: two bidders ship under one name, "
                    "or another log was shipped here"
                ) from None
        if self._folder is not None:
            path = self._folder / name
            sync_path(path)
            sync_path(path.parent)

    def get(self, name: str) -> bytes:
        """The whole object."""
        try:
            with self._available():
                return bytes(self._obstore.get(self._store, name).bytes())
        except (self._errors.NotFoundError, FileNotFoundError):
            raise FilesUnavailable(f"{name} is not in the object store") from None

    def list_names(self, folder: str, after: str = "") -> list[str]:
        """The names in a folder that sort after one, in order."""
        offset = after or None
        try:
            with self._available():
                pages = self._obstore.list(
                    self._store, prefix=folder, offset=offset, chunk_size=1_000
                )
                return sorted(str(each["path"]) for page in pages for each in page)
        except (self._errors.NotFoundError, FileNotFoundError):
            raise FilesUnavailable(f"{folder} in the object store changed under a list") from None

    def check(self) -> None:
        """Raise what keeps this store from being read."""
        self.list_names("bidders")
        if self._folder is not None and not os.access(self._folder, os.W_OK):
            raise KreachError.rule("files", "be a folder that can be written", str(self._folder))


def _first_line(error: Exception) -> str:
    """The kind of error: its text may hold addresses and headers."""
    kind = type(error).__name__
    text = str(error)
    for code in ("403", "404", "429", "500", "502", "503", "504"):
        if f" {code} " in text:
            return f"{kind}, status {code}"
    return kind
