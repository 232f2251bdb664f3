"""No user id, nor anything that leads back to one, in what leaves the publisher."""

import base64
import hashlib
import pickle
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest

from kreach.boundary.files import write_groups
from kreach.publisher.directory import Directory
from kreach.publisher.grouping import AtRandom, Overlapping, form_groups
from kreach.publisher.people import People
from kreach.publisher.release import ReleaseRefused, release
from tests.publisher.populations import KEY, NOW, run_kreach

PEOPLE = 150
RANDOM = np.random.default_rng(41)
CANARIES = [f"CANARY-{uuid.UUID(bytes=RANDOM.bytes(16), version=4)}" for _ in range(PEOPLE)]
EMAILS = [f"{canary.lower()}@mail.example" for canary in CANARIES]
STRATEGIES = ["random", "attributes", "segments", "rates", "segments+rates", "overlapping"]


def traces(secret: str) -> Iterator[bytes]:
    """A secret in the forms in which it might hide: plain, encoded, hashed."""
    raw = secret.encode()
    yield from (raw, raw.hex().encode(), base64.b64encode(raw)[:-4], base64.b32encode(raw)[:-8])
    for algorithm in ("md5", "sha1", "sha256", "sha512", "blake2b", "blake2s"):
        digest = hashlib.new(algorithm, raw).digest()
        yield digest
        yield digest.hex().encode()
        yield base64.b64encode(digest).rstrip(b"=")
        yield base64.urlsafe_b64encode(digest).rstrip(b"=")
        yield base64.b32encode(digest).rstrip(b"=")
    for size in (8, 10, 16):
        short = hashlib.blake2b(raw, digest_size=size)
        yield short.digest()
        yield short.hexdigest().encode()
        yield base64.b32encode(short.digest()).rstrip(b"=")


SECRETS = [
    *CANARIES,
    *(canary.removeprefix("CANARY-") for canary in CANARIES),
    *(canary.removeprefix("CANARY-").replace("-", "") for canary in CANARIES),
    *EMAILS,
]
TRACES = {trace.lower() for secret in SECRETS for trace in traces(secret)}
TRACES |= {canary[7:20].encode() for canary in CANARIES}  # half an id is too much
BY_HEAD: dict[bytes, list[bytes]] = {}
for _trace in TRACES:
    BY_HEAD.setdefault(_trace[:8], []).append(_trace)


