"""The Redis of the simulation of faults leases as the script does on a real one."""

import random
from typing import Any

from simulations.money.redis import SimulatedRedis, Wire

from kreach.adsystem.sharing.redis_pool import BudgetStatus, RedisPool, RedisRestarted
from kreach.errors import KreachError
from tests.adsystem.sharing.faulty_members import settings_for

NAMES = ("a", "b", "c")


def a_status(chance: random.Random, number: int) -> BudgetStatus:
    spent, day = chance.randrange(400_000), chance.choice([-1, 0, 1])
    wanted = chance.choice([spent, chance.randrange(1_200_000)])
    day_spent = chance.randrange(100_000)
    return BudgetStatus(
        number, 1_000_000, spent, wanted, day, 300_000, day_spent, chance.randrange(350_000)
    )


def outcome(pool: RedisPool, budgets: list[BudgetStatus], joining: bool) -> Any:
    try:
        return pool.sync(budgets, joining=joining)
    except (RedisRestarted, KreachError) as error:
        pool.find_run()
        return str(error)


def test_it_answers_like_the_script(url: str) -> None:
    chance = random.Random(4)
    settings = settings_for(url, NAMES)
    simulated = SimulatedRedis()
    pools = {
        name: (
            RedisPool(settings, name, f"log-{name}", 1),
            RedisPool(settings, name, f"log-{name}", 1, lambda _: Wire(simulated)),
        )
        for name in NAMES
    }
    for pair in pools.values():
        for pool in pair:
            pool.find_run()
    answers = set()
    for _ in range(400):
        real, other = pools[chance.choice(NAMES)]
        budgets = [a_status(chance, number) for number in (1, 2, -1)]
        joining = chance.random() < 0.2
        if chance.random() < 0.05:  # an earlier sync, or one of another process
            for pool in (real, other):
                pool._syncs -= 2
        if chance.random() < 0.02:
            for pool in (real, other):
                pool.log_id += "x"
        answer = outcome(real, budgets, joining)
        assert outcome(other, budgets, joining) == answer
        answers.add(type(answer).__name__ + (answer if isinstance(answer, str) else ""))
    assert len(answers) >= 4  # leases and refusals of several kinds
    for pair in pools.values():
        for pool in pair:
            pool.close()
