import pytest

from ttlcache import TTLCache


class FakeClock:
    """Seconds that pass only when a test says so."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now

    def advance(self, seconds):
        self.now += seconds


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def make_cache(clock):
    """A factory of caches that share the test's clock."""

    def make(maxsize=3, ttl=60.0, **entries):
        cache = TTLCache(maxsize, ttl, clock=clock)
        for key, value in entries.items():
            cache.set(key, value)
        return cache

    return make
