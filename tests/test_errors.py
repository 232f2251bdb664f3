"""An error carries its message, the field at fault and a code, also through pickle."""

import pickle

import pytest

from kreach.errors import KreachError


class Unknown(KreachError):
    """A subclass with a code of its own."""

    code = "unknown"


def test_a_message_alone_has_no_field() -> None:
    error = KreachError("campaign has ended and cannot be changed")
    assert (str(error), error.field, error.code) == (
        "campaign has ended and cannot be changed",
        None,
        "invalid",
    )


def test_a_rule_names_its_field() -> None:
    error = KreachError.rule("cap", "be at least 1", 0)
    assert (str(error), error.field, error.code) == (
        "cap must be at least 1, got 0",
        "cap",
        "invalid",
    )


def test_a_subclass_gives_its_own_code() -> None:
    error = Unknown.rule("campaign", "exist", "spring")
    assert isinstance(error, Unknown)
    assert (error.field, error.code) == ("campaign", "unknown")
    assert Unknown("taken", code="conflict").code == "conflict"


@pytest.mark.parametrize(
    "error",
    [
        KreachError("plain"),
        KreachError("with data", field="budget", code="required"),
        Unknown.rule("campaign", "exist", "spring"),
    ],
)
def test_pickling_keeps_everything(error: KreachError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (str(copy), copy.field, copy.code) == (str(error), error.field, error.code)
