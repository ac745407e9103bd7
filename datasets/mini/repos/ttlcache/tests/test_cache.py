import pytest

from ttlcache import TTLCache


def test_get_and_default(make_cache):
    cache = make_cache(a=1)
    assert cache.get("a") == 1
    assert cache.get("b") is None
    assert cache.get("b", 0) == 0


def test_least_recently_used_goes_first(make_cache):
    cache = make_cache(maxsize=2, a=1, b=2)
    cache.get("a")
    cache.set("c", 3)
    assert cache.keys() == ["a", "c"]
    assert cache.stats.evictions == 1


def test_overwriting_a_full_cache_evicts_nothing(make_cache):
    cache = make_cache(maxsize=2, a=1, b=2)
    cache.set("a", 10)
    assert cache.keys() == ["b", "a"]
    assert cache.get("a") == 10


def test_entry_expires(make_cache, clock):
    cache = make_cache(ttl=10, a=1)
    clock.advance(9)
    assert "a" in cache
    clock.advance(1)
    assert "a" not in cache
    assert cache.stats.expirations == 1


def test_own_ttl_of_an_entry(make_cache, clock):
    cache = make_cache(ttl=10)
    cache.set("short", 1, ttl=2)
    cache.set("long", 2, ttl=20)
    clock.advance(10)
    assert cache.keys() == ["long"]


def test_set_renews_the_time_to_live(make_cache, clock):
    cache = make_cache(ttl=10, a=1)
    clock.advance(8)
    cache.set("a", 2)
    clock.advance(8)
    assert cache.get("a") == 2


def test_delete(make_cache, clock):
    cache = make_cache(ttl=10, a=1, b=2)
    assert cache.delete("a") is True
    assert cache.delete("a") is False
    clock.advance(10)
    assert cache.delete("b") is False


def test_stats(make_cache):
    cache = make_cache(a=1)
    cache.get("a")
    cache.get("b")
    assert (cache.stats.hits, cache.stats.misses, cache.stats.hit_ratio) == (1, 1, 0.5)


@pytest.mark.parametrize(("maxsize", "ttl"), [(0, 1), (1, 0), (1, -1)])
def test_bad_limits(maxsize, ttl):
    with pytest.raises(ValueError):
        TTLCache(maxsize, ttl)
