import unittest

from tokenbucket import ManualClock, TokenBucket


class TokenBucketTest(unittest.TestCase):
    def setUp(self):
        self.clock = ManualClock(100.0)

    def make(self, rate, capacity):
        return TokenBucket(rate, capacity, clock=self.clock)

    def test_starts_full(self):
        bucket = self.make(1, 3)
        self.assertEqual([bucket.take() for _ in range(4)], [True, True, True, False])

    def test_refills_with_time(self):
        bucket = self.make(2, 4)
        bucket.take(4)
        self.clock.advance(1)
        self.assertEqual(bucket.available, 2)

    def test_never_exceeds_its_capacity(self):
        bucket = self.make(10, 4)
        self.clock.advance(3600)
        self.assertEqual(bucket.available, 4)

    def test_takes_all_or_nothing(self):
        bucket = self.make(1, 5)
        bucket.take(3)
        self.assertFalse(bucket.take(3))
        self.assertEqual(bucket.available, 2)

    def test_wait_time(self):
        bucket = self.make(0.5, 2)
        self.assertEqual(bucket.wait_time(2), 0.0)
        bucket.take(2)
        self.assertEqual(bucket.wait_time(), 2.0)
        self.assertEqual(bucket.wait_time(2), 4.0)

    def test_bad_arguments(self):
        with self.assertRaises(ValueError):
            self.make(0, 1)
        with self.assertRaises(ValueError):
            self.make(1, 0)
        with self.assertRaises(ValueError):
            self.make(1, 2).take(3)


if __name__ == "__main__":
    unittest.main()
