from ttlcache import cached


def test_second_call_is_answered_from_the_cache(make_cache, clock):
    calls = []

    @cached(make_cache(ttl=10))
    def double(number):
        calls.append(number)
        return 2 * number

    assert (double(2), double(2), double(3)) == (4, 4, 6)
    assert calls == [2, 3]
    clock.advance(10)
    assert double(2) == 4
    assert calls == [2, 3, 2]
