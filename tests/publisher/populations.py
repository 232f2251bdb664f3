"""Populations and files for the tests of the publisher's side. Nothing real, all seeded."""

import contextlib
import io
import sys
import traceback
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
from hypothesis import strategies as st

from kreach.cli import main
from kreach.numeric.types import IntArray
from kreach.publisher.grouping import (
    AtRandom,
    ByAttributes,
    ByRates,
    BySegments,
    Overlapping,
    Strategy,
)
from kreach.publisher.people import Attribute, People

__all__ = [
    "KEY",
    "NOW",
    "STRATEGIES",
    "column",
    "crowd",
    "dirichlet_visits",
    "populations",
    "run_kreach",
    "write_csv",
    "write_parquet",
]

NOW = datetime(2026, 11, 1, tzinfo=UTC)
KEY = bytes(range(32))

STRATEGIES: dict[str, Strategy] = {
    "random": AtRandom(),
    "rates": ByRates(),
    "attributes": ByAttributes(("town", "age", "same", "unknown")),
    "attributes, all": ByAttributes(),
    "segments": BySegments(("town", "same", "age", "unknown")),
    "segments of nothing known": BySegments(("unknown",)),
    "segments+rates": BySegments(("town", "age"), by_rate=True),
    "overlapping": Overlapping(partitions=3, floor=4),
    "overlapping, no floor": Overlapping(partitions=2, floor=1),
}


@st.composite
def populations(draw: st.DrawFn, most: int = 90) -> People:
    """Any population: one person and more, ties, one value for all, values missing for all."""
    count = draw(st.integers(1, most))
    busiest = draw(st.sampled_from([0, 1, 5, 1_000]))
    choices: list[list[str | None]] = [["Bath"], ["Bath", "York"], ["Bath", "York", "Ely", None]]
    towns = draw(st.sampled_from(choices))
    seed = draw(st.integers(0, 2**16))
    generator = np.random.default_rng(seed)
    ages = generator.integers(0, draw(st.sampled_from([1, 3, 80])) + 1, count).astype(float)
    ages[generator.random(count) < draw(st.sampled_from([0.0, 0.3]))] = np.nan
    skew = draw(st.sampled_from([1.0, 3.0]))
    picks = (len(towns) * generator.random(count) ** skew).astype(int)
    return People(
        generator.integers(0, busiest + 1, count),
        {
            "town": column([towns[pick] for pick in picks.tolist()]),
            "age": Attribute.of(ages),
            "same": column(["everybody"] * count),
            "unknown": column([None] * count),
        },
    )


def column(values: Sequence[object]) -> Attribute:
    """An attribute from plain values."""
    cells = np.empty(len(values), dtype=object)
    cells[:] = values
    return Attribute.of(cells)


def crowd(count: int, seed: int) -> People:
    """People with uneven visits and two targeting attributes, one of them with a long tail."""
    generator = np.random.default_rng(seed)
    return People(
        generator.negative_binomial(0.8, 0.8 / (0.8 + 8.0), count),
        {
            "town": Attribute.of(np.minimum(generator.geometric(0.35, count), 12)),
            "device": Attribute.of(generator.integers(0, 3, count)),
            "age": Attribute.of(generator.normal(40.0, 15.0, count).round()),
        },
    )


def dirichlet_visits(
    groups: int, size: int, dispersion: float, per_group: int, seed: int
) -> tuple[IntArray, IntArray]:
    """Visits of everybody and their group, with shares drawn from a symmetric Dirichlet law."""
    generator = np.random.default_rng(seed)
    shares = generator.dirichlet(np.full(size, dispersion), groups)
    visits = generator.multinomial(generator.poisson(per_group, groups), shares)
    return visits.ravel(), np.repeat(np.arange(groups), size)


def write_parquet(path: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Path:
    """A Parquet file whose columns have the types that the engine sees in "name type"."""
    names = [declared.rsplit(" ", 1)[0] for declared in columns]
    types = [declared.rsplit(" ", 1)[1] for declared in columns]
    listed = ", ".join(
        '"{}" {}'.format(name.replace('"', '""'), kind)
        for name, kind in zip(names, types, strict=True)
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'")
        engine.execute(f"CREATE TABLE made ({listed})")
        marks = ", ".join("?" for _ in names)
        for row in rows:
            engine.execute(f"INSERT INTO made VALUES ({marks})", list(row))
        text = str(path).replace("'", "''")
        engine.execute(f"COPY made TO '{text}' (FORMAT parquet)")
    return path


def write_csv(path: Path, *lines: str) -> Path:
    """A CSV file from its lines."""
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def run_kreach(*arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of the command, in this process.

    What nobody catches is printed as a traceback, as the interpreter would.
    """
    out, err = io.StringIO(), io.StringIO()
    with (
        patch.object(sys, "argv", ["kreach", *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        except Exception:
            traceback.print_exc()
            code = 1
    return code, out.getvalue(), err.getvalue()
