"""What bidders publish: new rows of the journal in order, and other rows that reporting reads.

A batch names its place twice. `epoch` and `sequence` say which of two batches is newer, so that a
duplicate, or one that an ended process sent late, changes nothing. `after` is the row before its
rows: a reader that does not have that row has missed some.
"""

import hashlib
from typing import Any

import msgspec

from kreach.errors import KreachError

__all__ = ["Batch", "RefusedBatch", "decode_batch", "encode_batch"]

_MAGIC = b"kreach-log-1"
_DIGEST_BYTES = 16

ShippedRow = tuple[int, int, int, int, int, int, int, int, int]
"""Row number, impression number, campaign, catalogue, group, ts, bid_ts, expires, micros."""


class RefusedBatch(KreachError):
    """A message of the stream that is not one of ours, or not whole."""


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of one bidder's journal."""

    bidder: str
    log: str  # the journal's id
    generation: int  # rises when a repair rewrote the log
    epoch: int
    sequence: int  # from 1 in each epoch
    at_us: int  # when it was made, by the bidder's clock
    after: int
    last_row: int  # the newest of the journal
    rows: tuple[ShippedRow, ...] = ()
    tables: dict[str, list[list[Any]]] = {}
    full_from: int = 0  # of a complete copy of the tables: the sequence where it begins
    resumed: bool = False  # sequence numbers before it may be missing: all of theirs follows
    stopped: bool = False  # the bidder was stopped in order: no rows follow

    @property
    def order(self) -> tuple[int, int]:
        """Newer batches have a larger one."""
        return self.epoch, self.sequence

    @property
    def key(self) -> str:
        """By which a stream may recognize a duplicate."""
        return f"{self.bidder}:{self.log}:{self.epoch}:{self.sequence}"


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Batch)


def encode_batch(batch: Batch) -> bytes:
    """A batch as bytes, with a digest."""
    body = _ENCODER.encode(batch)
    return _MAGIC + hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest() + body


def decode_batch(data: bytes, bidder: str) -> Batch:
    """A batch of a bidder; anything else is refused."""
    head = len(_MAGIC) + _DIGEST_BYTES
    body = data[head:]
    digest = hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()
    if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : head] != digest:
        raise RefusedBatch(
            f"the stream of bidder {bidder} holds a message that is foreign or damaged: find out "
            "who else writes to it"
        )
    try:
        batch = _DECODER.decode(body)
    except msgspec.ValidationError as error:
        raise RefusedBatch(
            f"the stream of bidder {bidder} holds a message of another kreach ({error}): "
            "upgrade reporting before bidders"
        ) from None
    if batch.bidder != bidder:
        raise RefusedBatch(f"the stream of bidder {bidder} holds a message of {batch.bidder}")
    return batch
