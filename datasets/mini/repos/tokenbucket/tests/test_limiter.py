import unittest

from tokenbucket import Limiter, ManualClock


class LimiterTest(unittest.TestCase):
    def setUp(self):
        self.clock = ManualClock()
        self.limiter = Limiter(rate=1, capacity=2, clock=self.clock)

    def test_keys_are_independent(self):
        self.assertEqual([self.limiter.allow("a") for _ in range(3)], [True, True, False])
        self.assertTrue(self.limiter.allow("b"))

    def test_retry_after(self):
        self.limiter.allow("a", 2)
        self.assertEqual(self.limiter.retry_after("a"), 1.0)

    def test_prune_forgets_full_buckets(self):
        self.limiter.allow("a")
        self.limiter.allow("b", 2)
        self.clock.advance(1)
        self.assertEqual(self.limiter.prune(), 1)
        self.assertEqual(len(self.limiter), 1)


if __name__ == "__main__":
    unittest.main()
