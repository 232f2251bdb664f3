"""Write pycanon.json: k, l and t of some tables according to pyCANON, in an environment of its own.

pyCANON needs older versions of NumPy, SciPy and Typer than kreach, so it cannot be installed beside
it. From the root of the repository:

    PYTHONPATH=src uv run --no-project --with pycanon==1.3.6 python tests/golden/pycanon_values.py
"""

import json
import random
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from kreach.publisher.grouping import ByRates, Diverse, DiversityFloors, form_groups
from kreach.publisher.people import Attribute, People

VALUES = Path(__file__).with_name("pycanon.json")


def tables() -> list[dict[str, Any]]:
    """Groups and values of people: by chance, all alike in a group, and formed with floors."""
    chance = random.Random(20)
    found = []
    for people, groups, conditions in ((12, 3, 2), (60, 5, 4), (200, 9, 3)):
        group = sorted(chance.randrange(groups) for _ in range(people))
        condition = [f"c{int(conditions * chance.random() ** 2)}" for _ in group]
        found.append({"group": group, "condition": condition, "age": _ages(chance, people)})
    group = [who // 10 for who in range(60)]
    condition = ["hiv" if g == 2 else "none" if g < 4 else f"c{g}" for g in group]
    found.append({"group": group, "condition": condition, "age": [30 + g for g in group]})
    condition = [chance.choice(["none"] * 8 + ["flu", "gout"]) for _ in range(300)]
    age = _ages(chance, 300)
    people_table = People(
        np.array([chance.randrange(50) for _ in age]),
        {"condition": Attribute.of(np.array(condition)), "age": Attribute.of(np.array(age))},
    )
    diverse = Diverse(ByRates(), ("condition", "age"), DiversityFloors(2, 1.4, 0.25))
    group = form_groups(people_table, 15, diverse, seed=4).group_of().tolist()
    found.append({"group": group, "condition": condition, "age": age})
    return found


def _ages(chance: random.Random, people: int) -> list[int]:
    return [18 + int(60 * chance.random() ** 1.5) for _ in range(people)]


def main() -> None:
    """Ask pyCANON about each table."""
    anonymity: Any = import_module("pycanon.anonymity")
    frame: Any = import_module("pandas").DataFrame
    answers = []
    for table in tables():
        data = frame(table)
        answer: dict[str, Any] = {"k": int(anonymity.k_anonymity(data, ["group"]))}
        for name in ("condition", "age"):
            answer[name] = {
                "l": int(anonymity.l_diversity(data, ["group"], [name])),
                "entropy_l": int(anonymity.entropy_l_diversity(data, ["group"], [name])),
                "t": float(anonymity.t_closeness(data, ["group"], [name])),
            }
        answers.append({"table": table, "answer": answer})
    document = {"pycanon": version("pycanon"), "tables": answers}
    VALUES.write_text(json.dumps(document) + "\n")


if __name__ == "__main__":
    main()
