"""Bodies are decoded into types, or refused with the field at fault and without a quote."""

import msgspec
import pytest

from kreach.errors import KreachError
from kreach.service.bodies import BodyTooLong, check_length, decode_body


class Inner(msgspec.Struct):
    count: int


class Body(msgspec.Struct):
    name: str
    inner: Inner | None = None
    items: tuple[int, ...] = ()


DECODER = msgspec.json.Decoder(Body)


def refusal(body: bytes) -> KreachError:
    with pytest.raises(KreachError) as caught:
        decode_body(DECODER, body)
    assert caught.value.__cause__ is None
    return caught.value


def test_a_body_is_decoded() -> None:
    body = decode_body(DECODER, b'{"name": "a", "inner": {"count": 2}, "other": 1}')
    assert body == Body("a", Inner(2))


@pytest.mark.parametrize(
    ("body", "field", "code"),
    [
        (b"{}", "name", "required"),
        (b'{"name": "SECRET", "inner": {}}', "inner.count", "required"),
        (b'{"name": 17}', "name", "invalid"),
        (b'{"name": "SECRET", "inner": {"count": "SECRET"}}', "inner.count", "invalid"),
        (b'{"name": "SECRET", "items": [1, "SECRET"]}', "items[1]", "invalid"),
        (b'["SECRET"]', "body", "invalid"),
        (b"SECRET", "body", "invalid"),
        (b'{"name": "SECRET\xff"}', "body", "invalid"),
        (b"[" * 100_000, "body", "invalid"),
    ],
    ids=range(9),
)
def test_a_refusal_names_the_field(body: bytes, field: str, code: str) -> None:
    error = refusal(body)
    assert (error.field, error.code) == (field, code)
    assert "SECRET" not in str(error)
    assert field in str(error)


def test_the_limit_is_inclusive() -> None:
    check_length(b"x" * 10, 10)
    with pytest.raises(BodyTooLong, match=r"^body must have at most 10 bytes$"):
        check_length(b"x" * 11, 10)
