"""Work on several processes gives what one gives, in the same order."""

import os

import numpy as np
import pytest

from kreach.errors import KreachError
from kreach.lab.trials import generator_for, run_trials, silent


def drawn(place: int) -> tuple[list[float], int]:
    return generator_for(7, place).random(3).tolist(), os.getpid()


def refused(place: int) -> int:
    if place == 2:
        raise KreachError.rule("place", "not be 2", place)
    return place


def test_one_and_two_processes_agree_to_the_last_digit() -> None:
    places = list(range(9))
    told: list[str] = []
    alone = run_trials(drawn, places, processes=1)
    shared = run_trials(
        drawn,
        places,
        processes=2,
        progress=lambda text: told.append(text.partition(", about")[0]),
        what="draws",
    )
    assert [values for values, _ in alone] == [values for values, _ in shared]
    assert told == [f"draws: {done} of 9" for done in range(1, 10)]
    assert {process for _, process in alone} == {os.getpid()}
    assert os.getpid() not in {process for _, process in shared}


def test_one_task_needs_no_other_process() -> None:
    assert run_trials(drawn, [4], processes=2) == [drawn(4)]


@pytest.mark.parametrize("processes", [1, 2])
def test_a_refusal_arrives_as_it_was_raised(processes: int) -> None:
    with pytest.raises(KreachError, match="place must not be 2, got 2"):
        run_trials(refused, [1, 2, 3], processes=processes)


@pytest.mark.parametrize("processes", [1, 2, None])
def test_no_tasks(processes: int | None) -> None:
    assert run_trials(refused, [], processes=processes) == []


def test_randomness_by_seed_and_place_only() -> None:
    def first(seed: int, *place: int) -> float:
        return float(generator_for(seed, *place).random())

    assert first(1, 2, 3) == first(1, 2, 3)
    values = [first(1, 2, 3), first(2, 2, 3), first(1, 3, 2), first(1, 2), first(1, 2, 3, 1)]
    assert len(set(values)) == len(values)
    assert isinstance(generator_for(0), np.random.Generator)


def test_silence(capsys: pytest.CaptureFixture[str]) -> None:
    silent("anything")
    assert capsys.readouterr() == ("", "")
