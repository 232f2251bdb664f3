"""A real Redis for the tests of a module, emptied before each of them."""

from collections.abc import Iterator

import pytest
import redis
from simulations.fleet import RedisServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A Redis that the tests of a module have to themselves."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as made:
        yield made


@pytest.fixture
def url(server: RedisServer) -> str:
    """Where it is, with nothing in it."""
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    return server.url
