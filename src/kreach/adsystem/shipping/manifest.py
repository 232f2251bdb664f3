"""The manifest of shipped files: one entry for each round of compaction, written once.

An entry lists the files of a round, and the rows that moved into them. Files count when their entry
is there. It is written after them, under a name that follows from the rows: whoever ships a round a
second time writes the same entry or none.
"""

import hashlib
import re

import msgspec

from kreach.errors import KreachError

__all__ = [
    "ManifestEntry",
    "RefusedEntry",
    "ShippedFile",
    "catalogues_folder",
    "decode_entry",
    "encode_entry",
    "entry_name",
    "manifest_folder",
    "object_name",
    "sha256",
]

_LOCAL = re.compile(r"day=\d{4}-\d\d-\d\d/part-\d{12}-\d{12}(\.e\d+)?\.parquet")
_OBJECT = re.compile(r"bidders/[a-z0-9-]+/log/day=[0-9-]+/[A-Za-z0-9.-]+\.parquet")


class RefusedEntry(KreachError):
    """An entry or a file of a manifest that is foreign or damaged."""


class ShippedFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file: its name in the log, that of its object, and what is in it."""

    name: str
    object: str
    rows: int
    bytes: int
    sha256: str


class ManifestEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The files of one round; `previous` is the last row of the round before it, or 0."""

    bidder: str
    log: str  # the id of the journal
    generation: int  # rises when a repair rewrote the log
    previous: int
    first_row: int
    last_row: int
    files: tuple[ShippedFile, ...]
    check: str = ""


def sha256(data: bytes) -> str:
    """The checksum of a file."""
    return hashlib.sha256(data).hexdigest()


def manifest_folder(bidder: str, generation: int) -> str:
    """Where the entries of a bidder are."""
    return f"bidders/{bidder}/manifest/{generation:08d}"


def catalogues_folder(bidder: str) -> str:
    """Where the group ids of a bidder's catalogues are."""
    return f"bidders/{bidder}/catalogues"


def entry_name(bidder: str, generation: int, last_row: int) -> str:
    """The name of an entry; names sort as rounds do."""
    return f"{manifest_folder(bidder, generation)}/{last_row:012d}.json"


def object_name(bidder: str, name: str, checksum: str) -> str:
    """The name of a file's object: another content has another name."""
    return f"bidders/{bidder}/log/{name.removesuffix('.parquet')}.{checksum[:16]}.parquet"


def encode_entry(entry: ManifestEntry) -> bytes:
    """An entry as JSON, with a checksum of itself."""
    plain = msgspec.json.encode(msgspec.structs.replace(entry, check=""))
    return msgspec.json.encode(msgspec.structs.replace(entry, check=sha256(plain)))


def decode_entry(data: bytes, name: str, bidder: str) -> ManifestEntry:
    """An entry that was read under a name; refuses one that is foreign, damaged or misplaced."""
    try:
        entry = msgspec.json.decode(data, type=ManifestEntry)
    except msgspec.DecodeError as error:
        raise RefusedEntry(
            f"{name} is foreign or damaged ({error}): delete what does not belong "
            "there, or restore it"
        ) from None
    plain = msgspec.json.encode(msgspec.structs.replace(entry, check=""))
    place = entry_name(entry.bidder, entry.generation, entry.last_row)
    if entry.check != sha256(plain) or entry.bidder != bidder or place != name:
        raise RefusedEntry(f"{name} is damaged, or of another bidder: restore it")
    for file in entry.files:
        if not _LOCAL.fullmatch(file.name) or not _OBJECT.fullmatch(file.object):
            raise RefusedEntry(f"{name} lists a file that compaction does not write")
    return entry