def found_in(content: bytes) -> list[bytes]:
    """The traces that occur in some bytes, whatever the case of letters."""
    content = content.lower()
    return [
        trace
        for at in range(len(content) - 7)
        for trace in BY_HEAD.get(content[at : at + 8], ())
        if content.startswith(trace, at)
    ]


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Visits of canaries, with their addresses as one more column."""
    path = tmp_path_factory.mktemp("visits") / "visits.csv"
    generator = np.random.default_rng(42)
    lines = ["user_id,ts,email,town,age"]
    for who in range(PEOPLE):
        town, age = generator.integers(3), generator.integers(18, 80)
        lines.extend(
            f"{CANARIES[who]},2026-01-{day:02}T0{hour}:00:00Z,{EMAILS[who]},town-{town},{age}"
            for day in range(1, 3 + int(generator.integers(8)))
            for hour in generator.integers(0, 9, 1).tolist()
        )
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_search_finds_what_it_looks_for() -> None:
    hidden = b"x" + hashlib.sha256(CANARIES[3].encode()).hexdigest().upper().encode() + b"y"
    assert found_in(b"nothing here" * 20) == []
    assert found_in(b"..." + EMAILS[5].encode() + b"...")
    assert found_in(hidden)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_build_hands_over_no_canary(strategy: str, visits: Path, tmp_path: Path) -> None:
    out = tmp_path / "groups"
    code, said, complained = run_kreach(
        *("groups", "build", "--visits", str(visits), "--group-size", "12"),
        *("--strategy", strategy, "--out", str(out), "--segments", "town"),
        *("--attributes", "town,age", "--json"),
    )
    assert code == 0, complained
    handed_over = list((out / "release").rglob("*"))
    assert len(handed_over) == (3 if strategy == "overlapping" else 2)
    for path in handed_over:
        assert found_in(path.read_bytes()) == [], path.name
    assert found_in((said + complained).encode()) == []
    # that the test can fail: the same search finds them in what stays
    assert found_in((out / "publisher" / "people.parquet").read_bytes())


@pytest.mark.parametrize("role", ["--keep", "--segments", "--attributes", "--sensitive"])
def test_a_column_that_identifies_is_refused(role: str, visits: Path, tmp_path: Path) -> None:
    renamed = tmp_path / "renamed.csv"
    renamed.write_text(visits.read_text().replace("email", "score", 1))
    code, said, complained = run_kreach(
        *("groups", "build", "--visits", str(renamed), "--group-size", "12"),
        *("--out", str(tmp_path / "out"), role, "score"),
    )
    assert (code, said) == (1, "")
    assert "column score identifies people: 100% of them" in complained
    assert found_in(complained.encode()) == []
    assert not (tmp_path / "out").exists()


def test_an_audit_shows_no_canary(visits: Path, tmp_path: Path) -> None:
    """Of a build that keeps addresses, which an earlier version allowed."""
    out = tmp_path / "groups"
    _, *released = run_kreach(
        *("groups", "build", "--visits", str(visits), "--group-size", "12"),
        *("--out", str(out), "--segments", "town"),
    )
    people = out / "publisher" / "people.parquet"
    emails = {"user_id": np.array(CANARIES, object), "attribute_email": np.array(EMAILS, object)}
    with duckdb.connect() as engine:
        engine.register("emails", emails)
        table = f"SELECT p.*, attribute_email FROM '{people}' p JOIN emails USING (user_id)"
        engine.execute(f"CREATE TABLE joined AS {table} ORDER BY user_id")
        engine.execute(f"COPY joined TO '{people}' (FORMAT parquet)")
    page = tmp_path / "audit.html"
    code, *shown = run_kreach(
        *("groups", "audit", str(out), "--segments", "town,email", "--sensitive", "email"),
        *("--html", str(page)),
    )
    assert code == 1
    assert "email identifies people" in page.read_text()
    for content in (*released, *shown, page.read_text()):
        assert found_in(content.encode()) == []


@pytest.mark.parametrize("knowledge", ["none", "dispersion", "shares", "overlapping"])
def test_released_objects_carry_no_canary(knowledge: str, visits: Path, tmp_path: Path) -> None:
    people = Directory(visits).people(("town", "email"))
    strategy = Overlapping(2, 10) if knowledge == "overlapping" else AtRandom()
    assignment = form_groups(people, 12, strategy, seed=1)
    released = release(
        people,
        assignment,
        key=KEY,
        buyer="acme",
        version="v1",
        now=NOW,
        knowledge="none" if knowledge == "overlapping" else knowledge,
    )
    targeted = people.attribute("town").codes == 0
    crossing = [
        released.catalogue,
        released.audience(),
        released.audience(targeted, below="drop"),
    ]
    for value in crossing:
        assert found_in(pickle.dumps(value)) == []
        assert found_in(repr(value).encode()) == []
    assert KEY not in pickle.dumps(crossing)
    if knowledge != "overlapping":
        counts = released.targeted_counts(targeted, below="drop")
        write_groups(released.catalogue, tmp_path / "campaign.parquet", counts)
        assert found_in((tmp_path / "campaign.parquet").read_bytes()) == []


def test_a_catalogue_does_not_depend_on_who_the_ids_are(visits: Path) -> None:
    """The same habits under other ids: byte for byte the same catalogue."""
    people = Directory(visits).people()
    assignment = form_groups(people, 12, AtRandom(), seed=1)
    nobody = People(people.visits.copy())
    one, other = (
        release(who, assignment, key=KEY, buyer="acme", version="v1", now=NOW).catalogue
        for who in (people, nobody)
    )
    assert pickle.dumps(one) == pickle.dumps(other)


def test_a_refusal_shows_no_canary(visits: Path) -> None:
    people = Directory(visits).people()
    assignment = form_groups(people, 12, Overlapping(3, 1), seed=1)
    with pytest.raises(ReleaseRefused) as caught:
        release(people, assignment, key=KEY, buyer="acme", version="v1", now=NOW)
    assert found_in(str(caught.value).encode()) == []
    assert found_in(repr(caught.value).encode()) == []


BROKEN: dict[str, Callable[[str], str]] = {
    "no time": lambda row: row.replace("2026-01-01", "soon"),
    "columns swapped": lambda row: ",".join(
        [row.split(",")[1], row.split(",")[0], *row.split(",")[2:]]
    ),
    "too short": lambda row: row.split(",")[0],
    "too long": lambda row: row + ",and,more",
    "quote left open": lambda row: '"' + row,
    "id missing": lambda row: "," + row.split(",", 1)[1],
}


@pytest.mark.parametrize(
    ("fault", "early"),
    [*((fault, True) for fault in sorted(BROKEN)), ("no time", False), ("too short", False)],
)
def test_errors_on_a_broken_file_show_no_canary(
    fault: str, early: bool, visits: Path, tmp_path: Path
) -> None:
    """A broken row among the first, or after the rows that the engine guesses types from."""
    head, *rows = visits.read_text().splitlines()
    rows = rows if early else rows * 20
    at = 3 if early else len(rows) - 2
    rows[at] = BROKEN[fault](rows[at])
    broken = tmp_path / "visits.csv"
    broken.write_text("\n".join([head, *rows]) + "\n")
    code, said, complained = run_kreach(
        *("groups", "build", "--visits", str(broken), "--group-size", "12"),
        *("--attributes", "age,town", "--strategy", "attributes", "--out", str(tmp_path / "out")),
    )
    assert found_in((said + complained).encode()) == []
    assert "Traceback" not in complained
    assert (tmp_path / "out").exists() == (code == 0)


def test_an_attribute_that_turns_to_text_late_shows_no_canary(visits: Path, tmp_path: Path) -> None:
    head, *rows = visits.read_text().splitlines()
    rows = rows * 20
    rows.append(rows[0].rsplit(",", 1)[0] + ",old")
    broken = tmp_path / "visits.csv"
    broken.write_text("\n".join([head, *rows]) + "\n")
    _, said, complained = run_kreach(
        *("groups", "build", "--visits", str(broken), "--group-size", "12"),
        *("--attributes", "age", "--strategy", "attributes", "--out", str(tmp_path / "out")),
    )
    assert found_in((said + complained).encode()) == []
    assert "Traceback" not in complained


def test_wrong_use_shows_no_canary(visits: Path, tmp_path: Path) -> None:
    for wrong in (
        ("--group-size", "999"),
        ("--group-size", "12", "--strategy", "segments", "--segments", "emial"),
        ("--group-size", "12", "--history-end", "soon"),
        ("--group-size", "12", "--knowledge", "everything"),
    ):
        code, said, complained = run_kreach(
            "groups", "build", "--visits", str(visits), "--out", str(tmp_path / "out"), *wrong
        )
        assert (code, said) == (1, "")
        assert found_in(complained.encode()) == []
